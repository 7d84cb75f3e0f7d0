/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - what the files of the CUDA runtime on the CPU (cuda.c) share. */
#ifndef TEST_WHOLE_STREAM_H_
#define TEST_WHOLE_STREAM_H_

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/shared/args.h"
#include "test/whole/cuda.h"

enum { DEVICES = 8, OBJECTS_OF_GRAPH = 4096 };

/* OUTSIDE is in graphs only: a node that waits for an event of work outside of the graph. */
enum kind { KERNEL, COPY, FILL, RECORD, WAIT, OUTSIDE, HOST, AWAIT_WORD, WRITE_WORD };

struct op {
    enum kind kind;
    struct op *next;
    const void *kernel, *from;
    void *to;
    size_t bytes;
    int ctas, threads, device, value;
    struct mark *mark;
    cudaEvent_t event; /* for OUTSIDE */
    /* in a graph: the stream into which the program put the operation */
    struct CUstream_st *captured;
    void (*host)(void *what);
    struct ar_args args;
    max_align_t what[16]; /* the argument of ${host} */
};

/* One call of cudaEventRecord. cudaStreamWaitEvent waits for the mark that is the event's latest
 * when it is called, and not for marks that the event gets later. */
struct mark {
    bool reached;
    /* number of references: one of the event, and one of each operation that records the mark or
     * waits for it */
    int refs;
    struct mark *again; /* in a graph: the copy of this mark in the replay that is being started */
};

struct CUevent_st {
    struct mark *latest;      /* NULL: the event was never recorded */
    struct CUgraph_st *graph; /* the capture that recorded it last; NULL: no capture did */
};

/* A node of a graph that records an event for work outside of the graph. No operation follows it.
 * To move such a node, the library first adds an edge from another operation, and then removes the
 * old edge. */
struct end {
    struct end *next;
    cudaEvent_t event;
    /* after: the operation that the node follows; before: the one whose edge must still be removed,
     * or NULL */
    const struct op *after, *before;
};

struct object_of_cuda {
    void *what;
    cudaHostFn_t drop;
    int refs;
};

struct CUgraph_st {
    struct op *first, **last;
    struct end *ends;
    struct CUstream_st *origin; /* the stream on which the capture began */
    struct object_of_cuda *objects[OBJECTS_OF_GRAPH];
    int n_objects, refs;
    unsigned long long id;
};

struct CUstream_st {
    int device;
    unsigned long long id;
    pthread_t thread;
    struct op *first, **last;
    bool busy, ended;
    struct CUgraph_st *graph; /* NULL: the stream is not being captured */
    struct CUstream_st *next;
};

/* One lock for all data here. Kernels take most of the time, and they run without the lock. */
extern pthread_mutex_t whole_lock;
extern pthread_cond_t whole_changed;
extern struct CUstream_st *whole_list;   /* all streams */
extern unsigned long long whole_numbers; /* number of ids that were given so far */
extern _Thread_local int whole_current;  /* the GPU that this thread uses */

/* Return ${error}, and keep it for cudaGetLastError. */
cudaError_t whole_error(cudaError_t error);
/* Add ${more} to fake.live, the number of allocations, streams, events and user objects that are
 * not freed. */
void whole_live(int more);
/* Called by functions that CUDA prohibits as long as a stream is captured, except in the capture
 * mode relaxed. Counts the call if it is prohibited now. */
void whole_prohibited(void);
extern int whole_captures; /* number of captures that have not ended; atomic */
/* Has cudaFuncSetAttribute allowed this kernel more shared memory? */
bool whole_may_share(const void *kernel);

/* Put an operation into a stream. If the stream is being captured, put it into the stream's graph.
 * Takes the lock. */
cudaError_t whole_queue(cudaStream_t stream, struct op op);

/* ---- call these with the lock held ----------------------------------------------------------- */

/* Give ${event} a new mark, and return it, with a reference for the operation that records it.
 * ${graph} is the capture that records the event, or NULL. */
struct mark *whole_mark(cudaEvent_t event, struct CUgraph_st *graph);
/* Return ${stream}. If it is NULL, return the standard stream of this thread's GPU. */
struct CUstream_st *whole_stream_of(cudaStream_t stream);
/* Add a copy of ${op} at the end of a list, and return the copy. */
struct op *whole_append(struct op ***last, const struct op *op);
/* Make a stream. */
struct CUstream_st *whole_stream_begin(int device);
/* Let the thread of ${s} end when it has run all operations. ${s} itself is never freed. */
void whole_stream_end(struct CUstream_st *s);
/* Drop a reference to ${mark}, which may be NULL, and free the mark with its last reference. */
void whole_let_go(struct mark *mark);

#endif

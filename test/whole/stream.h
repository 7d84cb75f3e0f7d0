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

enum kind { KERNEL, COPY, FILL, RECORD, WAIT, HOST, AWAIT_WORD, WRITE_WORD };

struct op {
    enum kind kind;
    struct op *next;
    const void *kernel, *from;
    void *to;
    size_t bytes;
    int ctas, threads, device, value;
    struct mark *mark;
    struct CUstream_st *captured; /* in a graph: the stream that the operation was put into */
    void (*host)(void *what);
    struct ar_args args;
    max_align_t what[16]; /* of a host function */
};

/* One record of an event. A wait is for the latest record at the time of the call, whatever is
 * recorded later, perhaps on another stream. */
struct mark {
    bool reached;
    int refs; /* the event, and operations that wait for it or reach it */
    struct mark *again; /* of a captured record: that of the replay which is being started */
};

struct CUevent_st {
    struct mark *latest;      /* NULL: never recorded */
    struct CUgraph_st *graph; /* of the capture in which it was recorded last */
};

struct object_of_cuda {
    void *what;
    cudaHostFn_t drop;
    int refs;
};

struct CUgraph_st {
    struct op *first, **last;
    struct CUstream_st *origin; /* the stream whose capture this is */
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
    struct CUgraph_st *graph; /* NULL: does not capture */
    struct CUstream_st *next;
};

/* One lock for all: the time goes into kernels, which run without it. */
extern pthread_mutex_t whole_lock;
extern pthread_cond_t whole_changed;
extern struct CUstream_st *whole_list;   /* all streams */
extern unsigned long long whole_numbers; /* ids given so far */
extern _Thread_local int whole_current;  /* the GPU that this thread uses */

/* Return ${error}, and keep it for cudaGetLastError. */
cudaError_t whole_error(cudaError_t error);
/* Count memory, streams, events and objects of graphs that are not freed: fake.live. */
void whole_live(int more);
/* May this kernel have more shared memory than usual? */
bool whole_may_share(const void *kernel);

/* These two with the lock held. Return the stream, or the standard one of the GPU if it is NULL. Add
 * a copy of ${op} at the end of a list. */
struct CUstream_st *whole_stream_of(cudaStream_t stream);
void whole_append(struct op ***last, const struct op *op);
/* A new stream, and one that ends after its work, with the lock held. */
struct CUstream_st *whole_stream_begin(int device);
void whole_stream_end(struct CUstream_st *s);
/* Put an operation into a stream or its capture, with the lock not held. */
cudaError_t whole_queue(cudaStream_t stream, struct op op);
/* Let go of a mark, with the lock held. */
void whole_let_go(struct mark *mark);

#endif

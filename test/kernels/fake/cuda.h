/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - a fake CUDA runtime that runs no kernel and records all calls.
 *
 * The host side of libsymtuner_ar.so is linked with it instead of libcudart, so that tests without
 * a GPU can check what it refuses, what it frees and what it would launch. "Device" memory is host
 * memory.
 */
#ifndef ST_TEST_FAKE_CUDA_H_
#define ST_TEST_FAKE_CUDA_H_

#include <stdbool.h>

#include "kernels/choose/probe.h"
#include "kernels/shared/args.h"

#define FAKE_LAUNCHES 4096

struct fake_launch {
    const void *kernel;
    int ctas, threads;
    int early; /* 1: launched so that it is set up before the kernel in front of it ends */
    void *stream;
    struct ar_args args;
};

struct fake_cuda {
    int devices;       /* what cudaGetDeviceCount returns */
    int peers;         /* 1: GPUs can access each other's memory */
    int seen;          /* from this GPU on, CUDA does not know bus ids; 0: it knows all */
    int no_atomics;    /* 1: there are no atomics between GPUs, as over PCIe */
    int no_p2p_answer; /* 1: cudaDeviceGetP2PAttribute fails */
    int no_pin;        /* 1: cudaHostRegister fails */
    /* arch: N if code is for sm_N; 0: 90. driver: its version; 0: a new one */
    int arch, driver;
    /* number of multiprocessors of each GPU; 0: no limit. A block of the emulation waits for a free
     * one, and keeps it until its end. */
    int sms;
    int taken[16]; /* number of multiprocessors in use on each GPU */
    int small;     /* GPU small - 1 has 23 GiB of memory; the others have 141 */
    int full;      /* GPU full - 1 has 5 MiB left */
    /* number of the call that fails, among those that can fail; 0: none */
    int fail_at;
    int fail_on;            /* count only calls on GPU fail_on - 1; 0: on all GPUs */
    int calls;              /* calls that could have failed so far */
    const char *rule_of[4]; /* [g]: SYMTUNER_RULE once GPU g has been selected */
    const char *fails;      /* the name of a call that fails; NULL: none */
    /* numbers of bytes that cudaMemcpyAsync copied, and that cudaMemset set */
    size_t copied, filled;
    int no_thread;   /* 1: pthread_create fails */
    int no_calloc;   /* the n-th calloc from now on fails; 0: none */
    int launched_on; /* the GPU of the last launch              */
    int live;        /* number of allocations, streams and events that are not freed */
    int waits;       /* number of calls of cudaStreamWaitEvent */
    /* numbers of calls of cudaEventRecord, and of cudaDeviceSynchronize */
    int records, idles;
    int syncs;                  /* number of calls of cudaStreamSynchronize */
    int queries;                /* number of calls of cudaEventQuery */
    int unreached;              /* how many more of them find work in front of the event; -1: all */
    int endless_at;             /* the n-th launch never ends; 0: all launches end */
    void *_Atomic endless;      /* the stream of the launch that never ends */
    void *foreign;              /* a stream of another GPU, on which no kernel can be launched */
    int busy;                   /* GPU busy - 1 has work until this is 0 */
    unsigned long long capture; /* id of the capture in which every stream is; 0: none */
    /* number added to every stream's id, so that all count as new streams */
    unsigned long long others;
    /* 1: a thread captures in mode global. So in all other modes than relaxed, calls that may wait
     * for the GPU fail. */
    int global_capture;
    /* how many calls that may wait for the GPU came during a capture, of ${global_capture} or of
     * ${capture} */
    int prohibited;
    void (*meanwhile)(void);  /* NULL, or called in each call that may wait for the GPU */
    int host_functions;       /* number of calls of cudaLaunchHostFunc */
    int empty_nodes;          /* empty nodes that were added to captures */
    void *waited;             /* the event of the latest cudaStreamWaitEvent                 */
    void *synchronized;       /* the event of the latest cudaEventSynchronize                */
    int copies_before_launch; /* number of copies to or from peers before the first launch */
    int launches;
    struct fake_launch launch[FAKE_LAUNCHES];
    /* What block 0 of the probe's kernel sees. Block b sees b + 1 times as much, and only the last
     * block sees what is wrong. */
    struct ar_probe_seen probed;
};

extern struct fake_cuda fake;

/* Is a call that may wait for the GPU prohibited now, because a thread captures? Such a call would
 * also end the capture, so this function counts it. */
bool fake_prohibited(void);

/* End the test if no cudaFuncGetAttributes has loaded ${kernel}. CUDA would load it in its first
 * launch, which would wait for kernels that run. */
void fake_must_be_loaded(const void *kernel);

void fake_probe(void *seen, unsigned ctas); /* writes what the probe's kernel sees */

/* Destroy the graph of ${capture}, and all that was made from it. */
void fake_graph_gone(unsigned long long capture);

#endif

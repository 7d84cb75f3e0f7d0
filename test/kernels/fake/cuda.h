/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - a fake CUDA runtime that runs no kernel and records all calls.
 *
 * The host side of libsymtuner_ar.so is linked with it instead of libcudart. So tests without a GPU
 * can check what the library refuses, what it frees and what it would launch. "Device" memory is
 * host memory.
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
    int early; /* 1: launched so that it may start before the previous kernel ends */
    void *stream;
    struct ar_args args;
};

struct fake_cuda {
    int devices;       /* what cudaGetDeviceCount returns */
    int peers;         /* 1: GPUs can access each other's memory */
    int seen;          /* CUDA knows the bus ids of GPUs 0 to seen - 1 only; 0: of all GPUs */
    int no_atomics;    /* 1: there are no atomics between GPUs, as over PCIe */
    int no_p2p_answer; /* 1: cudaDeviceGetP2PAttribute fails */
    int no_pin;        /* 1: cudaHostRegister fails */
    /* arch: N if the kernels are compiled for sm_N. driver: its CUDA version; 0: 13.0 */
    int arch, driver;
    /* number of multiprocessors of each GPU; 0: a default. If this is set, each block of the
     * emulation waits for a free multiprocessor, and keeps it until the block ends. */
    int sms;
    int taken[16]; /* number of multiprocessors in use on each GPU */
    int small;     /* GPU small - 1 has 23 GiB of memory; the others have 141 */
    int full;      /* GPU full - 1 has 5 MiB left */
    /* of the calls that can fail, call number ${fail_at} fails; 0: none fails */
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
    int unreached;              /* how many more calls of cudaEventQuery find that the event is not
                                   reached; -1: all */
    int endless_at;             /* the n-th launch never ends; 0: all launches end */
    void *_Atomic endless;      /* the stream of the launch that never ends */
    void *foreign;              /* a stream of another GPU, on which no kernel can be launched */
    int busy;                   /* GPU busy - 1 has work until this is 0 */
    unsigned long long capture; /* id of the capture in which every stream is; 0: none */
    /* number added to every stream's id, so that all count as new streams */
    unsigned long long others;
    /* 1: a thread captures in mode global. So calls that may wait for the GPU fail in all modes
     * except relaxed. */
    int global_capture;
    /* number of calls that may wait for the GPU and were made during a capture (${global_capture}
     * or ${capture}) */
    int prohibited;
    void (*meanwhile)(void);  /* if not NULL, each call that may wait for the GPU calls it */
    int host_functions;       /* number of calls of cudaLaunchHostFunc */
    int empty_nodes;          /* empty nodes that were added to captures */
    void *waited;             /* the event of the latest cudaStreamWaitEvent                 */
    void *synchronized;       /* the event of the latest cudaEventSynchronize                */
    int copies_before_launch; /* number of copies to or from peers before the first launch */
    int launches;
    struct fake_launch launch[FAKE_LAUNCHES];
    /* What block 0 of the start-up probe's kernel sees. Block b sees b + 1 times as much, and only
     * the last block sees ${wrong}. */
    struct ar_probe_seen probed;
};

extern struct fake_cuda fake;

/* Is a call that may wait for the GPU prohibited now, because a thread captures? Such a call would
 * also end the capture, so this function counts it. */
bool fake_prohibited(void);

/* End the test if ${kernel} was not loaded by cudaFuncGetAttributes. CUDA would load it at its
 * first launch, and this launch would wait for running kernels. */
void fake_must_be_loaded(const void *kernel);

void fake_probe(void *seen, unsigned ctas); /* writes what the probe's kernel sees */

/* Destroy the graph of ${capture} and all its executables. */
void fake_graph_gone(unsigned long long capture);

#endif

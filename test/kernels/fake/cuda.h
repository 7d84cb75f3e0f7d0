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

#include "kernels/shared/args.h"

#define FAKE_LAUNCHES 4096

struct fake_launch {
    const void *kernel;
    int ctas, threads;
    int early; /* launched with the attribute that sets it up before the one in front ends */
    void *stream;
    struct ar_args args;
};

struct fake_cuda {
    int devices;                /* what cudaGetDeviceCount says            */
    int peers;                  /* whether devices reach each other        */
    int seen;                   /* bus ids from this one on are unknown; 0: all are known */
    int no_atomics;             /* between GPUs, as over PCIe */
    int no_p2p_answer;          /* cudaDeviceGetP2PAttribute fails         */
    int no_pin;                 /* cudaHostRegister fails                  */
    int arch, driver;           /* compiled for sm_N, 0: 90; driver, 0: new */
    int sms;                    /* multiprocessors of each GPU; 0: no limit. In the emulation a
                                   block waits until one is free, and keeps it until the block
                                   ends */
    int taken[16];              /* multiprocessors in use on each GPU */
    int small;                  /* GPU small - 1 has 23 GiB; the others 141 */
    int fail_at;                /* the n-th call that may fail does; 0: none */
    int fail_on;                /* count only calls on GPU fail_on - 1; 0: on all */
    int calls;                  /* calls that could have failed so far */
    const char *rule_of[4];     /* [g]: SYMTUNER_RULE from when GPU g is selected */
    const char *fails;          /* a call that fails, by its name; NULL: none */
    size_t copied, filled;      /* bytes of cudaMemcpyAsync, of cudaMemset */
    int no_thread;              /* pthread_create fails                    */
    int no_calloc;              /* the n-th calloc from now on fails; 0: none */
    int launched_on;            /* the GPU of the last launch              */
    int live;                   /* allocations, streams and events not freed */
    int waits;                  /* calls of cudaStreamWaitEvent */
    int records, idles;         /* calls of cudaEventRecord, cudaDeviceSynchronize */
    int endless_at;             /* the n-th launch never ends; 0: all end  */
    void *endless;              /* the stream of that launch */
    int busy;                   /* GPU busy - 1 has work until this is 0 */
    unsigned long long capture; /* id of the capture that every stream is in; 0: none */
    unsigned long long others;  /* added to every stream's id: as if the streams were new */
    int host_functions;         /* calls of cudaLaunchHostFunc */
    int empty_nodes;            /* captured, in front of all that follows on the stream */
    void *waited;               /* the event of the latest cudaStreamWaitEvent                 */
    int copies_before_launch;   /* cudaMemcpyAsync to or from peers before the first launch    */
    int launches;
    struct fake_launch launch[FAKE_LAUNCHES];
};

extern struct fake_cuda fake;

void fake_graph_gone(unsigned long long capture); /* destroy the graph of ${capture}, and all made
                                                     from it */

#endif

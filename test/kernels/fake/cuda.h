/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - a CUDA runtime that runs nothing and remembers everything.
 *
 * The host side of libsymtuner_ar.so is linked with it instead of libcudart, so that its checks,
 * its cleanup and what it would launch can be tested without a GPU. "Device" memory is host memory.
 */
#ifndef ST_TEST_FAKE_CUDA_H_
#define ST_TEST_FAKE_CUDA_H_

#include "kernels/shared/args.h"

#define FAKE_LAUNCHES 4096

struct fake_launch {
    const void *kernel;
    int ctas, threads;
    int early; /* launch attributes: set up before the kernel in front has ended */
    void *stream;
    struct ar_args args;
};

struct fake_cuda {
    int devices;                /* what cudaGetDeviceCount says            */
    int peers;                  /* whether devices reach each other        */
    int seen;                   /* bus ids from this one on are unknown; 0: none is */
    int no_atomics;             /* between GPUs: PCIe                      */
    int no_p2p_answer;          /* cudaDeviceGetP2PAttribute fails         */
    int no_pin;                 /* cudaHostRegister fails                  */
    int arch, driver;           /* what the kernels were compiled for: 90; 0: a new driver */
    int sms;                    /* multiprocessors; 0: enough. In the emulation a block waits for
                                   one of its own, and keeps it until it ends              */
    int taken[16];              /* ... of each GPU                                         */
    int small;                  /* GPU small - 1 has 23 GiB; the others 141 */
    int fail_at;                /* the n-th call that may fail fails; 0: none */
    int fail_on;                /* ... of those on GPU fail_on - 1; 0: on all */
    int calls;                  /* such calls so far                       */
    const char *rule_of[4];     /* SYMTUNER_RULE, once this GPU is in use  */
    const char *fails;          /* a call that fails, by its name; NULL: none */
    size_t copied, filled;      /* bytes of cudaMemcpyAsync, of cudaMemset */
    int no_thread;              /* pthread_create fails                    */
    int no_calloc;              /* the n-th calloc from now on fails; 0: none */
    int launched_on;            /* the GPU of the last launch              */
    int live;                   /* allocations, streams, events not freed  */
    int waits;                  /* cudaStreamWaitEvent                     */
    int records, idles;         /* cudaEventRecord, cudaDeviceSynchronize  */
    int endless_at;             /* the n-th launch never ends; 0: all end  */
    void *endless;              /* the stream it is in                     */
    int busy;                   /* GPU busy - 1 is so until this is 0      */
    unsigned long long capture; /* id that every stream reports; 0: eager  */
    unsigned long long others;  /* added to every stream's number: same handles, other streams */
    void *waited;               /* the event of the latest cudaStreamWaitEvent                 */
    int copies_before_launch;   /* cudaMemcpyAsync to or from peers before the first launch    */
    int launches;
    struct fake_launch launch[FAKE_LAUNCHES];
};

extern struct fake_cuda fake;

void fake_graph_gone(unsigned long long capture); /* the graph of it, and all made from it */

#endif

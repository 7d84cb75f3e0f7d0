/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_gpu.h - what the fake libraries for tests of doctor, tune and bench share: streams and
 * communicators in host memory. fake_gpu.c makes libcuda.so.1, libnccl.so.2 and libcublas.so.12,
 * and fake_ar.c makes libsymtuner_ar.so.
 *
 * Collectives really compute, but no clock runs: every operation adds a number of us to its stream.
 * Variables change what the GPUs do:
 *   FAKE_GPUS=N       number of GPUs (2)
 *   FAKE_FAULT=WORD   what is broken: see the uses of fault()
 *   FAKE_NOISE=P      per cent by which times vary from call to call (0.3)
 *   FAKE_SLEEP_MS=N   real time that creating a communicator takes (0)
 *   FAKE_NCCL=N       release of NCCL (22809)
 *   FAKE_DRIVER=N     CUDA version of the driver (12080)
 *   FAKE_FLOPS=N      speed of a GEMM in TFLOP/s (700)
 *   FAKE_CONF=1       act as if a file nccl.conf named symtuner as env plugin
 *   FAKE_BEST=KERNEL  the fastest of symtuner's kernels from 16 KiB on
 *   FAKE_FREE=N       number of CTAs that a call can have without slowing down GEMMs (16)
 *
 * A call on a stream of high priority makes the GEMMs of its rank longer: by 0.5 us, and by its own
 * time x (its CTAs - FAKE_FREE) / 132 if that is above 0.
 */
#ifndef FAKE_GPU_H_
#define FAKE_GPU_H_

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct stream {
    double clock_us, graph_us;
    int capturing, high;
    /* ${stolen_us} is the time that calls on this stream took from other streams so far.
     * ${waited_us} is the other stream's ${stolen_us} when this stream last waited for it. */
    double stolen_us, waited_us;
};
struct event {
    double us, stolen_us;
};
struct context {
    int device;
};
enum { RANKS = 16, WINDOWS = 8 };
struct group {
    pthread_barrier_t barrier;
    int ranks;
    const void *send[RANKS];
};
struct comm {
    struct group *group;
    int rank;
    const char *window[WINDOWS];
    size_t size[WINDOWS];
    int windows;
};

static inline int fault(const char *word)
{
    const char *fault = getenv("FAKE_FAULT");

    return fault && strcmp(fault, word) == 0;
}

static inline int number(const char *name, int fallback)
{
    const char *text = getenv(name);

    return text ? atoi(text) : fallback;
}

/* Return ${us} with a small random error, which differs in each process and call, as on a real
 * box. */
static inline double noisy(double us)
{
    static __thread unsigned x;
    const char *text = getenv("FAKE_NOISE");
    double percent = text ? atof(text) : 0.3;

    if (!x)
        x = (unsigned)getpid() * 2654435761u | 1;
    x = x * 1664525u + 1013904223u;
    return us * (1 + percent / 100 * ((double)(x >> 8) / (1 << 23) - 1));
}

static inline void charge(struct stream *stream, double us)
{
    if (stream->capturing)
        stream->graph_us += us;
    else
        stream->clock_us += us;
}

/* Add a collective of ${us} on ${ctas} CTAs to the stream's time. */
static inline void charge_call(struct stream *stream, double us, int ctas)
{
    const int more = ctas - number("FAKE_FREE", 16);

    charge(stream, us);
    if (stream->high)
        stream->stolen_us += 0.5 + (more > 0 ? us * more / 132 : 0);
}

/* Does a call compute its result? It does not while a graph is captured. On a stream of high
 * priority, that is, beside GEMMs, calls are repeated often. There a call computes only if the
 * caller has filled the memory for the result with 0xff, as the worker does before it checks a
 * result. */
static inline int computes(const struct stream *stream, const void *out)
{
    uint16_t first;

    memcpy(&first, out, sizeof first);
    return !stream->capturing && (!stream->high || first == 0xffff);
}

/* NCCL's numbers for f16, f32 and bf16. The conversions below are right for f16 only if the numbers
 * are small and whole. */
enum { F16 = 6, F32 = 7, BF16 = 9 };

static inline size_t size_of(int type)
{
    return type == F32 ? 4 : 2;
}

static inline float get(const void *at, size_t i, int type)
{
    uint32_t bits = type == F32 ? ((const uint32_t *)at)[i] : ((const uint16_t *)at)[i];
    float f;

    bits = type == BF16 ? bits << 16 : type == F16 && bits ? (bits << 13) + (112u << 23) : bits;
    memcpy(&f, &bits, 4);
    return f;
}

static inline void put(void *at, size_t i, float f, int type)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if (type == F32)
        ((uint32_t *)at)[i] = bits;
    else
        ((uint16_t *)at)[i] =
            (uint16_t)(type == BF16 ? bits >> 16 : bits ? (bits - (112u << 23)) >> 13 : 0);
}

/* Set out[i] to the sum of in[from + i] over all ranks. */
static inline void add_up(struct comm *comm, const void *send, void *out, size_t from, size_t n,
                          int type)
{
    struct group *group = comm->group;

    group->send[comm->rank] = send;
    pthread_barrier_wait(&group->barrier);
    for (size_t i = 0; i < n; i++) {
        float sum = 0;

        for (int k = 0; k < group->ranks; k++)
            sum += get(group->send[k], from + i, type);
        put(out, i, sum, type);
    }
    pthread_barrier_wait(&group->barrier);
}

/* Copy the ${bytes} at ${send} of all ranks to ${out}, in the order of the ranks. */
static inline void gather(struct comm *comm, const void *send, void *out, size_t bytes)
{
    struct group *group = comm->group;

    group->send[comm->rank] = send;
    pthread_barrier_wait(&group->barrier);
    for (int k = 0; k < group->ranks; k++)
        memcpy((char *)out + (size_t)k * bytes, group->send[k], bytes);
    pthread_barrier_wait(&group->barrier);
}

#endif

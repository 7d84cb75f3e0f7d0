/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the host and the GPU side of the test of random calls share.
 *
 * Three launches on one stream test a call. First, fuzz_prepare writes this rank's input, and
 * poisons the output and the bytes around it. Then the call runs. Last, fuzz_verify overwrites the
 * input, and compares the output bit by bit. In an all-gather it compares with the inputs
 * themselves, otherwise with the sum of all ranks' inputs in the order of test/kernels/reference.h.
 * Every rank can compute the inputs of all ranks.
 * Several calls may be prepared, then run in a row, then verified in that order. The data depend on
 * a counter in device memory, so a graph gets new data in each replay.
 */
#ifndef AR_FUZZ_H_
#define AR_FUZZ_H_

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_GUARD = 64, FUZZ_RING = 8192 };

/* the operator PreMulSum, which multiplies the input of each rank by fuzz_weight(rank) */
enum { FUZZ_PREMUL = 5 };
#define fuzz_weight(rank) ((rank) % 3 + 1)

/* FUZZ_EXACT: small integers, which every type adds up exactly. FUZZ_REAL: numbers of a float type,
 * some with exponents near each other, some far apart. FUZZ_SPECIAL: such numbers with -0 and NaN
 * among them. */
enum fuzz_data { FUZZ_EXACT, FUZZ_REAL, FUZZ_SPECIAL };

struct fuzz_record {
    unsigned long long hash; /* hash of the output's bytes */
    /* number of wrong elements, or of wrong bytes around the output */
    unsigned wrong;
    unsigned tag; /* number of the call */
    /* index and bits of one wrong element, and the right bits */
    unsigned long long first, got, want;
};

/* What the kernels of the test keep for one stream of a rank. It is in device memory. */
struct fuzz_lane {
    unsigned long long counter; /* number of verified calls */
    unsigned leaving;           /* number of blocks that have read the counter */
    unsigned lane;
    struct fuzz_record record[FUZZ_RING];
};

struct fuzz_call {
    char *send, *recv;
    int coll;     /* enum symtuner_ar_coll */
    int in_place; /* the shorter buffer is a part of the longer one, or both are the same */
    size_t count; /* number of elements of one part; in all-reduce, of the message */
    size_t sent, received;                /* numbers of elements of send and of recv */
    int type, op, data, ranks, me, bytes; /* type, op: NCCL's numbers; bytes: size of one element */
    unsigned tag;   /* number of the call */
    unsigned ahead; /* calls of this lane that were prepared before this one and not verified yet */
    struct fuzz_lane *lane;
};

#ifdef __cplusplus
extern "C" {
#endif
/* All functions return a cudaError_t. */
int fuzz_prepare(const struct fuzz_call *call, void *stream);
int fuzz_verify(const struct fuzz_call *call, void *stream);
int fuzz_stall(unsigned us, void *stream);              /* keeps one thread busy */
int fuzz_occupy(int blocks, unsigned us, void *stream); /* keeps blocks of 1024 threads busy */
/* loads the kernels now, because later the loading could wait for a peer that spins */
int fuzz_load(void);
#ifdef __cplusplus
}
#endif

#endif

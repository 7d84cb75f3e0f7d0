/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the host and the GPU side of the test of random calls share.
 *
 * Three launches on one stream test a call. fuzz_prepare writes this rank's input, and poisons the
 * output and the bytes around it. The call follows. Then fuzz_verify overwrites the input, and
 * compares the output, bit by bit, with the sum of all ranks' inputs in the order of
 * test/kernels/reference.h, or in an all-gather with the inputs themselves; every rank can compute
 * the inputs of all ranks. Several calls may be
 * prepared, then run in a row, then verified in that order. The data depend on a counter in device
 * memory, so a graph gets new data in each replay.
 */
#ifndef AR_FUZZ_H_
#define AR_FUZZ_H_

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_GUARD = 64, FUZZ_RING = 8192 };

/* FUZZ_EXACT: small integers, which every type adds up exactly. FUZZ_REAL: numbers of a float type,
 * some with exponents near each other, some far apart. FUZZ_SPECIAL: such numbers with -0 and NaN
 * among them. */
enum { FUZZ_PREMUL = 5 };
#define fuzz_weight(rank) ((rank) % 3 + 1)

enum fuzz_data { FUZZ_EXACT, FUZZ_REAL, FUZZ_SPECIAL };

struct fuzz_record {
    unsigned long long hash;             /* of the output bytes                          */
    unsigned wrong;                      /* wrong elements, or bytes around the output */
    unsigned tag;                        /* number of the call */
    unsigned long long first, got, want; /* one wrong element                  */
};

/* A rank's lane: one per stream, in device memory. */
struct fuzz_lane {
    unsigned long long counter; /* number of verified calls */
    unsigned leaving;           /* blocks that have read the counter          */
    unsigned lane;
    struct fuzz_record record[FUZZ_RING];
};

struct fuzz_call {
    char *send, *recv;
    int coll;     /* enum symtuner_ar_coll */
    int in_place; /* the shorter buffer is a part of the longer one, or both are the same */
    size_t count; /* of one part; of the message in all-reduce */
    size_t sent, received;                /* elements of send, of recv */
    int type, op, data, ranks, me, bytes; /* type, op: NCCL's numbers; bytes: of one element */
    /* op may be FUZZ_PREMUL, too: rank r's numbers times fuzz_weight(r), added up */
    unsigned tag;
    unsigned ahead; /* calls of this lane that were prepared before this one and not verified yet */
    struct fuzz_lane *lane;
};

#ifdef __cplusplus
extern "C" {
#endif
/* All return a cudaError_t. */
int fuzz_prepare(const struct fuzz_call *call, void *stream);
int fuzz_verify(const struct fuzz_call *call, void *stream);
int fuzz_stall(unsigned us, void *stream);              /* keep one thread busy */
int fuzz_occupy(int blocks, unsigned us, void *stream); /* keep blocks of 1024 threads busy */
int fuzz_load(void); /* load the kernels now: later that could wait for a peer that spins */
#ifdef __cplusplus
}
#endif

#endif

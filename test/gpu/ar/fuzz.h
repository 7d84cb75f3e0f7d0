/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the host and the GPU side of the all-reduce test share.
 *
 * A call is tested by three launches on one stream: fuzz_prepare writes this rank's input and
 * poisons the output and its surroundings, then the all-reduce, then fuzz_verify, which first
 * overwrites the input and then compares the output, bit by bit, with what the inputs of all ranks
 * add up to in the one order of test/kernels/reference.h; any rank can compute every rank's input.
 * Several calls may be prepared, then run right behind each other, then verified in that order. The
 * salt of the data is a counter in device memory, so that replays of a graph get new data each
 * time.
 */
#ifndef AR_FUZZ_H_
#define AR_FUZZ_H_

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_GUARD = 64, FUZZ_RING = 8192 };

/* What data: small integers that every type adds up exactly; any type of float's reals, of
 * exponents near each other and far apart; those, and -0 and NaN among them. */
enum fuzz_data { FUZZ_EXACT, FUZZ_REAL, FUZZ_SPECIAL };

struct fuzz_record {
    unsigned long long hash;             /* of the output bytes                          */
    unsigned wrong;                      /* elements, or bytes around the output         */
    unsigned tag;                        /* of the call                                  */
    unsigned long long first, got, want; /* one wrong element                  */
};

/* One per stream; device memory. */
struct fuzz_lane {
    unsigned long long counter; /* verified calls                             */
    unsigned leaving;           /* blocks that are through with the counter   */
    unsigned lane;
    struct fuzz_record record[FUZZ_RING];
};

struct fuzz_call {
    char *send, *recv; /* equal: in place */
    size_t count;
    int type, op, data, ranks, me, bytes; /* NCCL's numbers; bytes per element */
    unsigned tag;
    unsigned ahead; /* calls of this lane that are prepared before this one and not yet verified */
    struct fuzz_lane *lane;
};

#ifdef __cplusplus
extern "C" {
#endif
/* All return a cudaError_t. */
int fuzz_prepare(const struct fuzz_call *call, void *stream);
int fuzz_verify(const struct fuzz_call *call, void *stream);
int fuzz_stall(unsigned us, void *stream);              /* one thread, for a while        */
int fuzz_occupy(int blocks, unsigned us, void *stream); /* blocks of 1024 threads         */
int fuzz_load(void); /* load the kernels now: loading while a peer spins could wait for it */
#ifdef __cplusplus
}
#endif

#endif

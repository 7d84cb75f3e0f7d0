/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hazards.h - the table of faults of NCCL releases that users of symtuner can hit.
 * docs/reference/nccl-releases.md has the evidence.
 *
 * The plugin logs the rows with ST_SAID_BY_PLUGIN. It logs them at level INFO only, because it
 * cannot tell whether the program's calls trigger the fault. libsymtuner_ar.so warns of rows with
 * ST_SAID_BY_KERNELS if an all-reduce that it gives to NCCL triggers the fault. `symtuner doctor`
 * reports every row. jax/symtuner/_check.py repeats some rows; test/nccl/hazards.py compares them.
 *
 * Pure: constants only. Threads: any. Errors: NULL if there is no such row.
 */
#ifndef ST_HAZARDS_H_
#define ST_HAZARDS_H_

#include <stdbool.h>
#include <stdint.h>

/* X(name, severity, first release, last release, who reports, operator, address bits, what goes
 * wrong, cure). Name and severity are for `symtuner doctor`.
 *
 *   last release   0: all later releases have the fault
 *   operator       only calls with this operator trigger the fault; -1: calls with any operator
 *   address bits   only calls with a buffer whose address has one of these bits set trigger the
 *                  fault; 0: calls with any buffers */
#define ST_HAZARD_MAP(X)                                                                           \
    /* NCCL's loadPack (op128.h) uses a word that it has not loaded; fixed in 2.30.3 */            \
    X("nccl-ll-unaligned", ST_NOTE, 22703, 22999, ST_SAID_BY_PLUGIN | ST_SAID_BY_KERNELS,          \
      SYMTUNER_SUM, 3,                                                                             \
      "small symmetric kernels (LL) give wrong results for 8-bit and 16-bit types, and for "       \
      "AllGather with any type, if a buffer does not begin at a multiple of 4 bytes",              \
      "align the buffers, or use NCCL 2.30.3")                                                     \
    /* this was seen in sgl-project/sglang#37768; NCCL commit 2948185 fixed it for 2.30.7 */       \
    X("nccl-no-wait", ST_WARNING, 22803, 23006, ST_SAID_BY_PLUGIN, -1, 0,                          \
      "symmetric kernels do not wait for the kernel before them under programmatic dependent "     \
      "launch, so captured graphs that use it can give wrong results without an error (fixed in "  \
      "2.30.7)",                                                                                   \
      "use NCCL 2.30.7, or keep programmatic dependent launch off around collectives")             \
    X("nccl-ll-dropped", ST_WARNING, 22900, 22904, 0, -1, 0,                                       \
      "small symmetric kernels are dropped whenever the cheapest general kernel is not LL, even "  \
      "with both buffers registered (2.29.2 and 2.29.3)",                                          \
      "use NCCL 2.29.7, or a rule with prefer = symmetric for small sizes")                        \
    X("nccl-ll-void", ST_NOTE, 23100, 0, 0, -1, 0,                                                 \
      "small calls with one registered buffer keep their symmetric kernel only if a tuner makes "  \
      "an LL entry of the cost table the cheapest",                                                \
      "use a rule with prefer = symmetric for small sizes, or register both buffers")              \
    /* NCCL has no AllReduce kernel for avg: seen on H200 with 2.30.7 and 2.32.3 (nccl-tests) */   \
    X("nccl-avg", ST_NOTE, 23003, 0, ST_SAID_BY_PLUGIN | ST_SAID_BY_KERNELS, SYMTUNER_AVG, 0,     \
      "AllReduce with ncclAvg on two symmetric windows fails, because NCCL picks a kernel that "   \
      "does not exist (CUDA says: invalid device function)",                                       \
      "use ncclSum and scale, or keep these buffers out of windows")                               \
    X("nccl-xla-pool", ST_NOTE, 23007, 23007, 0, -1, 0,                                            \
      "registering two windows in XLA's one memory pool exhausts the address space (NCCL issue "   \
      "2331)",                                                                                     \
      "leave XLA's symmetric flag off, or use another release")                                    \
    /* we saw this on an H100 with 2.31.2 and 2.32.3, not with 2.28.9 and 2.30.7 (test/gpu/one) */ \
    X("nccl-pat-avg", ST_WARNING, ST_PAT_AVG_FIRST, 0, ST_SAID_BY_PLUGIN, SYMTUNER_AVG, 0,         \
      "ReduceScatter of floats with ncclAvg or PreMulSum gives the bare sum where NCCL takes the " \
      "algorithm PAT for small sizes, as it does by default if each node has one rank",            \
      "set NCCL_PAT_ENABLE=0, or use ncclSum and scale")                                           \
    /* NCCL's oneRankReduce (onerank.cu) rounds a quotient down; we saw it with 2.28.9 on H100s */ \
    X("nccl-one-rank", ST_NOTE, 22703, 22906, ST_SAID_BY_PLUGIN, SYMTUNER_AVG, 0,                  \
      "on a communicator of one rank, reductions of floats with ncclAvg, and all reductions with " \
      "PreMulSum, leave up to 31 elements at the end of the receive buffer unwritten for some "    \
      "lengths",                                                                                   \
      "use NCCL 2.29.7, or copy the data yourself if the communicator has one rank")

/* The first release with the fault nccl-pat-avg. `symtuner check` reads this number, too, because a
 * rule can make NCCL take PAT. */
enum { ST_PAT_AVG_FIRST = 23102 };

enum { ST_SAID_BY_PLUGIN = 1, ST_SAID_BY_KERNELS = 2 };

struct st_hazard {
    int first, last;       /* releases that have the fault; last 0: all later releases      */
    unsigned said_by;      /* bits ST_SAID_BY_*: who reports the fault                      */
    int op;                /* operator of a call that triggers the fault; -1: any           */
    unsigned address_bits; /* a buffer with one of these address bits set triggers the fault;
                              0: any buffer triggers it                                     */
    const char *text;      /* what goes wrong, and the cure                                 */
};

/* Return fault number ${index} (from 0) of those that the plugin reports for release ${nccl}.
 * Returns NULL if there is no such number. */
const struct st_hazard *st_hazard_get(int nccl, int index);

/* Return fault number ${index} (from 0) of those that libsymtuner_ar.so reports and that a call
 * triggers. The call has operator ${op}, and its buffers ${send} and ${recv} are in symmetric
 * windows. Returns NULL if there is no such number. */
const struct st_hazard *st_hazard_of_call(int nccl, int op, uintptr_t send, uintptr_t recv,
                                          int index);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hazards.h - the table of faults of NCCL releases that users of symmetric kernels can hit.
 * docs/reference/steering.md has the evidence.
 *
 * The plugin logs the rows with ST_SAID_BY_PLUGIN at INFO, since it cannot see whether the program
 * does what triggers a fault. libsymtuner_ar.so sees each call and warns of those with
 * ST_SAID_BY_KERNELS. `symtuner doctor` reports every row. jax/symtuner/_check.py repeats some
 * rows; test/nccl/hazards.py compares them with these.
 *
 * Pure: constants only. Threads: any. Errors: NULL if there is no such row.
 */
#ifndef ST_HAZARDS_H_
#define ST_HAZARDS_H_

#include <stdbool.h>
#include <stdint.h>

/* X(name and severity for doctor; first and last release, where last 0 means every later one; who
 * else reports the fault; the operator of a call that triggers the fault, -1: any; a mask of low
 * address bits: only a buffer address with one of these bits set triggers the fault, 0: every
 * address does; what goes wrong; the cure) */
#define ST_HAZARD_MAP(X)                                                                           \
    /* op128.h's loadPack shifts in a word that was never read; mended in 2.30.3 */                \
    X("nccl-ll-unaligned", ST_NOTE, 22703, 22999, ST_SAID_BY_PLUGIN | ST_SAID_BY_KERNELS,          \
      SYMTUNER_SUM, 3,                                                                             \
      "small symmetric kernels (LL) give wrong results for 8-bit and 16-bit types, AllGather for " \
      "any, when a buffer does not begin at a multiple of 4 bytes",                                \
      "align the buffers, or use NCCL 2.30.3")                                                     \
    /* sgl-project/sglang#37768; mended by NCCL commit 2948185, first in 2.30.7 */                 \
    X("nccl-no-wait", ST_WARNING, 22803, 23006, ST_SAID_BY_PLUGIN, -1, 0,                          \
      "symmetric kernels do not wait for the kernel before them under programmatic dependent "     \
      "launch: silent corruption in captured graphs that use it (fixed in 2.30.7)",                \
      "use NCCL 2.30.7, or keep programmatic dependent launch off around collectives")             \
    X("nccl-ll-dropped", ST_WARNING, 22900, 22904, 0, -1, 0,                                       \
      "small symmetric kernels are dropped whenever the general winner is not LL, even with both " \
      "buffers registered (2.29.2 and 2.29.3)",                                                    \
      "use NCCL 2.29.7, or a rule with prefer = symmetric for small sizes")                        \
    X("nccl-ll-void", ST_NOTE, 23100, 0, 0, -1, 0,                                                 \
      "partly registered small calls keep their symmetric kernel only when a tuner answers LL",    \
      "use a rule with prefer = symmetric for small sizes, or register both buffers")              \
    /* read in the source of 2.30.3 to 2.31.2: the pick accepts avg, no such kernel is built */    \
    X("nccl-avg", ST_NOTE, 23003, 23199, ST_SAID_BY_PLUGIN | ST_SAID_BY_KERNELS, SYMTUNER_AVG, 0,  \
      "AllReduce with ncclAvg on two symmetric windows launches a kernel that does not exist and " \
      "reports success",                                                                           \
      "use ncclSum and scale, keep these buffers out of windows, or use NCCL 2.32")                \
    X("nccl-xla-pool", ST_NOTE, 23007, 23007, 0, -1, 0,                                            \
      "registering two windows in XLA's one memory pool exhausts the address space (NCCL issue "    \
      "2331)",                                                                                     \
      "leave XLA's symmetric flag off, or use another release")

enum { ST_SAID_BY_PLUGIN = 1, ST_SAID_BY_KERNELS = 2 };

struct st_hazard {
    int first, last;
    unsigned said_by;
    int op;
    unsigned address_bits;
    const char *text; /* what goes wrong, and the cure */
};

/* Return row ${index} of those that the plugin reports for release ${nccl}; NULL past the last. */
const struct st_hazard *st_hazard_get(int nccl, int index);

/* Return row ${index} of the faults that a call with operator ${op} on these buffers, both in
 * symmetric windows, triggers; NULL past the last. */
const struct st_hazard *st_hazard_of_call(int nccl, int op, uintptr_t send, uintptr_t recv,
                                          int index);

#endif

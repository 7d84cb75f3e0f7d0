/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the built-in table: which family runs a call, and with how many blocks. */
#ifndef AR_ROWS_H_
#define AR_ROWS_H_

#include <stddef.h>
#include <stdint.h>

enum ar_links { AR_LINKS_NVLINK, AR_LINKS_PCIE, AR_LINKS_HOST, AR_LINKS };

/* The condition that a call must meet so that the row applies to it. */
enum ar_row_need {
    ANY,       /* the row is for every call */
    UNMAPPED,  /* recv is not registered; in a reduce-scatter: send is not registered */
    GENERIC,   /* the call is an all-gather, or not a sum or avg of f32, f16 or bf16 */
    MULTICAST, /* NCCL can use NVLink multicast */
    GATHERS,   /* the call is an all-gather */
    SCATTERS,  /* the call is a reduce-scatter */
    BY_TMA,    /* the call is a reduce-scatter that kernel tma can run */
    BESIDE,    /* other kernels may run beside ours; the call is a sum or avg of f32, f16 or bf16 */
    LONG_BESIDE, /* other kernels may run beside ours; the call is longer than ST_BESIDE_LIMIT */
    LONG_SUMS,   /* BESIDE and LONG_BESIDE are met, and NCCL cannot use NVLink multicast */
    LONG_BY_TMA, /* LONG_BESIDE is met, kernel tma can run the call, NCCL cannot use NVLink
                    multicast, and the call is an all-gather, or a sum or avg of f32, f16 or bf16 */
    LONG_BY_IPC, /* like LONG_BY_TMA, but for kernel tma_ipc, and neither buffer is registered */
    BY_IPC,      /* like LONG_BY_IPC, but for calls of any length, even if nothing runs beside
                    them */
    NEEDS
};

/* The first row that fits a call decides. ${ctas} is the largest number of blocks of such a call. A
 * short message gets only as many blocks as have words to move. */
struct ar_row {
    int links, min_ranks, max_ranks;
    enum ar_row_need need;
    uint64_t max_bytes; /* length of the message; in ar_rows_of_halves: of one part of it */
    int family, ctas, threads, lag;
    const char *source; /* where the row's numbers come from */
};

/* The rows of all-reduce, and the rows of its halves: reduce-scatter and all-gather. */
extern const struct ar_row ar_rows[], ar_rows_of_halves[];
extern const size_t ar_rows_count, ar_rows_of_halves_count;

#endif

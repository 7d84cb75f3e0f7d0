/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the built-in table: which family runs a call, and with how many blocks. */
#ifndef AR_ROWS_H_
#define AR_ROWS_H_

#include <stddef.h>
#include <stdint.h>

enum ar_links { AR_LINKS_NVLINK, AR_LINKS_PCIE, AR_LINKS_HOST, AR_LINKS };

/* The conditions of a row, as bits. The row applies only to calls that meet all of its conditions.
 */
enum ar_row_need {
    ANY = 0,            /* the row is for every call */
    UNMAPPED = 1 << 0,  /* recv is not registered; in a reduce-scatter: send is not registered */
    SUMS = 1 << 1,      /* the call is an all-gather, or a sum or avg of f32, f16 or bf16 */
    GENERIC = 1 << 2,   /* the call is an all-gather, or has another operator or type than SUMS */
    GATHERS = 1 << 3,   /* the call is an all-gather */
    SCATTERS = 1 << 4,  /* the call is a reduce-scatter */
    MULTICAST = 1 << 5, /* NCCL can use NVLink multicast, and there are 4 ranks or more */
    POINT_TO_POINT = 1 << 6, /* not MULTICAST */
    BESIDE = 1 << 7,         /* other kernels may run beside ours */
    LENGTHY = 1 << 8,        /* the call is longer than ST_BESIDE_LIMIT (nccl/names.h) */
    BY_TMA = 1 << 9,         /* kernel tma can run the call */
    BY_IPC = 1 << 10,        /* kernel tma_ipc can run the call, and neither buffer is registered */
};

/* A row of the table. The first row that applies to a call decides. ${ctas} is the largest number
 * of blocks of such a call. A short message gets only as many blocks as have words to move. */
struct ar_row {
    int links, min_ranks, max_ranks;
    unsigned needs;     /* bits of enum ar_row_need */
    uint64_t max_bytes; /* length of the message; in ar_rows_of_halves: of one part of it */
    int family, ctas, threads, lag;
    const char *source; /* where the row's numbers come from */
};

/* The rows of all-reduce, and the rows of its halves: reduce-scatter and all-gather. */
extern const struct ar_row ar_rows[], ar_rows_of_halves[];
extern const size_t ar_rows_count, ar_rows_of_halves_count;

#endif

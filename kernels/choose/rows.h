/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the built-in table: which family runs a call, and with how many blocks. */
#ifndef AR_ROWS_H_
#define AR_ROWS_H_

#include <stddef.h>
#include <stdint.h>

enum ar_links { AR_LINKS_NVLINK, AR_LINKS_PCIE, AR_LINKS_HOST, AR_LINKS };

/* What a call must be. UNMAPPED: recv is not registered (reduce-scatter: send); GENERIC: not a sum
 * or avg of f32, f16 or bf16; MULTICAST: NCCL may use NVLink multicast; GATHERS: an all-gather;
 * LONG_IN_COMPANY: longer than ST_BESIDE_LIMIT, and nobody said that the kernels run alone;
 * LONG_BY_TMA: the same, tma can run the call, and neither GENERIC nor MULTICAST holds;
 * LONG_BY_IPC: likewise with tma_ipc, and neither buffer is registered */
enum ar_row_need {
    ANY,
    UNMAPPED,
    GENERIC,
    MULTICAST,
    GATHERS,
    LONG_IN_COMPANY,
    LONG_BY_TMA,
    LONG_BY_IPC,
    NEEDS
};

/* The first row that fits wins. ${ctas} is the most blocks that a call of this row gets; a short
 * message gets only as many as have words to move. */
struct ar_row {
    int links, min_ranks, max_ranks;
    enum ar_row_need need;
    uint64_t max_bytes; /* of the message; of one part in the rows of the halves */
    int family, ctas, threads, lag;
    const char *source;
};

/* All-reduce; reduce-scatter and all-gather. */
extern const struct ar_row ar_rows[], ar_rows_of_halves[];
extern const size_t ar_rows_count, ar_rows_of_halves_count;

#endif

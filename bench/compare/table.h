/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the table on stdout, and what it adds up to. */
#ifndef AR_COMPARE_TABLE_H_
#define AR_COMPARE_TABLE_H_

#include <stddef.h>

enum column {
    OURS,
    STAGED,
    GENERAL,
    SYM,
    SYM_32,
    SYM_64,
    TORCH_1,
    TORCH_2,
    PEERS,
    NT_LSA = PEERS,
    NT_VEC,
    NT_VEC_64,
    VLLM,
    TRT_1,
    TRT_2,
    MSCCLPP,
    COLUMNS
};

struct floor {
    double gbps, node_us;
};

struct line {
    int ranks, cold;
    size_t bytes;
    const char *mode, *type, *op;
    double floor, us[COLUMNS],
        spread[COLUMNS]; /* us 0: not measured; spread: (max - min) / median */
    char kernel[64];     /* of OURS */
};

double floor_us(const struct floor *floor, int ranks, size_t bytes);
int floor_gpus(void); /* GPUs that this process sees; floor.c */
/* ${peers}: also the columns from PEERS on. */
void table_head(int ranks, const struct floor *floor, int seconds, int host, int peers);
void table_line(const struct line *row);
void table_summary(void);

#endif

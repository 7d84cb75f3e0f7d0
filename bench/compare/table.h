/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the table on stdout and its summary. */
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

struct floor { /* what floor.c measures: speed of copies, time of an empty graph node */
    double gbps, node_us;
};

struct line {
    int ranks, cold;
    int hops; /* how often the message crosses a link: 2 in an all-reduce, else 1 */
    size_t bytes;
    const char *mode, *type, *op;
    double floor, us[COLUMNS], /* floor: shortest possible time, in us; us: 0 if not measured */
        spread[COLUMNS];       /* (max - min) / median over the rounds */
    char kernel[64];           /* name of our kernel that ran */
};

double table_median(double *v, int n); /* sorts v */
double floor_us(const struct floor *floor, int hops, int ranks, size_t bytes);
int floor_gpus(void); /* returns how many GPUs this process sees; in floor.c */
/* If ${peers} is set, also prints the columns from PEERS on. */
void table_head(int ranks, const struct floor *floor, int seconds, int host, int peers);
void table_line(const struct line *row);
void table_summary(void);

#endif

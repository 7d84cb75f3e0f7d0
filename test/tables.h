/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h - random cost tables with every kind of entry that NCCL, or a bug, can put into them. */
#ifndef TEST_TABLES_H_
#define TEST_TABLES_H_

#include <float.h>
#include <math.h>

#include "test/random.h"

enum { T_ALGOS = 7, T_PROTOS = 3, T_CELLS = T_ALGOS * T_PROTOS };

static inline float t_cost(struct t_random *random)
{
    static const float odd[] = {0.0f, -0.0f, -1.0f, -1024.0f, INFINITY, NAN, FLT_MAX, FLT_MIN,
                                1e-7f, 4e9f, FLT_MAX / 2, 3600000000.0f};

    if (t_below(random, 8) == 0)
        return odd[t_below(random, (int)(sizeof odd / sizeof *odd))];
    if (t_below(random, 3) == 0)
        return -1.0f;
    return (float)t_below(random, 1 << 20) / 64.0f + 0.5f;
}

static inline void t_table(struct t_random *random, float table[T_CELLS])
{
    for (int i = 0; i < T_CELLS; i++)
        table[i] = t_cost(random);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.c - the table of what differs between NCCL releases, and release numbers as text.
 */
#include "nccl/release.h"

#include <float.h>

/* Members that several rows share. No row may set a member twice: in C11 the last value would win,
 * but -Woverride-init (part of -Wextra) warns. */
#define MODEL_1 .model = 1
#define TABLE_1 .table_limit = 3600000000.0f
#define TABLE_2 .table_limit = FLT_MAX
#define TABLE_3                                                                                    \
    .negative_wins = true, .tie_takes_last = true, .channels_cap = true, .table_limit = FLT_MAX
#define SYMMETRIC_229                                                                              \
    .symmetric = true, .symmetric_groups = true, .symmetric_one_sided = true,                      \
    .needs_nvlink = true, .launch_by_cells = true, .peer = ST_PEER_RAW,                            \
    .ce = ST_CE_POLICY_RECV, .gather_unclamped = true
#define SYMMETRIC_231                                                                              \
    SYMMETRIC_229, .symmetric_avg = true, .multicast_lazy = true, .multicast_ranks = 3,            \
    .ctas_even = true, .algo_env_excludes = true, .ll = ST_LL_ASK_VOID,                            \
    .sym_kernel = ST_SYM_KERNEL_LIST, .tma = ST_TMA_ON, .model = 2

static const struct st_era eras[] = {
    {.first = 0, .name = "before 2.24", .tuner_abi = 3, TABLE_1},
    {.first = 22400, .name = "2.24", .tuner_abi = 4, TABLE_1},
    {.first = 22700, .general = 1, .name = "2.27", .tuner_abi = 4, .profiler_abi = 4,
     .symmetric = true, .fp8_needs_sm90 = true, .multicast_ranks = 3, .peer = ST_PEER_TRANSPORT,
     MODEL_1, TABLE_1},
    {.first = 22800, .general = 2, .name = "2.28.3", .tuner_abi = 5, .profiler_abi = 5,
     .symmetric = true, .symmetric_groups = true, .launch_by_cells = true, .multicast_ranks = 3,
     .peer = ST_PEER_TRANSPORT, .ce = ST_CE_POLICY_BOTH, .pdl = ST_PDL_WINDOWS, MODEL_1, TABLE_1},
    {.first = 22807, .general = 3, .name = "2.28.7", .tuner_abi = 5, .env_abi = 1,
     .profiler_abi = 5, .symmetric = true, .symmetric_groups = true, .launch_by_cells = true,
     .multicast_ranks = 2, .peer = ST_PEER_RAW, .ce = ST_CE_POLICY_BOTH, .pdl = ST_PDL_WINDOWS,
     MODEL_1, TABLE_1},
    {.first = 22900, .general = 4, .name = "2.29.2", .tuner_abi = 5, .env_abi = 1,
     .profiler_abi = 6, SYMMETRIC_229, .multicast_ranks = 2, .ll = ST_LL_ASK_ALWAYS,
     .pdl = ST_PDL_ANYWHERE, MODEL_1, TABLE_2},
    {.first = 22905, .general = 5, .name = "2.29.7", .tuner_abi = 5, .env_abi = 1,
     .profiler_abi = 6, SYMMETRIC_229, .multicast_ranks = 3, .multicast_lazy = true,
     .ll = ST_LL_ASK_PARTLY, .pdl = ST_PDL_ANYWHERE, MODEL_1, TABLE_2},
    {.first = 23000, .general = 6, .name = "2.30", .tuner_abi = 6, .env_abi = 1,
     .profiler_abi = 6, SYMMETRIC_229, .symmetric_avg = true, .multicast_ranks = 3,
     .multicast_lazy = true, .ll = ST_LL_ASK_PARTLY, .pdl = ST_PDL_ANYWHERE, .tma = ST_TMA_OPT_IN,
     MODEL_1, TABLE_2},
    {.first = 23007, .general = 6, .name = "2.30.7", .tuner_abi = 6, .env_abi = 2,
     .profiler_abi = 6, SYMMETRIC_229, .symmetric_avg = true, .multicast_ranks = 3,
     .multicast_lazy = true, .ll = ST_LL_ASK_PARTLY, .tma = ST_TMA_OPT_IN, MODEL_1, TABLE_2},
    {.first = 23100, .name = "2.31", .tuner_abi = 6, .env_abi = 2, .profiler_abi = 7,
     SYMMETRIC_231, TABLE_3},
    /* For the rows from here on we could read only a part of NCCL's source. 2.32.3 picks kernels as
     * 2.31 does, except for the AllGathers of ST_UNSURE_GATHER. We could not read 2.32.6. It has
     * ST_UNSURE_MORE, because a development version of NCCL has no separate CTA limit for multicast
     * kernels, and 2.32.6 may have none either. */
    {.first = 23200, .name = "2.32", .tuner_abi = 6, .env_abi = 2, .profiler_abi = 7,
     SYMMETRIC_231, .unsure = ST_UNSURE_GATHER, TABLE_3},
    {.first = 23204, .name = "2.32.6", .tuner_abi = 7, .env_abi = 2, .profiler_abi = 7,
     SYMMETRIC_231, .unsure = ST_UNSURE_MORE, TABLE_3},
};

enum { ERAS = sizeof eras / sizeof *eras, NEWEST_READ = 23206 };

/* The first published release of each of 2.27 to 2.32. A text without a patch number means this
 * release: "2.27" means 2.27.3. */
static const int line_first[] = {22703, 22803, 22902, 23003, 23102, 23203};

const struct st_era *st_era_of(int version)
{
    int row = ERAS - 1;

    while (row > 0 && version < eras[row].first)
        row--;
    return &eras[row];
}

int st_release_newest(void)
{
    return NEWEST_READ;
}

/* Read a number of at most 5 digits and move ${*text} past it. Returns -1 if there is no such
 * number. */
static int read_number(const char **text)
{
    int number = 0, digits = 0;

    while (**text >= '0' && **text <= '9') {
        if (++digits > 5)
            return -1;
        number = number * 10 + (*(*text)++ - '0');
    }
    return digits ? number : -1;
}

int st_release_parse(const char *text)
{
    int major = read_number(&text), minor, patch = -1;

    if (*text == '\0')
        return major >= 20000 && major < 100000 ? major : -1;
    if (major != 2 || *text++ != '.')
        return -1;
    minor = read_number(&text);
    if (*text == '.') {
        text++;
        patch = read_number(&text);
        if (patch < 0)
            return -1;
    }
    if (*text != '\0' || minor < 0 || minor > 99 || patch > 99)
        return -1;
    if (patch >= 0)
        return 20000 + minor * 100 + patch;
    for (size_t i = 0; i < sizeof line_first / sizeof *line_first; i++)
        if (line_first[i] / 100 % 100 == minor)
            return line_first[i];
    return 20000 + minor * 100;
}

char *st_release_print(int version, char *text, size_t size)
{
    const int part[] = {version / 10000, version / 100 % 100, version % 100};
    size_t at = 0;

    for (int i = 0; i < 3; i++) {
        if (i && at + 1 < size)
            text[at++] = '.';
        if (part[i] >= 10 && at + 1 < size)
            text[at++] = (char)('0' + part[i] / 10 % 10);
        if (at + 1 < size)
            text[at++] = (char)('0' + part[i] % 10);
    }
    if (size)
        text[at] = '\0';
    return text;
}

bool st_table_pick(const struct st_era *era, const float *table, const float *shown, int algos,
                   int protos, int *algo_out, int *proto_out)
{
    /* if ${strict}, NCCL never chooses an entry that is negative in ${table} */
    bool strict = !shown || !era->negative_wins;
    float best = era->table_limit;
    int found = -1;

    for (int i = 0; i < algos * protos; i++) {
        if (strict ? !(table[i] >= 0.0f) : !(shown[i] >= 0.0f))
            continue;
        if (table[i] < best || (era->tie_takes_last && found >= 0 && table[i] == best)) {
            best = table[i];
            found = i;
        }
    }
    if (found < 0)
        return false;
    *algo_out = found / protos;
    *proto_out = found % protos;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - print rows as they are measured, and a summary at the end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/table.h"

static struct line rows[2000];
static int n_rows, columns = PEERS;

static const char *const heads[COLUMNS] = {"ours",     "staged", "general", "sym",    "sym32",
                                           "sym64",    "torch1", "torch2",  "nt_lsa", "nt_vec",
                                           "nt_vec64", "vllm",   "trt1",    "trt2",   "mscclpp"};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double table_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double floor_us(const struct floor *floor, int hops, int ranks, size_t bytes)
{
    return floor->node_us + hops * (double)bytes * (ranks - 1) / ranks / (floor->gbps * 1000);
}

static double busbw(const struct line *row)
{
    return row->hops * (double)row->bytes * (row->ranks - 1) / row->ranks / row->us[OURS] / 1000;
}

/* Return the shortest time in columns ${from} to ${to}; 0 if none was measured. */
static double best(const struct line *row, int from, int to)
{
    double t = 0;

    for (int c = from; c <= to; c++)
        if (row->us[c] > 0 && (t == 0 || row->us[c] < t))
            t = row->us[c];
    return t;
}

void table_head(int ranks, const struct floor *floor, int seconds, int host, int peers)
{
    columns = peers ? COLUMNS : PEERS;
    printf("n=%d ready after %d s; copy limit %.1f GB/s per GPU (copy engines, all at once), empty "
           "graph "
           "node %.2f us%s\n",
           ranks, seconds, floor->gbps, floor->node_us,
           host ? "; host memory against NCCL_P2P_DISABLE=1" : "");
    printf("n mode type op cache bytes |");
    for (int c = 0; c < columns; c++)
        printf(" %s", heads[c]);
    printf(" us | ours/best-peer staged/ours busbw ours/floor kernel\n");
}

void table_line(const struct line *row)
{
    double peer = best(row, GENERAL, COLUMNS - 1);

    char odd[16] = "";

    if (row->bytes % 1024 != 0)
        snprintf(odd, sizeof odd, "+%zu", row->bytes % 1024);
    printf("%d %c %s %s %s %zu%s%s |", row->ranks, row->mode[0], row->type, row->op,
           row->cold ? "cold" : "warm", row->bytes >= 1 << 20 ? row->bytes >> 20 : row->bytes >> 10,
           row->bytes >= 1 << 20 ? "M" : "K", odd);
    for (int c = 0; c < columns; c++)
        if (row->us[c] > 0)
            printf(row->us[c] < 100 ? " %.2f" : " %.0f", row->us[c]);
        else
            printf(" -");
    printf(" |");
    if (row->us[OURS] > 0)
        printf(" %.2f %.2f %.0f %.2f %s", peer > 0 ? row->us[OURS] / peer : 0.0,
               row->us[STAGED] / row->us[OURS], busbw(row), row->us[OURS] / row->floor,
               row->kernel);
    printf("\n");
    if (n_rows < (int)(sizeof rows / sizeof rows[0]))
        rows[n_rows++] = *row;
}

static int same_table(const struct line *a, const struct line *b)
{
    return a->ranks == b->ranks && a->mode == b->mode && a->cold == b->cold &&
           strcmp(a->type, b->type) == 0 && strcmp(a->op, b->op) == 0;
}

/* Print the summary of all rows with the same n, mode, type, op and cache as ${first}. */
static void summarise(const struct line *first)
{
    double worst = 0, log_sym = 0, log_peer = 0, staged = 0, general = 0, slowest_gain = 1e9,
           spread = 0;
    size_t worst_at = 0;
    int n = 0, middle = 0, slower = 0;

    for (int i = 0; i < n_rows; i++) {
        const struct line *r = &rows[i];
        double peer = best(r, GENERAL, COLUMNS - 1), sym = best(r, GENERAL, SYM_64);

        if (!same_table(first, r) || r->us[OURS] <= 0 || peer <= 0)
            continue;
        n++;
        log_peer += log(peer / r->us[OURS]);
        slower += r->us[OURS] > 1.03 * peer;
        spread = r->spread[OURS] > spread ? r->spread[OURS] : spread;
        if (r->us[OURS] / peer > worst) {
            worst = r->us[OURS] / peer;
            worst_at = r->bytes;
        }
        if (r->bytes >= 8192 && r->bytes <= (size_t)4 << 20) {
            log_sym += log(sym / r->us[OURS]);
            middle++;
        }
        if (r->bytes <= 1 << 20 && r->us[STAGED] / r->us[OURS] > staged)
            staged = r->us[STAGED] / r->us[OURS];
        if (r->bytes <= (size_t)32 << 20 && r->us[GENERAL] > 0 &&
            r->us[STAGED] / r->us[GENERAL] > general)
            general = r->us[STAGED] / r->us[GENERAL];
        if (r->bytes <= (size_t)4 << 20 && r->us[GENERAL] > 0 &&
            r->us[GENERAL] / r->us[OURS] < slowest_gain)
            slowest_gain = r->us[GENERAL] / r->us[OURS];
    }
    if (n == 0)
        return;
    printf("n=%d %s %s %s %s: %d sizes, slower than the best peer by >3%% at %d (worst %.2f at %zu "
           "KiB), "
           "geomean gain on best peer %.2f; on NCCL's best 8K-4M %.2f; least gain on general to 4M "
           "%.2f; "
           "staged/ours to 1M worst %.2f, staged/general to 32M worst %.2f; spread of ours to "
           "%.0f%%\n",
           first->ranks, first->mode, first->type, first->op, first->cold ? "cold" : "warm", n,
           slower, worst, worst_at >> 10, exp(log_peer / n), middle ? exp(log_sym / middle) : 0.0,
           slowest_gain < 1e9 ? slowest_gain : 0.0, staged, general, spread * 100);
}

void table_summary(void)
{
    printf("---- summary (figures: median of rounds; spread: (max - min) / median of rounds)\n");
    for (int i = 0; i < n_rows; i++) {
        int seen = 0;

        for (int k = 0; k < i && !seen; k++)
            seen = same_table(&rows[i], &rows[k]);
        if (!seen)
            summarise(&rows[i]);
    }
    for (int i = 0; i < n_rows; i++)
        if (rows[i].us[OURS] > 1.03 * best(&rows[i], GENERAL, COLUMNS - 1) &&
            best(&rows[i], GENERAL, COLUMNS - 1) > 0)
            printf("SLOWER n=%d %s %s %s %s %zu KiB: ours %.2f (%s), best peer %.2f us\n",
                   rows[i].ranks, rows[i].mode, rows[i].type, rows[i].op,
                   rows[i].cold ? "cold" : "warm", rows[i].bytes >> 10, rows[i].us[OURS],
                   rows[i].kernel, best(&rows[i], GENERAL, COLUMNS - 1));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - compares an all-reduce box by box with ncclAllReduce over all ranks. */
#include "kernels/nodes/model.h"

const uint64_t ar_nodes_size[AR_NODES_SIZES] = {1 << 16, 1 << 20, 1 << 24};

/* Limits of ar_nodes_pieces: it chooses at most MOST_CHOSEN pieces. If it chooses more than one,
 * each has about LEAST_PIECE bytes or more. */
enum { LEAST_PIECE = 1 << 18, MOST_CHOSEN = 16 };

void ar_nodes_slower(struct ar_nodes_figures *f, const struct ar_nodes_figures *other)
{
    for (int w = 0; w < AR_WAYS; w++)
        for (int i = 0; i < AR_NODES_SIZES; i++)
            if (other->us[w][i] > f->us[w][i])
                f->us[w][i] = other->us[w][i];
}

double ar_nodes_step(const struct ar_nodes_figures *f, enum ar_way way, double bytes)
{
    int i = AR_NODES_SIZES - 2;
    double from, to, slope;

    if (bytes <= (double)ar_nodes_size[0])
        return (double)f->us[way][0];
    while (i > 0 && bytes < (double)ar_nodes_size[i])
        i--;
    from = (double)f->us[way][i];
    to = (double)f->us[way][i + 1];
    slope = to > from ? (to - from) / (double)(ar_nodes_size[i + 1] - ar_nodes_size[i]) : 0;
    return from + slope * (bytes - (double)ar_nodes_size[i]);
}

double ar_nodes_time(const struct ar_nodes_figures *f, uint64_t bytes, int pieces)
{
    double half, across, stream = 0, network = 0, ended[2] = {0, 0};

    if (pieces == 0)
        return ar_nodes_step(f, AR_WAY_NCCL, (double)bytes);
    half = ar_nodes_step(f, AR_WAY_BOX, (double)bytes / pieces) / 2;
    across = ar_nodes_step(f, AR_WAY_NETWORK, (double)bytes / pieces);
    for (int p = 0; p <= pieces; p++) {
        if (p < pieces) { /* reduce-scatter of piece p in the box, then its all-reduce over boxes */
            stream += half;
            network = (network > stream ? network : stream) + across;
            ended[p % 2] = network;
        }
        if (p > 0) /* all-gather of piece p - 1 in the box */
            stream = (stream > ended[(p - 1) % 2] ? stream : ended[(p - 1) % 2]) + half;
    }
    return stream;
}

int ar_nodes_pieces(const struct ar_nodes_figures *f, uint64_t bytes)
{
    double best = 0.9 * ar_nodes_time(f, bytes, 0);
    int chosen = 0;

    for (int pieces = 1; pieces <= MOST_CHOSEN; pieces *= 2) {
        double time = ar_nodes_time(f, bytes, pieces);

        if (pieces > 1 && bytes / (uint64_t)pieces < LEAST_PIECE)
            break;
        if (time < best) {
            best = time;
            chosen = pieces;
        }
    }
    return chosen;
}

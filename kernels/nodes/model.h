/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - is an all-reduce faster box by box than by ncclAllReduce over all ranks, and into how
 * many pieces should its message be cut?
 *
 * The functions are pure. Their inputs are times that were measured when the handle was made. The
 * times are the same on all ranks, so all ranks make the same choice. If a call runs box by box, it
 * uses two streams:
 *
 *     the caller's stream   RS 0 | RS 1 |      AG 0 | RS 2 | AG 1 |      AG 2
 *     the network stream           AR 0 | AR 1      | AR 2
 *
 * RS is the reduce-scatter of a piece in the box. AR is the all-reduce of that piece over the
 * boxes. AG is the all-gather of the piece in the box. Kernels of both streams share the GPU. The
 * model ignores this, so the times that it computes are too short. That is why it chooses box by
 * box only if that saves at least a tenth of NCCL's time.
 *
 * Units      times are microseconds.
 */
#ifndef AR_MODEL_H_
#define AR_MODEL_H_

#include <stdint.h>

/* The steps whose time is measured, each for messages of several lengths. */
enum ar_way {
    AR_WAY_NCCL,    /* ncclAllReduce of the message over all ranks */
    AR_WAY_BOX,     /* reduce-scatter and all-gather of the message in the box */
    AR_WAY_NETWORK, /* ncclAllReduce of one rank's part of the message over the boxes */
    AR_WAYS
};
enum { AR_NODES_SIZES = 3 };

/* The lengths of the messages that are measured, in bytes. */
extern const uint64_t ar_nodes_size[AR_NODES_SIZES];

/* us[w][i] is the time of way w for a message of ar_nodes_size[i] bytes on each rank. All times are
 * 0 if nothing was measured. */
struct ar_nodes_figures {
    float us[AR_WAYS][AR_NODES_SIZES];
};

/* Wherever ${other} has a longer time than ${f}, copy that time to ${f}. */
void ar_nodes_slower(struct ar_nodes_figures *f, const struct ar_nodes_figures *other);

/* Return the time of ${way} for a message of ${bytes}. The times between and above the measured
 * lengths lie on straight lines through the measured times. Below the shortest measured length, the
 * time of that length counts. */
double ar_nodes_step(const struct ar_nodes_figures *f, enum ar_way way, double bytes);

/* Return the time of an all-reduce of ${bytes}: box by box in ${pieces} pieces, or if ${pieces} is
 * 0, by ncclAllReduce over all ranks. */
double ar_nodes_time(const struct ar_nodes_figures *f, uint64_t bytes, int pieces);

/* Return 0 if an all-reduce of ${bytes} should run by ncclAllReduce over all ranks. Otherwise it
 * should run box by box: return into how many pieces to cut it. */
int ar_nodes_pieces(const struct ar_nodes_figures *f, uint64_t bytes);

#endif

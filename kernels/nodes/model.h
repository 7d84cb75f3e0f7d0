/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - is a message faster box by box than by ncclAllReduce over all ranks, and in how many
 * pieces?
 *
 * Pure. The inputs are times that were measured when the handle was made, and are the same on all
 * ranks, so all ranks choose alike.
 *
 *     the caller's stream   RS 0 | RS 1 |      AG 0 | RS 2 | AG 1 |      AG 2
 *     the network's                AR 0 | AR 1      | AR 2
 *
 * RS is the reduce-scatter and AG the all-gather of a piece in the box; AR adds up that piece over
 * the boxes. The model ignores that kernels of both streams share the GPU, so it counts only on
 * gains of at least a tenth of NCCL's time.
 *
 * Units      times are microseconds.
 */
#ifndef AR_MODEL_H_
#define AR_MODEL_H_

#include <stdint.h>

enum ar_way { AR_WAY_NCCL, AR_WAY_BOX, AR_WAY_NETWORK, AR_WAYS };
enum { AR_NODES_SIZES = 3, AR_NODES_MOST_PIECES = 64 };

/* The messages that are measured. */
extern const uint64_t ar_nodes_size[AR_NODES_SIZES];

/* us[w][i]: for a message of ar_nodes_size[i] bytes on each rank, ncclAllReduce over all ranks;
 * reduce-scatter and all-gather in the box; ncclAllReduce of its part over the boxes. All 0:
 * nothing was measured. */
struct ar_nodes_figures {
    float us[AR_WAYS][AR_NODES_SIZES];
};

/* Set each figure of ${f} to the larger one of it and the same figure of ${other}. */
void ar_nodes_slower(struct ar_nodes_figures *f, const struct ar_nodes_figures *other);

/* Return the time of one step for a message of ${bytes}, on straight lines between the figures.
 * A message that is shorter than all that were measured takes as long as the shortest of these. */
double ar_nodes_step(const struct ar_nodes_figures *f, enum ar_way way, double bytes);

/* Return the time of ${bytes} in ${pieces}; 0 pieces: by ncclAllReduce over all ranks. */
double ar_nodes_time(const struct ar_nodes_figures *f, uint64_t bytes, int pieces);

/* Return in how many pieces to run ${bytes}; 0: by ncclAllReduce over all ranks. */
int ar_nodes_pieces(const struct ar_nodes_figures *f, uint64_t bytes);

/*
 * Where the pieces of a message lie. Each rank of a box adds up one part of a piece; all parts of
 * all pieces are whole words. NCCL reduces the rest behind the pieces, less than a word per rank.
 */
struct ar_cut {
    uint64_t words; /* of each part, in all pieces together */
    int pieces, ranks;
};

/* Cut ${bytes} for ${ranks} ranks of a box into at most ${pieces} pieces. */
struct ar_cut ar_cut(uint64_t bytes, int ranks, int pieces);
uint64_t ar_cut_start(const struct ar_cut *cut, int piece); /* bytes; also of piece cut->pieces */
uint64_t ar_cut_part(const struct ar_cut *cut, int piece);  /* bytes of one part */

#endif

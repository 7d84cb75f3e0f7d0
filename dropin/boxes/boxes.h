/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxes.h - do all ranks of a communicator that spans boxes have the drop-in, and are they asked to
 * add up box by box (SYMTUNER_AR_NODES=1 or a rule with network-pieces)?
 *
 * Ranks of several boxes share no memory, and on the program's communicator they must not ask: a
 * rank without the drop-in would take the question for its own first call. So they meet in a second
 * communicator. Whoever asks NCCL for the program's ncclUniqueId asks for another one, and writes
 * it behind the first, where NCCL leaves 88 of the 128 bytes empty (2.28.3 to 2.32.3: the address
 * of a socket). The program itself brings both to all ranks, and NCCL reads only the first.
 *
 * Once NCCL has made the program's communicator, each rank that can use our kernels makes the
 * second one, without blocking, in two steps:
 *
 *     1 ncclCommInitRankConfig   ends if all ranks come to it, else after COME_MS
 *     2 ncclCommSplit            without any child: ends if all ranks have passed step 1
 *
 * After step 1 alone one rank may know that all have come when another has just given up. Such a
 * rank aborts, so that step 2 ends nowhere. A rank waits in step 2 longer than others can need for
 * step 1, so all ranks pass step 2 or none does. Whatever goes wrong, each rank aborts the second
 * communicator. The program's communicator is not touched before that.
 *
 * After a wait in vain this process asks no more: it would wait each time.
 */
#ifndef ST_BOXES_H_
#define ST_BOXES_H_

#include <stdbool.h>
#include <stdint.h>

#include "dropin/entry/real.h"

/* What stands behind the program's ncclUniqueId. */
struct st_boxes_mark {
    bool there;
    uint64_t settings; /* st_settings()->hash of whoever made the id */
    struct nccl_abi_id id;
};

/* Write the mark into ${id}, which NCCL ${real} has just made for the program, if this process was
 * asked to. */
void st_boxes_mark(const struct st_real *real, struct nccl_abi_id *id);

/* Return the mark of ${id}; ${there} is false if this process was not asked to look for one. */
struct st_boxes_mark st_boxes_read(const struct st_real *real, const struct nccl_abi_id *id);

/*
 * st_boxes_meet(real, mark, ranks, rank, able):
 * Meet the other ranks of a communicator. ${able}: this rank can use our kernels. Returns the
 * second communicator if all ranks came and all are able, on all ranks alike, else NULL. Waits.
 */
void *st_boxes_meet(const struct st_real *real, const struct st_boxes_mark *mark, int ranks,
                    int rank, bool able);

/* End the second communicator. Call it when all ranks are known to have passed st_boxes_meet. */
void st_boxes_leave(const struct st_real *real, void *comm);

#endif

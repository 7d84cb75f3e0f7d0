/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxes.h - do all ranks of a communicator that spans several boxes have the drop-in, and are they
 * asked to add up box by box (SYMTUNER_AR_NODES=1 or a rule with network-pieces)? Box by box means
 * that our kernels add up inside each box, and NCCL between the boxes.
 *
 * Ranks of several boxes share no memory. They must not ask each other on the program's
 * communicator: a rank without the drop-in would take the question for its own first call. So they
 * make a second communicator. When the program asks NCCL for an ncclUniqueId, the drop-in asks NCCL
 * for a second id. It writes the second id into the free bytes of the first. An id has 128 bytes,
 * and NCCL leaves the last 88 empty (in 2.28.3 to 2.32.3 an id is the address of a socket). The
 * program sends the first id to all ranks, and the second id travels inside it. NCCL ignores the
 * bytes of the second id.
 *
 * Once NCCL has made the program's communicator, each rank that is asked to add up box by box makes
 * the second one. It does so with non-blocking calls, in two steps. A rank that cannot use our
 * kernels gives up after step 1.
 *
 *     1 ncclCommInitRankConfig   ends if all ranks call it, else we give up after COME_MS
 *     2 ncclCommSplit            makes no communicator; ends if all ranks have passed step 1
 *
 * Step 1 alone is not enough: one rank may see that all ranks have made the call just after
 * another rank has given up. A rank that gives up aborts the second communicator, so step 2
 * succeeds on no rank. Each rank waits in step 2 (PASS_MS) longer than any rank can need for step 1
 * (COME_MS). So either all ranks pass step 2, or none does. If anything fails, each rank aborts the
 * second communicator. Until both steps have ended, the drop-in does nothing with the program's
 * communicator.
 *
 * A process that has once given up after a time limit never makes a second communicator again,
 * because it would wait in vain each time.
 */
#ifndef ST_BOXES_H_
#define ST_BOXES_H_

#include <stdbool.h>
#include <stdint.h>

#include "dropin/entry/real.h"

/* The mark: what the drop-in has written behind NCCL's own bytes in the program's ncclUniqueId. */
struct st_boxes_mark {
    bool there;            /* the id has a mark; false: the other members are 0 */
    uint64_t settings;     /* st_settings()->hash of the process that made the id */
    struct nccl_abi_id id; /* the ncclUniqueId of the second communicator */
};

/* Write the mark into ${id}, which NCCL ${real} has just made for the program. Does nothing if the
 * settings of this process do not ask to add up box by box. */
void st_boxes_mark(const struct st_real *real, struct nccl_abi_id *id);

/* Return the mark of ${id}. ${there} is false if ${id} has no mark, or if the settings of this
 * process do not ask to add up box by box. */
struct st_boxes_mark st_boxes_read(const struct st_real *real, const struct nccl_abi_id *id);

/*
 * st_boxes_meet(real, mark, ranks, rank, able):
 * Find out whether all ranks of the program's communicator call this function and can use our
 * kernels. Waits for the other ranks. ${able}: this rank can use our kernels. Returns the second
 * communicator on all ranks if all ranks called this, and all are able and have the settings of the
 * mark; else NULL on all ranks.
 */
void *st_boxes_meet(const struct st_real *real, const struct st_boxes_mark *mark, int ranks,
                    int rank, bool able);

/* End the second communicator. Call this when all ranks are known to have passed st_boxes_meet. */
void st_boxes_leave(const struct st_real *real, void *comm);

#endif

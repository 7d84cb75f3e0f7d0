/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rollcall.h - the roll call: do all ranks of a communicator on this host make the same decisions?
 *
 * In its tuner init every rank opens a small shared-memory object and writes an entry, which says
 * what the rank's decisions depend on. The object is named after user, communicator and number of
 * ranks. The verdict is what follows from the entries.
 *
 * No rank waits for another. NCCL has a barrier between the tuner inits and the first call (2.28.3
 * to 2.30.7, init.cc, bootstrapIntraNodeBarrier). So a rank that asks for the verdict at the first
 * call sees the entries of all ranks. Even in a release without the barrier all ranks get the same
 * verdict: the first rank that asks stores the verdict, and the others read it. If entries are
 * missing at that time, the ranks do not agree.
 *
 * The object is unlinked by the last rank that joins, by a rank that asks for the verdict, or by a
 * rank that leaves. If killed processes have left an object behind, the next rank sets it to zeros
 * (base/board.h).
 *
 * Errors     without shared memory there is no roll call, so the ranks do not agree. Nothing else
 *            fails.
 * Threads    several threads may ask for a verdict at the same time.
 * Hazard     st_roll_ctas runs under NCCL's mutexes. So it only reads the object and does one
 *            compare-exchange; it takes no lock, and calls nothing outside rollcall.c.
 */
#ifndef ST_ROLLCALL_H_
#define ST_ROLLCALL_H_

#include <stdbool.h>
#include <stdint.h>

/* What one rank says about itself. */
struct st_roll_entry {
    uint64_t rules;      /* hash of what decisions depend on; 0: no rule changes a decision   */
    int32_t min_ctas;    /* count that NCCL got as NCCL_MIN_CTAS; 0: none                     */
    int32_t sym_ctas;    /* count that this rank's rules want as NCCL_SYM_CTAS; 0: none       */
    int32_t gpus;        /* number of GPUs in the box; 0: unknown                             */
    bool asked;          /* NCCL asks us for variables, and the user set no NCCL_SYM_CTAS     */
    bool first;          /* this is the first communicator of the rank's process              */
};

enum st_roll_verdict {
    ST_ROLL_OPEN,    /* no rank has asked for the verdict yet                                 */
    ST_ROLL_ALIKE,   /* all ranks have joined, and all have the same ${rules}                 */
    ST_ROLL_DIFFER,  /* all ranks have joined, and some have different ${rules}               */
    ST_ROLL_MISSING, /* ranks are missing, or there are too many                              */
};

/* The NCCL_SYM_CTAS that all ranks get if they got different values of NCCL_MIN_CTAS. NCCL's own
 * count is about as high (docs/reference/cta-count.md). */
enum { ST_ROLL_REPAIR_CTAS = 8 };

struct st_roll;

/* Join the roll call of a communicator and write ${entry}. Returns NULL if there is no shared
 * memory, or if memory runs out. */
struct st_roll *st_roll_join(uint64_t comm_id, int ranks, const struct st_roll_entry *entry);

/* Return the verdict on the rules. The first rank that asks decides it for all ranks.
 * ${*present_out} gets the number of ranks that have joined. */
enum st_roll_verdict st_roll_rules(struct st_roll *roll, int *present_out);

/* Return the count that every rank gets as NCCL_SYM_CTAS; 0: none. The first rank that asks decides
 * for all ranks. */
int st_roll_ctas(struct st_roll *roll);

/* Return the count that st_roll_ctas decided; 0: none, or no rank has asked yet. */
int st_roll_ctas_given(const struct st_roll *roll);

/* Have all ranks joined, and did they get different values of NCCL_MIN_CTAS? Decides nothing. */
bool st_roll_min_differs(const struct st_roll *roll);

/* Unlink the object, so that no other rank can join. Ranks that have joined can still ask for the
 * verdict. */
void st_roll_hide(struct st_roll *roll);
void st_roll_leave(struct st_roll *roll);

/* Judge the ${count} entries of a communicator with ${ranks} ranks. Pure. st_roll_judge returns the
 * verdict on the rules. st_roll_judge_ctas returns the count for NCCL_SYM_CTAS; 0: none. */
enum st_roll_verdict st_roll_judge(const struct st_roll_entry *entry, int count, int ranks);
int st_roll_judge_ctas(const struct st_roll_entry *entry, int count, int ranks);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rollcall.h - do all ranks of a communicator on this host decide alike?
 *
 * Every rank joins, in its tuner init, a small object of shared memory that is named after user,
 * communicator and number of ranks, and writes down what it would decide by. Nobody waits: NCCL has
 * a barrier of its own between the tuner inits and the first call (2.28.3 to 2.30.7, init.cc,
 * bootstrapIntraNodeBarrier), so that who asks for a verdict sees every rank that will ever join.
 * Should a release have no such barrier, ranks still get one verdict: the first to ask writes it
 * down and all others take it; an incomplete roll call is a "no".
 *
 * The object is unlinked by the last to join, by the first verdict, or by whoever leaves. One that a
 * killed process left behind is told by its missing locks (flock ends with its holder) and emptied.
 *
 * Errors     no shared memory is an answer: no roll call, hence no agreement. Nothing else fails.
 * Threads    a verdict may be asked from several threads at once.
 * Hazard     st_roll_ctas runs under NCCL's mutexes: two loads and a compare-exchange, no calls.
 */
#ifndef ST_ROLLCALL_H_
#define ST_ROLLCALL_H_

#include <stdbool.h>
#include <stdint.h>

/* What one rank says about itself. */
struct st_roll_entry {
    uint64_t rules;      /* hash of all that decides a cost table; 0: changes none            */
    int32_t min_ctas;    /* what NCCL got for NCCL_MIN_CTAS; 0 nothing                        */
    int32_t sym_ctas;    /* what it should get for NCCL_SYM_CTAS; 0 nothing                   */
    int32_t gpus;        /* of the box; 0 unknown                                             */
    bool asked;          /* NCCL asks this rank for NCCL_SYM_CTAS, and may still be told      */
    bool first;          /* this is the first communicator of its process                     */
};

enum st_roll_verdict {
    ST_ROLL_OPEN,    /* nobody has asked yet                                                  */
    ST_ROLL_ALIKE,   /* all ranks are there and say the same                                  */
    ST_ROLL_DIFFER,  /* all are there, and some differ                                        */
    ST_ROLL_MISSING, /* some are not there, or more than there can be                         */
};

/* Given to all ranks when NCCL_MIN_CTAS went to some of them only: about NCCL's own ceiling. */
enum { ST_ROLL_REPAIR_CTAS = 8 };

struct st_roll;

/* NULL when there is no shared memory to meet in, or out of memory. */
struct st_roll *st_roll_join(uint64_t comm_id, int ranks, const struct st_roll_entry *entry);

/* Of the rules. The first to ask decides for all ranks. ${present_out}: how many joined. */
enum st_roll_verdict st_roll_rules(struct st_roll *roll, int *present_out);

/* What every rank is told for NCCL_SYM_CTAS; 0 nothing. The first to ask decides for all. */
int st_roll_ctas(struct st_roll *roll);

/* The same without deciding anything: 0 while nobody has asked. */
int st_roll_ctas_given(const struct st_roll *roll);

/* Did NCCL_MIN_CTAS go to some ranks only? Asks for no verdict. */
bool st_roll_min_differs(const struct st_roll *roll);

/* Unlink the name: nobody who is not there by now will find it. Verdicts can still be asked for. */
void st_roll_hide(struct st_roll *roll);
void st_roll_leave(struct st_roll *roll);

/* The pure part: what follows from ${count} entries of ${ranks}. */
enum st_roll_verdict st_roll_judge(const struct st_roll_entry *entry, int count, int ranks);
int st_roll_judge_ctas(const struct st_roll_entry *entry, int count, int ranks);

#endif

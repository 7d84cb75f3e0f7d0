/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree.h - rules apply only if all ranks agree: what follows from the roll call (rollcall.h) for
 * the rules of a communicator, and for the CTA count that a process gets.
 *
 * Only communicators on one host that have an id are checked; ids come with tuner v5 (NCCL 2.28).
 * On NCCL 2.27, and over several nodes, rules apply unchecked.
 *
 * NCCL reads NCCL_SYM_CTAS once per process, when it first picks a symmetric kernel. So the count
 * of [process] rules is given only if the first communicator of every process spans all GPUs of
 * this box and all its ranks want the same count. Otherwise ranks with different counts could meet
 * in a later communicator.
 */
#ifndef ST_AGREE_H_
#define ST_AGREE_H_

#include "plugin/process.h"

struct st_agree;

/* Enter a rank of a communicator; NULL: nothing is checked. Logs what cannot be applied. */
struct st_agree *st_agree_open(const struct st_process *process, uint64_t comm_id, int ranks,
                               int nodes);

/* Do the rules apply? To be asked at the first call of a communicator, not before. Logs if not. */
bool st_agree_rules(struct st_agree *agree);

void st_agree_close(struct st_agree *agree);

/* The answer when NCCL, under its mutexes, asks for NCCL_SYM_CTAS; 0: none. The first answer is
 * final. */
int st_agree_sym_ctas(void);

/* The answer that was given; 0 while NCCL has not asked. */
int st_agree_sym_ctas_given(void);

#endif

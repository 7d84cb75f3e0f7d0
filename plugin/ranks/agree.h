/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree.h - ranks agree or nothing is steered: what of the roll call (rollcall.h) follows for the
 * rules of a communicator, and for the CTA count that a process is told.
 *
 * Checked are communicators on one host that have an id, which tuner v5 gives (NCCL 2.28). For
 * others rules steer unchecked: NCCL 2.27, and communicators over several nodes.
 *
 * NCCL reads NCCL_SYM_CTAS once per process, at the first symmetric pick of any communicator. So
 * the count of [process] rules is answered only if the first communicator of every process of this
 * box spans all its GPUs, and all want the same: any smaller one could meet, in a later
 * communicator, ranks that were told otherwise.
 */
#ifndef ST_AGREE_H_
#define ST_AGREE_H_

#include "plugin/process.h"

struct st_agree;

/* One rank of one communicator; NULL where nothing is checked. Says what cannot be applied. */
struct st_agree *st_agree_open(const struct st_process *process, uint64_t comm_id, int ranks,
                               int nodes);

/* May rules steer? At the first call of a communicator, not before; says so when they may not. */
bool st_agree_rules(struct st_agree *agree);

void st_agree_close(struct st_agree *agree);

/* NCCL_SYM_CTAS as NCCL asks for it, under its mutexes; 0 for none. The first answer is for good. */
int st_agree_sym_ctas(void);

/* The same without deciding anything: 0 while NCCL has not asked. */
int st_agree_sym_ctas_given(void);

#endif

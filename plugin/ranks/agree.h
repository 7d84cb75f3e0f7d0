/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree.h - decides whether rules apply to a communicator, and which CTA count NCCL gets in this
 * process. Rules apply only if all ranks of the communicator agree, that is, have the same rules,
 * mode, NCCL release and machine. The roll call (rollcall.h) finds this out.
 *
 * Only a communicator that is on one host and has an id is checked. NCCL gives a tuner an id from
 * v5 of the interface on (NCCL 2.28). On NCCL 2.27, and for a communicator over several nodes,
 * rules apply unchecked.
 *
 * NCCL reads NCCL_SYM_CTAS once per process, when it first picks a symmetric kernel. So NCCL gets
 * the count of [process] rules only on two conditions. The first communicator of every process must
 * span all GPUs of this box, and all its ranks must want the same count. Otherwise a later
 * communicator could have ranks with different counts. If a process has copies of NCCL of several
 * releases, each release has a first communicator and a count of its own.
 */
#ifndef ST_AGREE_H_
#define ST_AGREE_H_

#include "plugin/process.h"

struct st_agree;

/* Add this rank to the roll call of its communicator, which the NCCL of ${here} has made. Returns
 * NULL if the communicator has no roll call. Logs a message if the communicator's ranks are not
 * compared, or if sym-ctas of [process] cannot be applied. */
struct st_agree *st_agree_open(const struct st_process *process, const struct st_for_nccl *here,
                               uint64_t comm_id, int ranks, int nodes);

/* Do the rules apply to the communicator? Ask this at the communicator's first call, not earlier:
 * only then have all its ranks answered the roll call. If the rules do not apply, the reason is
 * logged. */
bool st_agree_rules(struct st_agree *agree);

void st_agree_close(struct st_agree *agree);

/* Return the count that an NCCL of release ${nccl} gets for NCCL_SYM_CTAS; 0: none. NCCL asks while
 * it holds mutexes, so this takes no lock. The first answer is final. */
int st_agree_sym_ctas(int nccl);

/* Return the count that was decided for NCCL_SYM_CTAS; 0: none, or nobody has asked yet. */
int st_agree_sym_ctas_given(int nccl);

#endif

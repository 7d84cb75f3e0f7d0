/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follower.h - may our kernel let the kernel that follows it on its stream (its follower) start
 * early?
 *
 * It may if the follower waits for our kernel, or if the follower is launched without PDL
 * (programmatic dependent launch) and so cannot start early. The library does not see the kernels
 * of others. The program promises that they wait (symtuner_ar_followers_wait). The promise holds
 * for a process. It decides only how a kernel is launched, never its grid, so it may differ from
 * rank to rank.
 */
#ifndef AR_FOLLOWER_H_
#define AR_FOLLOWER_H_

#include "kernels/group/handle.h"

/* Return what the program has said. Once it is AR_FOLLOWER_MAY_NOT_WAIT, it stays so. */
enum ar_follower ar_follower_said(void);

/* Return how the kernels of ${h} start. They start serially if ranks share the GPU, because blocks
 * that start early and wait would take the room that another rank's blocks need. For the same
 * reason only the first handle of a GPU lets followers start early (first.h); SYMTUNER_AR_OVERLAP
 * can make every handle do so. */
enum ar_start ar_start_of(const symtuner_ar *h);

/* Called before each launch of a kernel of ${h}. ${start} is how that kernel starts. */
void ar_follower_note(const symtuner_ar *h, enum ar_start start);
/* Called when a call of ours is captured. */
void ar_follower_captured(void);

/* Called before a buffer is registered with NCCL release ${nccl}. From then on the symmetric
 * kernels of this release may run. If they do not wait for the kernel in front of them, this takes
 * the program's promise back. */
void ar_follower_window(int nccl);

#endif

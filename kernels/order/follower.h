/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follower.h - the kernel that follows ours on its stream: may ours let it start early?
 *
 * Only if the follower waits for our kernel, or is launched without PDL, so that it cannot start
 * early. The library does not see the kernels of others; the program tells it
 * (symtuner_ar_followers_wait). The answer belongs to a process: it decides how a kernel is
 * launched, never its grid, so ranks may differ.
 */
#ifndef AR_FOLLOWER_H_
#define AR_FOLLOWER_H_

#include "kernels/group/handle.h"

/* What the program has said; the last state is for good. */
enum ar_follower ar_follower_said(void);

/* Return how the kernels of ${h} start: serially if ranks share the GPU, because blocks that start
 * early and wait would take the room that another rank's blocks need. For the same reason only the
 * first handle of a GPU lets followers start early (first.h), unless SYMTUNER_AR_OVERLAP says so. */
enum ar_start ar_start_of(const symtuner_ar *h);

/* A kernel of ${h} is about to be launched, which starts as ${start} says. */
void ar_follower_note(const symtuner_ar *h, enum ar_start start);
/* A capture holds a call of ours. */
void ar_follower_captured(void);

/* The caller is about to register a buffer with ${nccl}, a release of NCCL: if its symmetric
 * kernels, which may now run, do not wait, this takes the program's promise back. */
void ar_follower_window(int nccl);

#endif

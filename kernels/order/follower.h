/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follower.h - may our kernel let its follower start early? The follower is the kernel that comes
 * next on the same stream.
 *
 * Our kernel may do so if the follower waits for it. It also may if the follower is launched
 * without PDL (programmatic dependent launch), because such a kernel cannot start early. The
 * library cannot see which kernels others launch. So the program promises that followers wait
 * (symtuner_ar_followers_wait). The promise holds for the whole process. The ranks may make
 * different promises, because a promise changes how a kernel is launched, but not its grid.
 */
#ifndef AR_FOLLOWER_H_
#define AR_FOLLOWER_H_

#include "kernels/group/handle.h"

/* Return what the program has promised. Once this is AR_FOLLOWER_MAY_NOT_WAIT, it stays so. */
enum ar_follower ar_follower_said(void);

/* Return how the kernels of ${h} start. They start serially if ranks share the GPU, because blocks
 * that start early and wait would occupy multiprocessors that another rank's blocks need. Only the
 * first handle of a GPU lets followers start early (first.h says why), but with
 * SYMTUNER_AR_OVERLAP=2 every handle does. */
enum ar_start ar_start_of(const symtuner_ar *h);

/* Note that a kernel of ${h} is about to be launched, and that it starts as ${start} says. If the
 * kernel lets its follower start early, symtuner_ar_separate has to separate streams from then on.
 */
void ar_follower_note(const symtuner_ar *h, enum ar_start start);
/* Note that a call of ours is being captured, because symtuner_ar_separate needs to know that. */
void ar_follower_captured(void);

/* Called before a buffer is registered with NCCL release ${nccl}. From then on the symmetric
 * kernels of this release may run. If such kernels do not wait for the previous kernel of their
 * stream, this function takes the program's promise back. */
void ar_follower_window(int nccl);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h - what we answer when NCCL asks for a variable, and what the call in flight is.
 *
 * With NCCL_ENV_PLUGIN alone NCCL finds the tuner and profiler here too: we answer with our own
 * path. A variable that the user set is never replaced.
 */
#ifndef ST_ENV_H_
#define ST_ENV_H_

/* The value NCCL shall see for ${name}; NULL for unset. Static or environment strings only. */
const char *st_env_get(const char *name);

/* Per-call CTAs: the profiler's CollApi event tells which call the thread is about to schedule;
 * NCCL then asks for NCCL_SYM_CTAS on the same thread. 0: no rule gives that call a count. */
void st_env_call(int sym_ctas);

#endif

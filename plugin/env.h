/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h - what we answer when NCCL asks for a variable.
 *
 * With NCCL_ENV_PLUGIN alone NCCL finds the tuner and profiler here too: we answer with our own
 * path where they have something to do. A variable that the user set is not replaced, but for the
 * name of another tuner or profiler where ours is needed: that one is loaded behind ours. Hazard:
 * NCCL asks under its mutexes, so nothing here logs, waits or calls NCCL.
 */
#ifndef ST_ENV_H_
#define ST_ENV_H_

/* The value NCCL shall see for ${name}; NULL for unset. Static or environment strings only. */
const char *st_env_get(const char *name);

#endif

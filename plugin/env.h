/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h - what our env plugin answers when NCCL asks for the value of an environment variable.
 *
 * NCCL_ENV_PLUGIN is the only variable that the user must set. NCCL then asks us which tuner and
 * profiler to load, and we answer with our own path if our tuner or profiler has something to do. A
 * variable that the user set keeps its value, with one exception: if the user's variable names
 * another tuner or profiler, and ours is needed, NCCL gets our path, and we load the user's library
 * ourselves (plugin/next/open.h).
 * Hazard: NCCL asks while it holds mutexes, so nothing here logs, waits or calls NCCL.
 */
#ifndef ST_ENV_H_
#define ST_ENV_H_

/* Store that the library which contains the machine code ${code} is an NCCL of release ${nccl}. */
void st_env_copy(const void *code, int nccl);

/* Return the value that NCCL gets for variable ${name}, or NULL if NCCL finds the variable unset.
 * The string is static or belongs to the environment. */
const char *st_env_get(const char *name);

#endif

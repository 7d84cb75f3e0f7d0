/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.h - finds out whether the user has set an NCCL variable that forbids us to set NCCL's CTA
 * count.
 *
 * The plugin and `symtuner why` use this. The functions call ${get}(${from}, name) to read a
 * variable; ${get} returns NULL if the variable is not set. Pure, if ${get} is. Threads: any.
 * Errors: none.
 */
#ifndef ST_HELD_H_
#define ST_HELD_H_

typedef const char *st_get(const void *from, const char *name);

/* If the user chose the number of CTAs with an NCCL variable, return the name of that variable.
 * Otherwise return NULL. */
const char *st_held_by_user(st_get *get, const void *from);

/* May we give NCCL the built-in CTA count of plugin/defaults.c? Returns NULL if we may, and
 * otherwise the name of the variable that forbids it: a variable that st_held_by_user returns,
 * NCCL_CTA_POLICY, or NCCL_ENQUEUE_REARCH_ENABLE. */
const char *st_held_default(st_get *get, const void *from);

#endif

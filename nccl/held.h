/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.h - which of NCCL's settings keeps a CTA count of ours from being given.
 *
 * Plugin and `symtuner why` ask here. Pure: ${get} gives the value of a variable, or NULL. Threads:
 * any. Errors: none, NULL is "nothing".
 */
#ifndef ST_HELD_H_
#define ST_HELD_H_

typedef const char *st_get(const void *from, const char *name);

/* NCCL's own CTA variables: whoever set one has decided already. */
const char *st_held_by_user(st_get *get, const void *from);

/* The same, and what the built-in count gives way to as well. */
const char *st_held_default(st_get *get, const void *from);

#endif

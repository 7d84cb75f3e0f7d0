/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.h - finds the user's setting that keeps us from setting NCCL's CTA count.
 *
 * Used by the plugin and by `symtuner why`. Pure: ${get} returns the value of a variable, or NULL.
 * Threads: any. Errors: none. The functions return the setting's name, or NULL if there is none.
 */
#ifndef ST_HELD_H_
#define ST_HELD_H_

typedef const char *st_get(const void *from, const char *name);

/* Return the name of the first NCCL variable that is set and with which the user chose the number
 * of CTAs; NULL: none is set. */
const char *st_held_by_user(st_get *get, const void *from);

/* Return the same, or else the name of another setting that keeps the built-in count from NCCL. */
const char *st_held_default(st_get *get, const void *from);

#endif

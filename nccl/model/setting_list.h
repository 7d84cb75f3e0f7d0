/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setting_list.h - finds out whether NCCL_ALGO or NCCL_PROTO allows a word. Both variables hold
 * lists of the form "[func:][^]word,word;func:...". A ^ means: all words but these.
 *
 * Pure. Threads: any. Errors: none; unknown words in a list have no effect.
 */
#ifndef ST_SETTING_LIST_H_
#define ST_SETTING_LIST_H_

enum st_says { ST_SAYS_NOTHING, ST_SAYS_NO, ST_SAYS_YES };

/* Return whether ${list} allows ${word} for the collective ${func}. If several parts of the list
 * are for that collective, the last part decides. Returns ST_SAYS_NOTHING if no part is for that
 * collective, or if ${list} is NULL. */
enum st_says st_list_says(const char *list, const char *func, const char *word);

#endif

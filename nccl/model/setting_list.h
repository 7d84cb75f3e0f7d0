/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setting_list.h - what a list setting of NCCL, "[func:][^]word,word;func:...", says of a word.
 *
 * NCCL_ALGO and NCCL_PROTO are such lists. Pure; threads: any. Errors: none, a wrong word is one
 * that is never asked for.
 */
#ifndef ST_SETTING_LIST_H_
#define ST_SETTING_LIST_H_

enum st_says { ST_SAYS_NOTHING, ST_SAYS_NO, ST_SAYS_YES };

/* For the collective called ${func}; the last part that concerns it counts. ${list} may be NULL. */
enum st_says st_list_says(const char *list, const char *func, const char *word);

#endif

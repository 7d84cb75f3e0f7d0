/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setting_list.h - what a list setting of NCCL, "[func:][^]word,word;func:...", says of a word.
 *
 * NCCL_ALGO and NCCL_PROTO are such lists. Pure; threads: any. Errors: none, unknown words in a
 * list have no effect.
 */
#ifndef ST_SETTING_LIST_H_
#define ST_SETTING_LIST_H_

enum st_says { ST_SAYS_NOTHING, ST_SAYS_NO, ST_SAYS_YES };

/* What ${list} (or NULL) says about ${word} for the collective ${func}. The last part for it
 * counts. */
enum st_says st_list_says(const char *list, const char *func, const char *word);

#endif

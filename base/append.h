/* SPDX-License-Identifier: Apache-2.0 */
/* append.h - appends texts to the ledger's file (docs/ledger.md), which several processes share. */
#ifndef ST_APPEND_H_
#define ST_APPEND_H_

#include <stdbool.h>
#include <stddef.h>

enum { ST_APPEND_ERROR = 1200 };

enum st_append { ST_APPEND_ALL, ST_APPEND_CUT, ST_APPEND_NONE };

/* Copy ${pattern} to ${path}, with %p, %h and %% replaced as st_append does. Returns false if the
 * result does not fit: a shortened path would name another file. */
bool st_append_path(const char *pattern, char *path, size_t size);

/* Append ${text} to the file ${pattern}, in whose name %p stands for the process id, %h for the
 * host and %% for a %. One write() appends all of ${text}, so the texts of several processes do not
 * mix. If the file is a pipe and full, wait at most two seconds for its reader. Returns whether all
 * of ${text} was written, only its beginning (ST_APPEND_CUT), or nothing. If not all was written,
 * ${error} says "FILE: reason". */
enum st_append st_append(const char *pattern, const char *text, size_t size,
                         char error[ST_APPEND_ERROR]);

/* Write the name of this host into ${host}. */
void st_append_host(char *host, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_file.h - files that a command writes under a name that the user gave.
 *
 * The last line of such a file is a comment with a hash of all lines before it. It shows whether
 * somebody else wrote or changed the file, which is then not overwritten without --force.
 *
 * Errors: one line on stderr, and false. Threads: one.
 */
#ifndef ST_OWN_FILE_H_
#define ST_OWN_FILE_H_

#include <stdbool.h>
#include <stdio.h>

/* May ${path} be written? Yes if there is no such file, if it is empty or no regular file, or if it
 * is ours: it ends with that line or, for raw data, begins with ${first} (NULL: not raw data). */
bool st_own_file_free(const char *command, const char *path, const char *first, bool force);

/* Write what ${write} prints and then that line: "# ..." or, for ${markup}, "<!-- ... -->". */
bool st_own_file_write(const char *command, const char *path, bool markup,
                       void (*write)(const void *self, FILE *out), const void *self);

#endif

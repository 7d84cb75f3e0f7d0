/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_file.h - files that a command writes under a name that the user gave.
 *
 * The last line of such a file is a comment with a hash of all lines before it. So a file that
 * somebody else wrote, or changed since, is known, and is not overwritten without --force.
 *
 * Errors: one line on stderr, and false. Threads: one.
 */
#ifndef ST_OWN_FILE_H_
#define ST_OWN_FILE_H_

#include <stdbool.h>
#include <stdio.h>

/* May ${path} be written? Yes where there is none, or an empty one, or no plain file, or one of
 * ours: with the line, or, for raw data, one that begins with ${first} (NULL: none). */
bool st_own_file_free(const char *command, const char *path, const char *first, bool force);

/* Write what ${write} prints, and the line behind it: "# ..." or, for ${markup}, "<!-- ... -->". */
bool st_own_file_write(const char *command, const char *path, bool markup,
                       void (*write)(const void *self, FILE *out), const void *self);

#endif

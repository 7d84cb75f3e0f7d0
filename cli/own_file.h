/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_file.h - writes files that the user named. Without --force it overwrites only files that
 * symtuner wrote.
 *
 * The last line of a file written here is a comment with a hash of all lines before it. If the line
 * is missing or the hash is wrong, somebody else wrote or changed the file, and the command
 * overwrites it only with --force.
 *
 * Errors: one line on stderr, and false. Threads: not safe.
 */
#ifndef ST_OWN_FILE_H_
#define ST_OWN_FILE_H_

#include <stdbool.h>
#include <stdio.h>

/* Return whether ${path} may be written, and print why if not. It may be written if one of these
 * holds: ${force} is set; there is no such file; the file is empty; it is not a regular file; it
 * ends with the right hash line. tune and bench call this function before they measure, so that no
 * measurement is lost. */
bool st_own_file_free(const char *command, const char *path, bool force);

/* Return false, and print why, if ${path} is a folder, or if it does not exist and cannot be made.
 * tune and bench call this function, too, before they measure. */
bool st_own_file_possible(const char *command, const char *path);

/* Write to ${path} what ${write} prints, and then the line with the hash. With ${markup} this line
 * is "<!-- ... -->", otherwise "# ...". ${self} is passed to ${write}. A regular file is replaced
 * in one step. Calls st_own_file_free() first, even if the caller has called it before, because the
 * file may have changed since then. */
bool st_own_file_write(const char *command, const char *path, bool force, bool markup,
                       void (*write)(const void *self, FILE *out), const void *self);

#endif

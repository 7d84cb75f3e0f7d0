/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h - a recorded corpus as a stream of text, compressed or not.
 */
#ifndef ST_TEST_CORPUS_FILE_H_
#define ST_TEST_CORPUS_FILE_H_

#include <stdbool.h>
#include <stdio.h>

/* Open ${path}: plain, ending in .xz, or "-" for stdin. NULL with errno set on failure. The caller
 * closes the stream first and calls corpus_close then. */
FILE *corpus_open(const char *path, long *child_out);

/* End the decompression. False when the file was not read whole; ${quiet} keeps the reason off
 * stderr, for a caller who stopped reading first. */
bool corpus_close(const char *path, long child, bool quiet);

/* Cut a line into at most ${room} fields, in place; quotes as RFC 4180. The number of fields, -1 on
 * bad quoting or too many. */
int corpus_split(char *line, char **field, int room);

#endif

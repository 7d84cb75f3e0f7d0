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

/* End the decompression. False if it failed; the reason is on stderr, unless ${quiet}, for a caller
 * that stopped reading early. */
bool corpus_close(const char *path, long child, bool quiet);

/* Cut a line into at most ${room} fields, in place, with quotes as in RFC 4180. The number of
 * fields; -1 for bad quotes or too many fields. */
int corpus_split(char *line, char **field, int room);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h - a recorded corpus as a stream of text, compressed or not.
 */
#ifndef ST_TEST_CORPUS_FILE_H_
#define ST_TEST_CORPUS_FILE_H_

#include <stdbool.h>
#include <stdio.h>

/* Open ${path}: plain text, a file that ends in .xz, or "-" for stdin. Returns NULL with errno set
 * on failure. The caller must close the stream, and then call corpus_close. */
FILE *corpus_open(const char *path, long *child_out);

/* End the decompression. Returns false if it failed, and prints the reason on stderr. With ${quiet}
 * it prints nothing; this is for a caller that stopped reading early. */
bool corpus_close(const char *path, long child, bool quiet);

/* Cut a line into at most ${room} fields, in place, with quotes as in RFC 4180. Returns the number
 * of fields, or -1 for bad quotes or too many fields. */
int corpus_split(char *line, char **field, int room);

#endif

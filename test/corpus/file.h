/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h - reads a corpus (a file of recorded decisions of NCCL) as text, even if it is compressed.
 */
#ifndef ST_TEST_CORPUS_FILE_H_
#define ST_TEST_CORPUS_FILE_H_

#include <stdbool.h>
#include <stdio.h>

/* Open ${path}: plain text, a file that ends in .xz, or "-" for stdin. Returns NULL with errno set
 * on failure. The caller must close the stream, and then call corpus_close. */
FILE *corpus_open(const char *path, long *child_out);

/* Wait until the decompression has ended. Returns false if it failed, and prints the reason on
 * stderr. With ${quiet} it prints nothing: a caller that stops reading early makes xz fail. */
bool corpus_close(const char *path, long child, bool quiet);

/* Cut a line into at most ${room} fields, in place, with quotes as in RFC 4180. Returns the number
 * of fields, or -1 for bad quotes or too many fields. */
int corpus_split(char *line, char **field, int room);

#endif

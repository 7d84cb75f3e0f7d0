/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - text for reports: sizes, wrapped lines, characters that are safe to print.
 *
 * Units      a column is one character of a terminal. Reports have at most ST_TEXT_WIDTH columns.
 * Ownership  callers own the buffers. Threads: any. Errors: none; texts are cut to fit.
 */
#ifndef ST_TEXT_H_
#define ST_TEXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { ST_TEXT_WIDTH = 100, ST_TEXT_SIZE = 24 };

/* Write ${bytes} into ${text}: "64 KiB" for 65536, "1500 B", "1.5 MiB". Returns ${text}. */
char *st_text_size(uint64_t bytes, char text[ST_TEXT_SIZE]);

/* Print ${text} and a newline, in lines of at most ST_TEXT_WIDTH columns that are broken between
 * words. The caller has already printed the first ${indent} columns of the first line. The other
 * lines are indented by ${indent} columns. */
void st_text_wrap(FILE *out, int indent, const char *text);

/* Read a whole number from ${least} to ${most} into ${out}. Returns false if ${text} is not such a
 * number. */
bool st_text_number(const char *text, long least, long most, int *out);

/* Return the length in bytes of the UTF-8 character at ${text}, or 0 if there is none. */
int st_text_utf8(const char *text);

/* Return the length in bytes of the character at ${text}, and set ${shown_out} to whether it is
 * safe to print. Not safe are control characters, characters that change the text direction, and
 * bytes that are not UTF-8. */
int st_text_character(const char *text, bool *shown_out);

/* Print ${text}, with "?" for every character that is not safe to print. Newlines are not safe, so
 * the text stays on one line. */
void st_text_plain(FILE *out, const char *text);

/* Return the part of ${path} after its last "/": a name without its folders. The result points into
 * ${path}. */
const char *st_text_base(const char *path);

/* Print into the buffer ${text} of ${size} bytes, from offset ${at} on; cut what does not fit.
 * Returns the offset of the new end, at most ${size} - 1. */
size_t st_text_add(char *text, size_t size, size_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - what reports are made of: sizes, wrapped lines, JSON strings.
 *
 * Units      columns are characters of a terminal; reports keep to ST_TEXT_WIDTH of them.
 * Ownership  callers give the buffers. Threads: any. Errors: none, texts are cut at the buffer.
 */
#ifndef ST_TEXT_H_
#define ST_TEXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { ST_TEXT_WIDTH = 100, ST_TEXT_SIZE = 24 };

/* 65536 -> "64 KiB", 1500 -> "1500 B", 1572864 -> "1.5 MiB": ${text}, which it returns. */
char *st_text_size(uint64_t bytes, char text[ST_TEXT_SIZE]);

/* ${text} behind ${indent} columns that are already written; later lines start there as well. */
void st_text_wrap(FILE *out, int indent, const char *text);

/* Does "steer|observe|off" hold "OFF"? Case does not count. */
bool st_text_in_list(const char *list, const char *word);

/* The same as the plugin compares its variables: it takes "off" and not "OFF". */
bool st_text_is_legal(const char *list, const char *word);

/* The whole number that ${text} is, when it is one from ${least} to ${most}. */
bool st_text_number(const char *text, long least, long most, int *out);

/* How many bytes the character at ${text} has. False in ${shown_out}: it is none that a terminal or
 * a page should get, for it moves the cursor, turns the direction or is no UTF-8. */
int st_text_character(const char *text, bool *shown_out);

/* ${text} on one line: what cannot be shown becomes "?". */
void st_text_plain(FILE *out, const char *text);

/* A JSON string; bytes that are not UTF-8 become \u00XX. NULL gives null. */
void st_json_string(FILE *out, const char *text);

/* Add to ${text} of ${size} at ${at}; returns the new end, never past size - 1. */
size_t st_text_add(char *text, size_t size, size_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

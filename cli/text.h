/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - text for reports: sizes, wrapped lines, characters that are safe to print.
 *
 * Units      columns are characters of a terminal; reports keep to ST_TEXT_WIDTH of them.
 * Ownership  callers give the buffers. Threads: any. Errors: none, texts are cut to fit.
 */
#ifndef ST_TEXT_H_
#define ST_TEXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { ST_TEXT_WIDTH = 100, ST_TEXT_SIZE = 24 };

/* Print 65536 as "64 KiB", 1500 as "1500 B", 1572864 as "1.5 MiB". Returns ${text}. */
char *st_text_size(uint64_t bytes, char text[ST_TEXT_SIZE]);

/* Print ${text} after ${indent} columns that are already there; further lines are indented as
 * far. */
void st_text_wrap(FILE *out, int indent, const char *text);

/* Does "steer|observe|off" hold "OFF"? Case does not count. */
bool st_text_in_list(const char *list, const char *word);

/* The same, but case counts, as it does in the variables of the plugin. */
bool st_text_is_legal(const char *list, const char *word);

/* Read a whole number from ${least} to ${most}. False if ${text} is none. */
bool st_text_number(const char *text, long least, long most, int *out);

/* The length of the UTF-8 sequence at ${text}; 0 if it is none. */
int st_text_utf8(const char *text);

/* How many bytes the character at ${text} has. ${shown_out}: whether it is safe to print; control
 * characters, changes of direction and bytes that are not UTF-8 are not. */
int st_text_character(const char *text, bool *shown_out);

/* Print ${text} on one line, with "?" for what is not safe to print. */
void st_text_plain(FILE *out, const char *text);

/* Add to ${text} of ${size} at ${at}; returns the new end, never past size - 1. */
size_t st_text_add(char *text, size_t size, size_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.h - nothing that the command prints can move a terminal's cursor.
 *
 * Names of rules, files, hosts and variables may hold escape sequences. Both output streams of the
 * process therefore pass through a filter that prints "?" for every character that
 * st_text_character finds unsafe. Newlines and tabs stay.
 */
#ifndef ST_TERMINAL_H_
#define ST_TERMINAL_H_

#include <stddef.h>

/* A filter, and the first bytes of a character of which the others have not come yet. */
struct st_plain {
    int fd;
    char held[5];
    int holds;
};

/* Filter ${size} bytes of ${in} into ${out}, which has room for ${size} + 4. How many bytes came
 * out. */
size_t st_plain_filter(struct st_plain *plain, const char *in, size_t size, char *out);

/* Once, before anything is printed. */
void st_terminal_guard(void);

#endif

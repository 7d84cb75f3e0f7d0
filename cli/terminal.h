/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.h - nothing that the command prints can move a terminal's cursor.
 *
 * Names of rules, files, hosts and variables may hold escape sequences. Instead of asking every
 * line that prints one to remember that, both output streams of the process pass through a filter:
 * what st_text_character does not want shown becomes "?". Newlines and tabs stay.
 */
#ifndef ST_TERMINAL_H_
#define ST_TERMINAL_H_

#include <stddef.h>

/* Bytes on their way, and the beginning of a character that the last ones ended with. */
struct st_plain {
    int fd;
    char held[5];
    int holds;
};

/* Filter ${size} bytes of ${in} into ${out}, which has room for ${size} + 4; how many it gives. */
size_t st_plain_filter(struct st_plain *plain, const char *in, size_t size, char *out);

/* Once, before anything is printed. */
void st_terminal_guard(void);

#endif

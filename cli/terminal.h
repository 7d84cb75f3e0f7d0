/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.h - keeps escape sequences in printed names from controlling the terminal.
 *
 * Names of rules, files, hosts and variables may hold escape sequences. stdout and stderr therefore
 * pass through a filter that prints "?" for every character that st_text_character finds unsafe.
 * Newlines and tabs stay.
 */
#ifndef ST_TERMINAL_H_
#define ST_TERMINAL_H_

#include <stddef.h>

/* The state of a filter between two writes. */
struct st_plain {
    int fd;       /* the filtered text goes here                     */
    char held[5]; /* the first bytes of a character still incomplete */
    int holds;    /* how many bytes ${held} has                      */
};

/* Filter ${size} bytes of ${in} into ${out}, which has room for ${size} + 4 bytes. Returns the
 * number of bytes written to ${out}. */
size_t st_plain_filter(struct st_plain *plain, const char *in, size_t size, char *out);

/* Put the filter in front of stdout and stderr. The process calls it once, before it prints
 * anything. */
void st_terminal_guard(void);

#endif

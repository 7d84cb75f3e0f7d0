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

/* Put the filter in front of stdout and stderr. Call this once, before the process prints
 * anything. */
void st_terminal_guard(void);

#endif

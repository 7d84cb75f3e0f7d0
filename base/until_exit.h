/* SPDX-License-Identifier: Apache-2.0 */
/*
 * until_exit.h - read memory that another library may unmap while the process exits.
 *
 * exit() runs the functions that were given to atexit, the latest first, while other threads still
 * run. A library such as CUDA may have given it a function that unmaps its memory. A thread that
 * then reads the memory ends the process by SIGSEGV.
 */
#ifndef ST_UNTIL_EXIT_H_
#define ST_UNTIL_EXIT_H_

#include <stdbool.h>

/* Call this after the other library has made the memory. So our function of atexit runs before that
 * library's. It waits until no thread reads, but no longer than 2 s. */
void st_until_exit_begin(void);

/* Call this before reading the memory. Returns false once exit() has begun: then do not read, and
 * do not call st_until_exit_leave. */
bool st_until_exit_enter(void);
void st_until_exit_leave(void);

#endif

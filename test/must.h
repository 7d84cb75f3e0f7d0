/* SPDX-License-Identifier: Apache-2.0 */
/* must.h - MUST(condition). If the condition is false, it prints the condition and its place, and
 * ends the program. */
#ifndef TEST_MUST_H_
#define TEST_MUST_H_

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif

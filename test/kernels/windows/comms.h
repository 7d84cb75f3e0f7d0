/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comms.h - a fixture: RANKS handles, made from communicators of the fake NCCL, whose program
 * registers windows of its own.
 */
#ifndef ST_TEST_COMMS_H_
#define ST_TEST_COMMS_H_

#include "symtuner_ar.h"

enum { PAGE = 4096, RANKS = 3, OBJECTS = 128 };

extern symtuner_ar *win_h[RANKS];
extern void *object[OBJECTS][RANKS]; /* [window][rank]: the buffer; row i also stands for window
                                        i itself */

/* For tcase_add_checked_fixture. */
void set_up_comms(void);
void tear_down_comms(void);

#endif

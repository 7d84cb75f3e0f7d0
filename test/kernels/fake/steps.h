/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.h - a list of what the fakes were told to do, in order: kernels, events, and NCCL's calls.
 * A test can see in it what must have ended before what.
 */
#ifndef ST_TEST_FAKE_STEPS_H_
#define ST_TEST_FAKE_STEPS_H_

#include <stddef.h>

enum fake_what { FAKE_LAUNCH, FAKE_RECORD, FAKE_WAIT, FAKE_NCCL };
enum { FAKE_STEPS = 1 << 14 };

struct fake_step {
    enum fake_what what;
    int device;
    const void *stream, *from, *to; /* for RECORD and WAIT, ${from} is the event */
    size_t bytes;
};

extern struct fake_step fake_steps[FAKE_STEPS];
extern int fake_step_count; /* set it to 0 to begin a new list */

void fake_step(enum fake_what what, const void *stream, const void *from, const void *to,
               size_t bytes);

#endif

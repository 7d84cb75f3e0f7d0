/* SPDX-License-Identifier: Apache-2.0 */
/* hostile.h - a table of damaged call frames. */
#ifndef FFI_TEST_HOSTILE_H_
#define FFI_TEST_HOSTILE_H_

#include <stddef.h>

#include "test/jax/frames.h"

struct hostile {
    const char *name;
    void (*spoil)(struct frame *);
    const char *says; /* part of the error message */
};

extern const struct hostile hostile[];
extern const size_t hostile_count;

#endif

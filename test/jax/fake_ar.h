/* SPDX-License-Identifier: Apache-2.0 */
/* fake_ar.h - what fake_ar.c records of calls. */
#ifndef FFI_TEST_FAKE_AR_H_
#define FFI_TEST_FAKE_AR_H_

#include <stddef.h>

/* The last call, and the number of calls. */
struct fake_call {
    const void *send;
    void *recv;
    size_t count;
    int dtype, op, device;
    void *stream;
    int calls, with_peers, coll; /* coll: enum symtuner_ar_coll */
};

#endif

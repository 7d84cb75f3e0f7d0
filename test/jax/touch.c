/* SPDX-License-Identifier: Apache-2.0 */
/* touch.c - a part of the test's libsymtuner_ffi.so. It marks a call on the first member, as the
 * handler does. */
#include "jax/liveness.h"

__attribute__((visibility("default"))) void test_touch(void);
void test_touch(void)
{
    ffi_pending_mark(ffi_member_at(0), NULL);
}

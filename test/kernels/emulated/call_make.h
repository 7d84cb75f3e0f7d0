/* SPDX-License-Identifier: Apache-2.0 */
/* call_make.h - makes a random call through the library's public functions. */
#ifndef ST_TEST_CALL_MAKE_H_
#define ST_TEST_CALL_MAKE_H_

#include <stdbool.h>

#include "symtuner_ar.h"
#include "test/kernels/emulated/call_values.h"

/* Return whether the kernel of ${c} can run AR_PREMUL. */
bool call_may_multiply(const struct call *c);

/* Run ${c} on rank ${me}. Some ranks have the scalar of AR_PREMUL on the host, others in device
 * memory. The scalar has the right value only as long as the library may read it: on the host until
 * the operator is created, in device memory from then on. The operator is destroyed after the
 * call. */
ncclResult_t call_make(const struct call *c, symtuner_ar *handle, int me, const char *send,
                       char *recv);

#endif

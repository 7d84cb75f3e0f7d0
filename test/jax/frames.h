/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h - call frames as XLA would build them, and a runtime that answers them. */
#ifndef ST_TEST_FRAMES_H_
#define ST_TEST_FRAMES_H_

#include "xla/ffi/api/c_api.h"

/* A good frame: 6 x 7 float32, sum over ids {0, 1}, on ordinal 1 and stream 0x5000. Tests spoil it.
 */
struct frame {
    XLA_FFI_CallFrame frame;
    XLA_FFI_Buffer in, out;
    int64_t in_dims[2], out_dims[2];
    XLA_FFI_ArgType arg_type;
    XLA_FFI_RetType ret_type;
    void *arg, *ret;
    XLA_FFI_ByteSpan name[3];
    XLA_FFI_ByteSpan *names[3];
    XLA_FFI_AttrType types[3];
    void *values[3];
    XLA_FFI_Array groups;
    XLA_FFI_Scalar op, ranks;
    int64_t ids[4];
    int32_t op_value, ranks_value;
};

enum { ATTR_GROUPS, ATTR_OP, ATTR_RANKS };

/* The runtime: what it says and what it was told. */
struct runtime {
    XLA_FFI_Api api;
    int ordinal;
    int64_t run;
    void *stream;
    int refuse; /* DeviceOrdinal_Get fails */
    int errors; /* that were made and not yet taken */
    int code;
    char message[1024];
};

extern struct runtime runtime;
extern _Thread_local int thread_ordinal; /* instead of runtime.ordinal; -1: none */

void frame_fill(struct frame *f);
void runtime_fill(void);

#endif

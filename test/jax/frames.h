/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h - call frames as XLA would build them, and a fake of XLA's runtime. */
#ifndef FFI_TEST_FRAMES_H_
#define FFI_TEST_FRAMES_H_

#include "xla/ffi/api/c_api.h"

/* A valid frame: the sum of 6 x 7 float32 over ids {0, 1}, on ordinal 1 and stream 0x5000. Some
 * tests damage it. */
struct frame {
    XLA_FFI_CallFrame frame;
    XLA_FFI_Buffer in, out;
    int64_t in_dims[2], out_dims[2];
    XLA_FFI_ArgType arg_type;
    XLA_FFI_RetType ret_type;
    void *arg, *ret;
    XLA_FFI_ByteSpan name[4];
    XLA_FFI_ByteSpan *names[4];
    XLA_FFI_AttrType types[4];
    void *values[4];
    XLA_FFI_Array groups, flat;
    XLA_FFI_Scalar op, ranks, coll;
    int64_t ids[4];
    int32_t op_value, ranks_value, coll_value;
};

enum { ATTR_GROUPS, ATTR_OP, ATTR_RANKS, ATTR_FLAT, ATTR_COLL = ATTR_FLAT };

/* The fake runtime: what it answers, and what it was told. */
struct runtime {
    union {
        XLA_FFI_Api api;
        char room[256]; /* room for members that an older header does not have */
    };
    int ordinal;
    int64_t run;
    void *stream;
    int refuse; /* if set, DeviceOrdinal_Get fails */
    int errors; /* number of errors that the handler has made and no test has taken yet */
    int code;
    char message[1024];
};

extern struct runtime runtime;
/* the device ordinal in this thread, in place of runtime.ordinal; -1: runtime.ordinal holds */
extern _Thread_local int thread_ordinal;

void frame_fill(struct frame *f);

/* Add the attribute "flat", as in the frame of a program that uses XLA's communicator. */
void frame_add_flat(struct frame *f);

/* Add the attribute "coll". Make the result of a reduce-scatter, or the operand of an all-gather, 3
 * x 7. */
void frame_add_coll(struct frame *f, int coll);

/* The collectives extension of a fake runtime with FFI 0.4. ${minor}: its version is 0.${minor}.
 * ${requests}, ${gets}: how often each of its functions was called. ${comm}: the communicator that
 * it gives. ${seen}: the groups that were last asked for, as positions in the program's list of
 * devices. */
struct offer {
    int minor, requests, gets, fails;
    void *comm;
    int64_t seen[4];
    size_t rows, ranks;
};
extern struct offer offer;
void runtime_offer(int minor, void *comm);

void runtime_fill(void);

#endif

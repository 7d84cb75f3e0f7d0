/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - read an XLA call frame, with every field checked.
 *
 * Pure: no CUDA, no globals. XLA renamed some types between its FFI API 0.3 and 0.4; we do not use
 * those types, so this file compiles with either header.
 */
#ifndef FFI_FRAME_H_
#define FFI_FRAME_H_

#include <stddef.h>
#include <stdint.h>

#include "jax/library.h"
#include "xla/ffi/api/c_api.h"

/* The version of the FFI API that our handlers report. It is the oldest version that has everything
 * that the handlers use, because a runtime refuses a handler that reports a newer version than the
 * runtime's own. */
#define FFI_MAJOR 0
#define FFI_MINOR 3

struct ffi_call {
    int coll; /* enum symtuner_ar_coll */
    const void *send;
    void *recv;
    size_t count; /* elements of ${dtype} in the shorter buffer; a complex number is two of them */
    size_t bytes; /* size of the longer buffer */
    int dtype;    /* ncclDataType_t */
    int op;       /* ncclRedOp_t; an all-gather has none */
    const int64_t *groups;
    int rows, ranks;
};

/* The groups of a call that uses XLA's communicator. XLA identifies a device by its position in the
 * program's list of devices. Such a call has these positions in the attribute "flat", which other
 * calls do not have. */
struct ffi_flat {
    const int64_t *ids; /* the positions; NULL: the call does not use XLA's communicator */
    int rows, ranks;
};

#define FFI_FLAT_ROWS 4096

/* If the frame only asks for the handler's metadata, write our version and ${traits} into it and
 * return 1; else return 0. */
int ffi_frame_is_metadata(const XLA_FFI_CallFrame *frame, uint32_t traits);

/* Fill ${call} from the frame's attributes and buffers. Returns 0, or -1 with a sentence in ${why}
 * that names the fault. */
int ffi_frame_read(const XLA_FFI_CallFrame *frame, struct ffi_call *call, char *why,
                   size_t why_size);

/* Fill ${flat} from the frame's attributes. Reads no buffers, so it also works in the prepare
 * stage, where a frame has none. If there is no attribute "flat", sets ${flat}->ids to NULL.
 * Returns 0, or -1 with a sentence in ${why} that names the fault. */
int ffi_frame_read_flat(const XLA_FFI_CallFrame *frame, struct ffi_flat *flat, char *why,
                        size_t why_size);

/* Does the runtime have ${member} of XLA_FFI_Api? An older runtime has a shorter table. */
#define FFI_HAS(api, member)                                                                       \
    ((api) != NULL &&                                                                              \
     (api)->struct_size >= offsetof(XLA_FFI_Api, member) + sizeof((api)->member) &&                \
     (api)->member != NULL)

#endif

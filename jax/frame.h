/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - read an XLA call frame, with every field checked.
 *
 * Pure: no CUDA, no globals. XLA renamed some types between its FFI API 0.3 and 0.4; those names
 * are not used, so the file compiles with either header.
 */
#ifndef FFI_FRAME_H_
#define FFI_FRAME_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

/* The oldest FFI API that has everything used here. Our handlers report this version, since a
 * runtime refuses a handler that reports a newer one than its own. */
#define FFI_MAJOR 0
#define FFI_MINOR 3

struct ffi_call {
    const void *send;
    void *recv;
    size_t count; /* of NCCL's elements: a complex number counts as two */
    size_t bytes;
    int dtype; /* ncclDataType_t */
    int op;    /* ncclRedOp_t */
    const int64_t *groups;
    int rows, ranks;
};

/* The same groups as places in the program's list of devices, which is how XLA names devices. Only
 * programs that use XLA's communicator have them. */
struct ffi_flat {
    const int64_t *ids; /* NULL: the program does not use XLA's communicator */
    int rows, ranks;
};

#define FFI_FLAT_ROWS 4096

/* Does the frame only ask for the handler's metadata? If so, answer with our version and
 * ${traits}. */
int ffi_frame_is_metadata(const XLA_FFI_CallFrame *frame, uint32_t traits);

/* Fill ${call}. Returns 0, or -1 with a sentence in ${why} that names the fault. */
int ffi_frame_read(const XLA_FFI_CallFrame *frame, struct ffi_call *call, char *why,
                   size_t why_size);

/* The same for ${flat}, from the attributes alone: a prepare stage has nothing else. */
int ffi_frame_read_flat(const XLA_FFI_CallFrame *frame, struct ffi_flat *flat, char *why,
                        size_t why_size);

/* Does the runtime have ${member} of XLA_FFI_Api? The table of an older runtime is shorter. */
#define FFI_HAS(api, member)                                                                       \
    ((api) != NULL &&                                                                              \
     (api)->struct_size >= offsetof(XLA_FFI_Api, member) + sizeof((api)->member) &&                \
     (api)->member != NULL)

#endif

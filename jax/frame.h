/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - what an XLA call frame says, checked field by field.
 *
 * Pure: no CUDA, no globals. Names of types that XLA renamed between its FFI API 0.3 and 0.4 are
 * not used, so the file compiles against the header of either.
 */
#ifndef FFI_FRAME_H_
#define FFI_FRAME_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

/* The oldest FFI API with all that is used here; a handler that reports more than the runtime has
 * is refused, so this is also what every handler reports. */
#define FFI_MAJOR 0
#define FFI_MINOR 3

struct ffi_call {
    const void *send;
    void *recv;
    size_t count; /* in NCCL's elements: a complex number is two */
    size_t bytes;
    int dtype; /* NCCL's number */
    int op;    /* NCCL's number */
    const int64_t *groups;
    int rows, ranks;
};

/* The groups once more, as places in the program's list of devices: what XLA counts in. Programs
 * that use XLA's communicator have them. */
struct ffi_flat {
    const int64_t *ids; /* NULL: the program has its own communicator or needs none */
    int rows, ranks;
};

#define FFI_FLAT_ROWS 4096

/* Whether the frame only asks what the handler is; if so ${traits} is written into the answer. */
int ffi_frame_is_metadata(const XLA_FFI_CallFrame *frame, uint32_t traits);

/* Fill ${call}; 0, or -1 with a sentence that names what is wrong. */
int ffi_frame_read(const XLA_FFI_CallFrame *frame, struct ffi_call *call, char *why,
                   size_t why_size);

/* As ffi_frame_read: fill ${flat} from the attributes alone, all that a prepare stage has. */
int ffi_frame_read_flat(const XLA_FFI_CallFrame *frame, struct ffi_flat *flat, char *why,
                        size_t why_size);

/* Whether the runtime offers ${member} of XLA_FFI_Api; an older one has a shorter table. */
#define FFI_HAS(api, member)                                                                       \
    ((api) != NULL &&                                                                              \
     (api)->struct_size >= offsetof(XLA_FFI_Api, member) + sizeof((api)->member) &&                \
     (api)->member != NULL)

#endif

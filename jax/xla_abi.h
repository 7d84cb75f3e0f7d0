/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xla_abi.h - our own declarations of XLA's FFI extension "collectives" 0.1, and of the lookup of
 * extensions in FFI 0.4.
 *
 * XLA's header for this extension comes only with jaxlib 0.11.2 and later, but we also compile with
 * older releases. The layouts are part of XLA's FFI ABI. Where the header exists,
 * test/jax/same_abi.c compares our declarations with it.
 */
#ifndef FFI_XLA_ABI_H_
#define FFI_XLA_ABI_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

#define FFI_COLLECTIVES       129
#define FFI_MAJOR_KNOWN       0
#define FFI_MINOR_KNOWN       1
#define FFI_FLATTENED_ID      3   /* ids are positions in the program's list of devices */
#define FFI_FIND_EXTENSION_AT 192 /* offset of the first member of XLA_FFI_Api that FFI 0.3 lacks */

struct ffi_find_extension_args {
    size_t struct_size;
    void *extension_start;
    void *ctx;
    int64_t type;
    const void *extension; /* set by XLA; NULL: the extension is not attached */
};

struct ffi_replica_group {
    const int64_t *ids;
    size_t size;
};

struct ffi_request_args {
    size_t struct_size;
    void *extension_start;
    int mode;
    const struct ffi_replica_group *groups;
    size_t groups_size;
    int64_t communication_id;
};

struct ffi_get_args {
    struct ffi_request_args head;
    void *comm; /* set by XLA: an ncclComm_t */
};

struct ffi_collectives {
    size_t struct_size;
    int64_t type;
    int32_t major, minor;
    const void *next;
    void *state;
    XLA_FFI_Error *(*request)(const struct ffi_collectives *, struct ffi_request_args *);
    XLA_FFI_Error *(*get)(const struct ffi_collectives *, struct ffi_get_args *);
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* xla.c - call XLA's FFI extension "collectives". */
#include "jax/xla.h"
#include "jax/xla_abi.h"

#include <string.h>

typedef XLA_FFI_Error *find_extension(struct ffi_find_extension_args *);

static const struct ffi_collectives *find(const XLA_FFI_CallFrame *frame)
{
    struct ffi_find_extension_args args = {
        .struct_size = sizeof args, .ctx = frame->ctx, .type = FFI_COLLECTIVES};
    const struct ffi_collectives *found;
    find_extension *ask;
    XLA_FFI_Error *error;

    if (frame->api->struct_size < FFI_FIND_EXTENSION_AT + sizeof ask)
        return NULL; /* FFI 0.3 has no lookup of extensions */
    memcpy(&ask, (const char *)frame->api + FFI_FIND_EXTENSION_AT, sizeof ask);
    if (ask == NULL)
        return NULL;
    error = ask(&args);
    if (error != NULL) { /* an error of the lookup just means that there is no such extension */
        struct XLA_FFI_Error_Destroy_Args done = {
            .struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, .error = error};

        if (FFI_HAS(frame->api, XLA_FFI_Error_Destroy))
            frame->api->XLA_FFI_Error_Destroy(&done);
        return NULL;
    }
    found = args.extension;
    return found != NULL && found->struct_size >= sizeof *found &&
                   found->major == FFI_MAJOR_KNOWN && found->minor >= FFI_MINOR_KNOWN &&
                   found->request != NULL && found->get != NULL
               ? found
               : NULL;
}

int ffi_xla_offers(const XLA_FFI_CallFrame *frame)
{
    return find(frame) != NULL;
}

static XLA_FFI_Error *missing(const XLA_FFI_CallFrame *frame)
{
    struct XLA_FFI_Error_Create_Args args = {
        .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
        .message = "symtuner: this program wants XLA's communicator, which this jaxlib does not "
                   "offer; set SYMTUNER_JAX_COMM=own on all processes",
        .errc = XLA_FFI_Error_Code_UNIMPLEMENTED};

    return frame->api->XLA_FFI_Error_Create(&args);
}

/* The argument structs of request() and get() begin with the same members. Fill these members and
 * return them. ${size} is the size of the whole struct. Also fills ${rows} with the groups of
 * ${flat}; the returned members point to ${rows}. */
static struct ffi_request_args head_of(const struct ffi_flat *flat, struct ffi_replica_group *rows,
                                       size_t size)
{
    size_t n = flat->rows < FFI_FLAT_ROWS ? (size_t)flat->rows : FFI_FLAT_ROWS;

    for (size_t i = 0; i < n; i++)
        rows[i] =
            (struct ffi_replica_group){flat->ids + i * (size_t)flat->ranks, (size_t)flat->ranks};
    return (struct ffi_request_args){
        .struct_size = size, .mode = FFI_FLATTENED_ID, .groups = rows, .groups_size = n};
}

XLA_FFI_Error *ffi_xla_request(const XLA_FFI_CallFrame *frame, const struct ffi_flat *flat)
{
    const struct ffi_collectives *collectives = find(frame);
    struct ffi_replica_group rows[FFI_FLAT_ROWS];
    struct ffi_request_args args = head_of(flat, rows, sizeof args);

    return collectives != NULL ? collectives->request(collectives, &args) : missing(frame);
}

XLA_FFI_Error *ffi_xla_get(const XLA_FFI_CallFrame *frame, const struct ffi_flat *flat, void **comm)
{
    const struct ffi_collectives *collectives = find(frame);
    struct ffi_replica_group rows[FFI_FLAT_ROWS];
    struct ffi_get_args args = {head_of(flat, rows, sizeof args), NULL};
    XLA_FFI_Error *error;

    if (collectives == NULL)
        return missing(frame);
    error = collectives->get(collectives, &args);
    *comm = args.comm;
    return error;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* symtuner_ffi.c - the XLA handler: frame in, kernels on the stream, error out. */
#include "symtuner_ffi.h"

#include <stdio.h>
#include <string.h>

#include "ffi_frame.h"
#include "ffi_groups.h"

static uint32_t traits; /* set before the handler is registered */

void symtuner_ffi_allow_command_buffers(int yes)
{
    traits = yes ? XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE : 0;
}

static XLA_FFI_Error *fail(const XLA_FFI_Api *api, XLA_FFI_Error_Code code, const char *text)
{
    char                             message[640];
    struct XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE};

    snprintf(message, sizeof message, "symtuner: %s", text);
    args.message = message; /* XLA copies it */
    args.errc = code;
    return api->XLA_FFI_Error_Create(&args);
}

static XLA_FFI_Error *find_device(const XLA_FFI_CallFrame *frame, int *ordinal, void **stream)
{
    struct XLA_FFI_DeviceOrdinal_Get_Args device = {
        .struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, .ctx = frame->ctx};
    struct XLA_FFI_Stream_Get_Args on = {.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE,
                                         .ctx = frame->ctx};
    XLA_FFI_Error *error = frame->api->XLA_FFI_DeviceOrdinal_Get(&device);

    if (error == NULL)
        error = frame->api->XLA_FFI_Stream_Get(&on);
    *ordinal = device.device_ordinal;
    *stream = on.stream;
    return error;
}

XLA_FFI_Error *symtuner_ffi_all_reduce(XLA_FFI_CallFrame *frame)
{
    const struct st_ar *ar = st_ar_get();
    const XLA_FFI_Api  *api;
    struct st_call      call;
    struct st_seat     *seat;
    XLA_FFI_Error      *error;
    char                why[512];
    int                 ordinal, result;
    void               *stream;

    if (frame == NULL || st_frame_is_metadata(frame, traits))
        return NULL;
    api = frame->api;
    if (!ST_FFI_HAS(api, XLA_FFI_Error_Create))
        return NULL; /* nobody to tell */
    if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE)
        return NULL; /* nothing to prepare */
    if (!ST_FFI_HAS(api, XLA_FFI_Stream_Get) || !ST_FFI_HAS(api, XLA_FFI_DeviceOrdinal_Get))
        return fail(api, XLA_FFI_Error_Code_UNIMPLEMENTED,
                    "this jaxlib tells a custom call neither stream nor device; jax 0.9.2 or later does");
    if (st_frame_read(frame, &call, why, sizeof why) != 0)
        return fail(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, why);
    if (ar == NULL)
        return fail(api, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                    "libsymtuner_ar.so is not loaded; import symtuner in the process that runs this");
    error = find_device(frame, &ordinal, &stream);
    if (error != NULL)
        return error;
    seat = st_seat_find(call.groups, call.rows, call.ranks, ordinal);
    if (seat == NULL) {
        snprintf(why, sizeof why,
                 "no group of %d ranks is open on GPU %d; lower the program in this process, or call "
                 "symtuner.open_group(devices) first",
                 call.ranks, ordinal);
        return fail(api, XLA_FFI_Error_Code_FAILED_PRECONDITION, why);
    }
    pthread_mutex_lock(&seat->lock);
    result = ar->all_reduce(call.send, call.recv, call.count, call.dtype, call.op, seat->handle, stream);
    seat->calls += result == 0;
    if (result != 0)
        snprintf(why, sizeof why, "rank %d of %d on GPU %d: %s", seat->me, seat->ranks, ordinal,
                 ar->error(seat->handle));
    pthread_mutex_unlock(&seat->lock);
    return result == 0 ? NULL : fail(api, XLA_FFI_Error_Code_INTERNAL, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* handler.c - the XLA handler: it reads a call frame, starts the kernels on the frame's stream, and
 * returns errors. */
#include "jax/symtuner_ffi.h"

#include <stdio.h>
#include <string.h>

#include "dropin/tally.h"
#include "jax/frame.h"
#include "jax/groups.h"
#include "jax/peer_access.h"
#include "jax/liveness.h"
#include "jax/xla.h"

static size_t zero_copy_from = SIZE_MAX; /* bytes; shorter calls exchange no addresses */

void symtuner_ffi_zero_copy_from(size_t bytes)
{
    zero_copy_from = bytes;
}

static XLA_FFI_Error *fail(const XLA_FFI_Api *api, XLA_FFI_Error_Code code, const char *text)
{
    char message[640];
    struct XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE};

    snprintf(message, sizeof message, "symtuner: %s", text);
    args.message = message; /* XLA copies the message */
    args.errc = code;
    return api->XLA_FFI_Error_Create(&args);
}

/* One call, read from its frame. */
struct job {
    struct ffi_call call;
    struct ffi_flat flat;
    struct ffi_member *member;
    struct ffi_offer offer;
    int ordinal;
    int recordable; /* XLA may record this call into a command buffer (CUDA graph) */
    int64_t run;
    void *stream;
};

static XLA_FFI_Error *ask_runtime(const XLA_FFI_CallFrame *frame, struct job *j)
{
    struct XLA_FFI_DeviceOrdinal_Get_Args device = {
        .struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, .ctx = frame->ctx};
    struct XLA_FFI_RunId_Get_Args run = {.struct_size = XLA_FFI_RunId_Get_Args_STRUCT_SIZE,
                                         .ctx = frame->ctx};
    struct XLA_FFI_Stream_Get_Args on = {.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE,
                                         .ctx = frame->ctx};
    XLA_FFI_Error *error = frame->api->XLA_FFI_DeviceOrdinal_Get(&device);

    if (error == NULL)
        error = frame->api->XLA_FFI_RunId_Get(&run);
    if (error == NULL && frame->stage == XLA_FFI_ExecutionStage_EXECUTE)
        error = frame->api->XLA_FFI_Stream_Get(&on);
    j->ordinal = device.device_ordinal;
    j->run = run.run_id;
    j->stream = on.stream;
    return error;
}

/* Fill ${j} from the frame, and hold j->member. Returns NULL, or an error that says what is wrong
 * with the frame, the process or the runtime. */
static XLA_FFI_Error *read_job(const XLA_FFI_CallFrame *frame, struct job *j)
{
    const XLA_FFI_Api *api = frame->api;
    XLA_FFI_Error *error;
    char why[512];

    if (!FFI_HAS(api, XLA_FFI_Stream_Get) || !FFI_HAS(api, XLA_FFI_DeviceOrdinal_Get) ||
        !FFI_HAS(api, XLA_FFI_RunId_Get))
        return fail(
            api, XLA_FFI_Error_Code_UNIMPLEMENTED,
            "this jaxlib tells a custom call neither stream nor device; jax 0.9.2 or later does");
    if (ffi_frame_read(frame, &j->call, why, sizeof why) != 0 ||
        ffi_frame_read_flat(frame, &j->flat, why, sizeof why) != 0)
        return fail(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, why);
    if (ffi_ar_get() == NULL)
        return fail(
            api, XLA_FFI_Error_Code_FAILED_PRECONDITION,
            "libsymtuner_ar.so is not loaded; import symtuner in the process that runs this");
    error = ask_runtime(frame, j);
    if (error != NULL)
        return error;
    j->offer =
        (struct ffi_offer){j->call.send, j->call.recv, j->call.count, j->call.dtype, j->call.op};
    j->member = ffi_member_find(j->call.groups, j->call.rows, j->call.ranks, j->ordinal,
                                j->flat.ids != NULL);
    if (j->member != NULL)
        return NULL;
    snprintf(why, sizeof why,
             "no group of %d ranks is open on GPU %d; lower the program in this process, or call "
             "symtuner.open_group(devices) first",
             j->call.ranks, j->ordinal);
    return fail(api, XLA_FFI_Error_Code_FAILED_PRECONDITION, why);
}

/* May the ranks of this call exchange addresses? The answer is the same on all ranks, because it
 * depends on sizes and settings only. They may not if XLA may record the call: the recording would
 * keep the addresses of other ranks' buffers, and these may change before a replay. They may not in
 * a reduce-scatter or an all-gather either, because the only function of the library that takes the
 * addresses of all ranks is for all-reduces (symtuner_ar_all_reduce_at()). */
static int may_exchange(const struct job *j)
{
    return j->member->exchange != NULL && j->call.bytes >= zero_copy_from && !j->recordable &&
           j->call.coll == SYMTUNER_AR_ALL_REDUCE;
}

/* Get XLA's communicator. If the member's handle was made on another communicator, make a new
 * handle on this one. All ranks must make this handle together. They do, because XLA gives a new
 * communicator to all ranks in the same run. The old handle leaks: to destroy it we would need the
 * old communicator, which XLA has destroyed. */
static XLA_FFI_Error *adopt_comm(const struct job *j, const XLA_FFI_CallFrame *frame)
{
    const struct ffi_ar *ar = ffi_ar_get();
    struct ffi_member *member = j->member;
    struct symtuner_ar_config config = ffi_ar_config(member->timeout_ms, &member->ordinal, 1);
    ffi_handle *handle = NULL;
    void *comm = NULL;
    char why[512];
    int result = 0;
    XLA_FFI_Error *error = ffi_xla_get(frame, &j->flat, &comm);

    if (error != NULL)
        return error;
    pthread_mutex_lock(&member->lock);
    if (comm != member->comm) {
        result = ar->create(&handle, &comm, 1, &config);
        if (result == 0) {
            ffi_ar_reserve(ar, &handle, 1);
            member->comm = comm;
            __atomic_store_n(&member->handle, handle, __ATOMIC_RELEASE);
        } else {
            snprintf(why, sizeof why, "on XLA's communicator: %s", ar->error(NULL));
        }
    }
    pthread_mutex_unlock(&member->lock);
    return result == 0 ? NULL : fail(frame->api, XLA_FFI_Error_Code_INTERNAL, why);
}

static void exchange(const struct job *j)
{
    struct ffi_offer offer = j->offer;

    if (!may_exchange(j))
        return;
    if (!ffi_peer_access(offer.send, j->member->gpus, j->member->ranks) ||
        !ffi_peer_access(offer.recv, j->member->gpus, j->member->ranks))
        /* other GPUs cannot access a buffer of this rank. No call has operator -1, so the ranks
         * will not agree, and all of them copy their data through the library's own memory */
        offer.op = -1;
    ffi_exchange_come(j->member->exchange, j->run, j->member->me, &offer);
}

/* Return an error if a rank of the group has gone, else NULL. */
static XLA_FFI_Error *look_for_absent(const struct ffi_member *member, const XLA_FFI_Api *api)
{
    int lost = __atomic_load_n(&member->lost, __ATOMIC_ACQUIRE);
    int left = __atomic_load_n(&member->left, __ATOMIC_ACQUIRE);
    char why[128];

    if (lost == 0 && left == 0)
        return NULL;
    snprintf(why, sizeof why, "rank %d of %d %s", (lost ? lost : left) - 1, member->ranks,
             lost ? "is gone: its process has ended"
                  : "has closed the group or raised an exception");
    return fail(api, XLA_FFI_Error_Code_UNAVAILABLE, why);
}

/* The initialize stage of a recordable call: return an error if a rank has gone, or if the kernel
 * of an earlier call gave up. When XLA replays a recorded call, it does not call execute(), so
 * execute() cannot report such an error. XLA calls the initialize stage once for each call of a
 * program. Because of ${looked}, only the first of these calls in a run checks. */
static XLA_FFI_Error *look_at_replays(const struct job *j, const XLA_FFI_Api *api)
{
    const struct ffi_ar *ar = ffi_ar_get();
    struct ffi_member *member = j->member;
    XLA_FFI_Error *error;
    char why[512];
    int result;

    if (__atomic_load_n(&member->looked, __ATOMIC_RELAXED) == j->run + 1)
        return NULL;
    error = look_for_absent(member, api);
    if (error != NULL || __atomic_load_n(&member->handle, __ATOMIC_ACQUIRE) == NULL)
        return error;
    pthread_mutex_lock(&member->lock);
    result = ar->status(member->handle);
    if (result != 0)
        snprintf(why, sizeof why, "rank %d of %d on GPU %d: an earlier call failed: %s", member->me,
                 member->ranks, j->ordinal, ar->error(member->handle));
    else
        __atomic_store_n(&member->looked, j->run + 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&member->lock);
    return result == 0 ? NULL : fail(api, XLA_FFI_Error_Code_INTERNAL, why);
}

static XLA_FFI_Error *initialize(const struct job *j, const XLA_FFI_CallFrame *frame)
{
    XLA_FFI_Error *error;

    exchange(j);
    error = j->member->xla ? adopt_comm(j, frame) : NULL;
    return error == NULL && j->recordable ? look_at_replays(j, frame->api) : error;
}

/* Count a call of the member. The stores are atomic because other threads read these fields at any
 * time: the watch thread (liveness.c), and threads that call symtuner_ffi_member(). */
static void count(struct ffi_member *member, const struct ffi_call *call, int zero_copy, int minor)
{
    uintptr_t bits = member->address_bits | (uintptr_t)call->send | (uintptr_t)call->recv;

    __atomic_store_n(&member->calls, member->calls + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&member->zero_copy, member->zero_copy + (zero_copy != 0), __ATOMIC_RELAXED);
    __atomic_store_n(&member->address_bits, bits, __ATOMIC_RELAXED);
    __atomic_store_n(&member->minor, minor, __ATOMIC_RELAXED);
}

/* Return whether our kernels run this call; if not, libsymtuner_ar.so has given it to NCCL. We ask
 * the library for its plan of the call. With SYMTUNER_AR_IPC=auto the plan would not tell, but
 * JAX's groups ignore auto, because their configuration says that nothing runs beside their calls
 * (FFI_BESIDE). */
static int is_ours(const struct job *j)
{
    const struct ffi_call *call = &j->call;
    struct symtuner_ar_plan plan = {.size = sizeof plan};

    if (!j->member->across)
        return 1; /* a local group has no NCCL */
    return ffi_ar_get()->query_coll(call->coll, call->send, call->recv, call->count, call->dtype,
                                    call->op, j->member->handle, &plan) == 0 &&
           (plan.boxes > 0 || strcmp(plan.kernel, "nccl") != 0);
}

/* Count a call for the summary of `symtuner run`. */
static void count_for_summary(const struct job *j)
{
    struct st_tally_slot *slot = ffi_slot();
    int ours;

    if (slot == NULL)
        return;
    ours = is_ours(j);
    st_tally_put(ours ? &slot->jax : &slot->jax_nccl, j->call.bytes);
    if (ours && j->recordable && ffi_is_captured(j->stream) == 1)
        st_tally_add(slot, &slot->jax_captured);
}

/* Start the kernels. ${site}: all ranks' buffers, or NULL if they are not known. */
static int launch(const struct job *j, const struct ffi_site *site)
{
    const struct ffi_ar *ar = ffi_ar_get();
    const struct ffi_call *call = &j->call;
    ffi_handle *handle = j->member->handle;

    if (call->coll == SYMTUNER_AR_ALL_GATHER)
        return ar->all_gather(call->send, call->recv, call->count, call->dtype, handle, j->stream);
    if (call->coll == SYMTUNER_AR_REDUCE_SCATTER)
        return ar->reduce_scatter(call->send, call->recv, call->count, call->dtype, call->op,
                                  handle, j->stream);
    if (site != NULL)
        return ar->all_reduce_at(site->sends, site->recvs, call->count, call->dtype, call->op,
                                 handle, j->stream);
    return ar->all_reduce(call->send, call->recv, call->count, call->dtype, call->op, handle,
                          j->stream);
}

static XLA_FFI_Error *execute(const struct job *j, const XLA_FFI_Api *api)
{
    struct ffi_member *member = j->member;
    const struct ffi_site *site = NULL;
    XLA_FFI_Error *error = look_for_absent(member, api);
    char why[512];
    int result;

    if (error != NULL)
        return error;
    if (__atomic_load_n(&member->handle, __ATOMIC_ACQUIRE) == NULL)
        return fail(api, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                    "the call was not initialized, so it has no communicator");
    pthread_mutex_lock(&member->lock);
    if (may_exchange(j))
        site = ffi_exchange_look(member->exchange, j->run, member->me, &j->offer, &member->found);
    result = launch(j, site);
    if (result == 0) {
        count(member, &j->call, site != NULL, api->api_version.minor_version);
        count_for_summary(j);
    }
    if (result == 0 && member->across)
        ffi_pending_mark(member, j->stream);
    if (result != 0)
        snprintf(why, sizeof why, "rank %d of %d on GPU %d: %s", member->me, member->ranks,
                 j->ordinal, ffi_ar_get()->error(member->handle));
    pthread_mutex_unlock(&member->lock);
    return result == 0 ? NULL : fail(api, XLA_FFI_Error_Code_INTERNAL, why);
}

/* The prepare stage: request XLA's communicator if the call uses it, because a later stage cannot
 * request it. In this stage the frame has no buffers, and perhaps no device, so read_job() would
 * fail. */
static XLA_FFI_Error *prepare(const XLA_FFI_CallFrame *frame)
{
    struct ffi_flat flat;
    char why[512];

    if (ffi_frame_read_flat(frame, &flat, why, sizeof why) != 0)
        return fail(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT, why);
    return flat.ids != NULL ? ffi_xla_request(frame, &flat) : NULL;
}

static XLA_FFI_Error *handle(XLA_FFI_CallFrame *frame, int recordable)
{
    uint32_t traits = recordable ? XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE : 0;
    struct job j = {.recordable = recordable};
    XLA_FFI_Error *error;

    if (frame == NULL || ffi_frame_is_metadata(frame, traits))
        return NULL;
    if (!FFI_HAS(frame->api, XLA_FFI_Error_Create))
        return NULL; /* there is no way to report an error */
    if (frame->stage == XLA_FFI_ExecutionStage_PREPARE)
        return prepare(frame);
    if (frame->stage != XLA_FFI_ExecutionStage_INITIALIZE &&
        frame->stage != XLA_FFI_ExecutionStage_EXECUTE)
        return NULL;
    error = read_job(frame, &j);
    if (error == NULL && frame->stage == XLA_FFI_ExecutionStage_EXECUTE)
        error = execute(&j, frame->api);
    else if (error == NULL)
        error = initialize(&j, frame);
    ffi_member_release(j.member);
    return error;
}

XLA_FFI_Error *symtuner_ffi_all_reduce(XLA_FFI_CallFrame *frame)
{
    return handle(frame, 0);
}

XLA_FFI_Error *symtuner_ffi_all_reduce_recordable(XLA_FFI_CallFrame *frame)
{
    return handle(frame, 1);
}

static int probed = -1;

XLA_FFI_Error *symtuner_ffi_probe(XLA_FFI_CallFrame *frame)
{
    if (frame != NULL && !ffi_frame_is_metadata(frame, 0) && frame->api != NULL &&
        frame->stage == XLA_FFI_ExecutionStage_PREPARE)
        __atomic_store_n(&probed, ffi_xla_offers(frame), __ATOMIC_RELEASE);
    return NULL;
}

int symtuner_ffi_probed(void)
{
    return __atomic_load_n(&probed, __ATOMIC_ACQUIRE);
}

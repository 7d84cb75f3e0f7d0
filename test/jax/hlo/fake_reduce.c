/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_reduce.c - the custom calls of symtuner_ffi.h for XLA's CPU devices. They really reduce.
 *
 * A list has a meeting for each call that waits for ranks. The last rank that comes to a meeting
 * computes all results. The id of a device is its ordinal. Values are added in the order of the
 * ids.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jax/frame.h"

#define MAX_RANKS 16
#define LIMIT_S   60

struct meeting {
    struct meeting *next;
    int64_t run;
    const void *call; /* address of the attributes, which differs between the calls of a program */
    int row, came, left, ended;
    int here[MAX_RANKS];
    const void *send[MAX_RANKS];
    void *recv[MAX_RANKS];
};

static struct meeting *meetings;
static int calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

__attribute__((visibility("default"))) int fake_reduce_calls(void)
{
    return calls;
}

#define REDUCE(type)                                                                               \
    for (size_t i = 0; i < call->count * parts; i++) {                                             \
        type sum = ((const type *)m->send[0])[i];                                                  \
        for (int r = 1; r < call->ranks; r++) {                                                    \
            type next = ((const type *)m->send[r])[i];                                             \
            sum = call->op == 0   ? sum + next                                                     \
                  : call->op == 1 ? sum * next                                                     \
                  : call->op == 2 ? (sum > next ? sum : next)                                      \
                                  : (sum < next ? sum : next);                                     \
        }                                                                                          \
        ((type *)result)[i] = sum;                                                                 \
    }

/* Operands and results may be the same memory, so this computes the result in memory of its own. */
static int gather(const struct meeting *m, const struct ffi_call *call)
{
    size_t each = call->bytes / (size_t)call->ranks;
    char *result = malloc(call->bytes + 1);

    for (int r = 0; r < call->ranks; r++)
        memcpy(result + (size_t)r * each, m->send[r], each);
    for (int r = 0; r < call->ranks; r++)
        memcpy(m->recv[r], result, call->bytes);
    free(result);
    return 0;
}

static float from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t to_bf16(float value)
{
    uint32_t wide;

    memcpy(&wide, &value, sizeof wide);
    /* no test has a NaN, so this rounding need not care about NaN */
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

static int reduce(const struct meeting *m, const struct ffi_call *call)
{
    size_t parts = call->coll == SYMTUNER_AR_REDUCE_SCATTER ? (size_t)call->ranks : 1;
    size_t each = call->bytes / parts;
    char *result = malloc(call->bytes + 1);

    switch (call->dtype) { /* the cases are numbers of ncclDataType_t */
    case 0:
        REDUCE(int8_t);
        break;
    case 1:
        REDUCE(uint8_t);
        break;
    case 5:
        REDUCE(uint64_t);
        break;
#ifdef __FLT16_MAX__
    case 6:
        REDUCE(_Float16);
        break;
#endif
    case 9: /* bfloat16 numbers are added in float and rounded once */
        for (size_t i = 0; i < call->count * parts; i++) {
            float sum = from_bf16(((const uint16_t *)m->send[0])[i]);

            for (int r = 1; r < call->ranks; r++)
                sum += from_bf16(((const uint16_t *)m->send[r])[i]);
            ((uint16_t *)result)[i] = to_bf16(sum);
        }
        if (call->op == 0)
            break;
        free(result);
        return -1;
    case 2:
        REDUCE(int32_t);
        break;
    case 3:
        REDUCE(uint32_t);
        break;
    case 4:
        REDUCE(int64_t);
        break;
    case 7:
        REDUCE(float);
        break;
    case 8:
        REDUCE(double);
        break;
    default:
        free(result);
        return -1;
    }
    for (int r = 0; r < call->ranks; r++)
        memcpy(m->recv[r], result + (parts > 1 ? (size_t)r * each : 0), each);
    free(result);
    return 0;
}

/* Return the first meeting of this call to which rank ${me} has not come yet. If there is none, add
 * one to the list. */
static struct meeting *find(int64_t run, const void *call, int row, int me)
{
    struct meeting **m = &meetings;

    for (; *m != NULL; m = &(*m)->next)
        if ((*m)->run == run && (*m)->call == call && (*m)->row == row && !(*m)->here[me])
            return *m;
    *m = calloc(1, sizeof **m);
    (*m)->run = run;
    (*m)->call = call;
    (*m)->row = row;
    return *m;
}

static void leave(struct meeting *gone, int ranks)
{
    struct meeting **m = &meetings;

    if (++gone->left < ranks)
        return;
    while (*m != gone)
        m = &(*m)->next;
    *m = gone->next;
    free(gone);
}

static const char *meet(const struct ffi_call *call, int64_t run, int id)
{
    struct timespec until;
    struct meeting *m;
    const char *why = NULL;
    int at = 0, ranks = call->ranks;

    while (at < call->rows * ranks && call->groups[at] != id)
        at++;
    if (at == call->rows * ranks)
        return "this device is in no group";
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LIMIT_S;
    pthread_mutex_lock(&lock);
    calls++;
    m = find(run, call->groups, at / ranks, at % ranks);
    m->here[at % ranks] = 1;
    m->send[at % ranks] = call->send;
    m->recv[at % ranks] = call->recv;
    if (++m->came == ranks) {
        m->ended = (call->coll == SYMTUNER_AR_ALL_GATHER ? gather : reduce)(m, call) == 0 ? 1 : -1;
        pthread_cond_broadcast(&changed);
    }
    while (!m->ended && why == NULL)
        if (pthread_cond_timedwait(&changed, &lock, &until) != 0)
            why = "the ranks did not meet";
    if (m->ended < 0)
        why = "the fake does not know this type";
    if (m->ended)
        leave(m, ranks);
    pthread_mutex_unlock(&lock);
    return why;
}

__attribute__((visibility("default"))) XLA_FFI_Error *fake_reduce(XLA_FFI_CallFrame *frame)
{
    struct XLA_FFI_DeviceOrdinal_Get_Args device = {.struct_size =
                                                        XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE};
    struct XLA_FFI_RunId_Get_Args run = {.struct_size = XLA_FFI_RunId_Get_Args_STRUCT_SIZE};
    struct XLA_FFI_Error_Create_Args error = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
                                              .errc = XLA_FFI_Error_Code_INTERNAL};
    XLA_FFI_Error *failed;
    struct ffi_call call;
    char why[256];

    if (ffi_frame_is_metadata(frame, 0))
        return NULL;
    device.ctx = run.ctx = frame->ctx;
    if ((failed = frame->api->XLA_FFI_DeviceOrdinal_Get(&device)) != NULL ||
        (failed = frame->api->XLA_FFI_RunId_Get(&run)) != NULL)
        return failed;
    error.message = why;
    if (ffi_frame_read(frame, &call, why, sizeof why) == 0)
        error.message = meet(&call, run.run_id, device.device_ordinal);
    return error.message == NULL ? NULL : frame->api->XLA_FFI_Error_Create(&error);
}

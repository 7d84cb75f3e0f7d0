/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_ar.c - a libsymtuner_ar.so without GPUs, which counts calls and fails on request.
 *
 * FAKE_AR_FAIL=create, destroy, all_reduce or status makes that function fail. FAKE_AR_SHORT=N
 * makes the first N calls of create fail for lack of memory. FAKE_AR_WAITS=1 makes a kernel wait.
 * FAKE_AR_KERNEL names the kernel of all plans. With FAKE_AR_SLOW=1 an abort takes half a second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jax/library.h"
#include "test/jax/fake_ar.h"

#define EXPORT __attribute__((visibility("default")))

#define ALIVE 0x600d

struct symtuner_ar {
    int device, rank, state, full; /* full: all scratch exists, so a capture finds it */
};

EXPORT struct fake_call fake_last;

EXPORT int fake_alive;     /* number of handles that exist */
EXPORT int fake_dead_uses; /* number of calls with a destroyed handle */
EXPORT int fake_asked;     /* number of calls of symtuner_ar_status */
EXPORT int fake_aborted;   /* number of calls of symtuner_ar_abort with a handle that exists */
EXPORT int fake_wait;      /* destroy waits while this is set, as for a rank that does not come */

/* the member ${memory} of the config of the last handle that was made */
EXPORT const void *fake_memory;

static int fake_short, fake_tries;

/* Has this handle been destroyed? This reads freed memory on purpose, so this library is built
 * without sanitizers. */
static int is_dead(const ffi_handle *handle)
{
    if (handle->state == ALIVE)
        return 0;
    __atomic_fetch_add(&fake_dead_uses, 1, __ATOMIC_RELAXED);
    return 1;
}

static int fails(const char *what)
{
    const char *word = getenv("FAKE_AR_FAIL");

    return word != NULL && strcmp(word, what) == 0;
}

int symtuner_ar_create_local(ffi_handle **out, const int *devices, int n,
                             const struct symtuner_ar_config *config)
{
    const char *without = getenv("FAKE_AR_SHORT");

    fake_short = without != NULL && fake_tries++ < atoi(without);
    if (fake_short || fails("create") || config->size != sizeof *config ||
        config->beside != FFI_BESIDE)
        return 4;
    fake_memory = config->memory;
    for (int i = 0; i < n; i++) {
        out[i] = calloc(1, sizeof **out);
        out[i]->device = devices[i];
        out[i]->rank = i;
        out[i]->state = ALIVE;
        __atomic_fetch_add(&fake_alive, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

int symtuner_ar_create(ffi_handle **out, void *const *comms, int n,
                       const struct symtuner_ar_config *config)
{
    int devices[16] = {0};

    (void)comms;
    return symtuner_ar_create_local(out, devices, n, config);
}

int symtuner_ar_reserve(ffi_handle **handles, int n, size_t bytes)
{
    for (int i = 0; i < n; i++)
        if (!is_dead(handles[i]))
            handles[i]->full = bytes == SIZE_MAX;
    return 0;
}

int symtuner_ar_destroy(ffi_handle **handles, int n)
{
    int result = fails("destroy") ? 1 : 0;

    while (__atomic_load_n(&fake_wait, __ATOMIC_ACQUIRE))
        usleep(1000);
    for (int i = 0; i < n; i++) {
        if (is_dead(handles[i]))
            continue;
        handles[i]->state = 0;
        free(handles[i]);
        handles[i] = NULL;
        __atomic_fetch_sub(&fake_alive, 1, __ATOMIC_RELAXED);
    }
    return result;
}

int symtuner_ar_all_reduce(const void *send, void *recv, size_t count, int dtype, int op,
                           ffi_handle *handle, void *stream)
{
    if (fails("all_reduce") || is_dead(handle) || !handle->full)
        return 6;
    fake_last = (struct fake_call){
        send, recv, count, dtype, op, handle->device, stream, fake_last.calls + 1, 0, 0};
    return 0;
}

int symtuner_ar_all_reduce_at(const void *const *sends, void *const *recvs, size_t count, int dtype,
                              int op, ffi_handle *handle, void *stream)
{
    int me = handle->rank,
        result = symtuner_ar_all_reduce(sends[me], recvs[me], count, dtype, op, handle, stream);

    fake_last.with_peers = result == 0;
    return result;
}

int symtuner_ar_reduce_scatter(const void *send, void *recv, size_t count, int dtype, int op,
                               ffi_handle *handle, void *stream)
{
    int result = symtuner_ar_all_reduce(send, recv, count, dtype, op, handle, stream);

    fake_last.coll = SYMTUNER_AR_REDUCE_SCATTER;
    return result;
}

int symtuner_ar_all_gather(const void *send, void *recv, size_t count, int dtype,
                           ffi_handle *handle, void *stream)
{
    int result = symtuner_ar_all_reduce(send, recv, count, dtype, -1, handle, stream);

    fake_last.coll = SYMTUNER_AR_ALL_GATHER;
    return result;
}

int symtuner_ar_query_coll(int coll, const void *send, const void *recv, size_t count, int dtype,
                           int op, ffi_handle *handle, struct symtuner_ar_plan *plan)
{
    (void)coll;
    return symtuner_ar_query(send, recv, count, dtype, op, handle, plan);
}

int symtuner_ar_query(const void *send, const void *recv, size_t count, int dtype, int op,
                      ffi_handle *handle, struct symtuner_ar_plan *plan)
{
    (void)send, (void)recv, (void)dtype, (void)op, (void)handle;
    if (plan->size != sizeof *plan)
        return 4;
    plan->kernel = getenv("FAKE_AR_KERNEL") != NULL ? getenv("FAKE_AR_KERNEL") : "fake";
    plan->ctas = (int)count;
    plan->threads = 1;
    plan->zero_copy = 0;
    plan->pieces = 1;
    snprintf(plan->why, sizeof plan->why, "a test");
    return 0;
}

size_t symtuner_ar_describe(ffi_handle *handle, char *text, size_t length)
{
    return (size_t)snprintf(text, length, is_dead(handle) ? "destroyed" : "fake");
}

int symtuner_ar_boxes_asked(void)
{
    return getenv("FAKE_AR_BOXES") != NULL;
}

int symtuner_ar_status(ffi_handle *handle)
{
    __atomic_fetch_add(&fake_asked, 1, __ATOMIC_RELAXED);
    return handle == NULL || is_dead(handle) || fails("status");
}

int symtuner_ar_abort(ffi_handle *handle)
{
    if (handle == NULL || is_dead(handle))
        return 1;
    __atomic_fetch_add(&fake_aborted, 1, __ATOMIC_RELAXED);
    if (getenv("FAKE_AR_SLOW") != NULL)
        usleep(500000);
    if (is_dead(handle))
        fprintf(stderr, "a handle was destroyed during its abort\n");
    return 0;
}

uint32_t symtuner_ar_waits(const ffi_handle *handle)
{
    static uint32_t now;

    return handle != NULL && getenv("FAKE_AR_WAITS") != NULL
               ? __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED)
               : 0;
}

const char *symtuner_ar_error(const ffi_handle *handle)
{
    return handle != NULL ? "the fake failed on purpose"
           : fake_short   ? "GPU 0: out of memory"
                          : "the fake cannot create or destroy";
}

int symtuner_ar_version(void)
{
    return SYMTUNER_AR_VERSION;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - open and close groups: within this process, or across processes on NCCL. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jax/groups.h"
#include "jax/liveness.h"
#include "jax/symtuner_ffi.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define FULL                                                                                       \
    "more than " TEXT(FFI_GROUP_SEATS) " places in groups; symtuner.close() frees all of them"

typedef struct {
    char internal[128];
} ffi_unique_id; /* ncclUniqueId */

static const struct ffi_ar *need_ar(char *why, size_t why_size)
{
    const struct ffi_ar *ar = ffi_ar_get();

    if (ar == NULL)
        snprintf(why, why_size, "libsymtuner_ar.so is not loaded");
    return ar;
}

int symtuner_ffi_load(const char *path, char *why, size_t why_size)
{
    return ffi_ar_load(path, why, why_size);
}

static int check_ids(const int64_t *ids, int ranks, char *why, size_t why_size)
{
    if (ids == NULL || ranks < 1 || ranks > FFI_GROUP_RANKS) {
        snprintf(why, why_size, "a group has 1 to %d ranks, not %d", FFI_GROUP_RANKS, ranks);
        return -1;
    }
    return 0;
}

int symtuner_ffi_open_local(const int64_t *ids, const int *ordinals, int ranks, uint32_t timeout_ms,
                            char *why, size_t why_size)
{
    const struct ffi_ar *ar = need_ar(why, why_size);
    struct ffi_ar_config config = {
        .size = sizeof config, .timeout_ms = timeout_ms, .one_stream = 1};
    ffi_handle *handles[FFI_GROUP_RANKS] = {NULL};
    struct ffi_seat seats[FFI_GROUP_RANKS];
    struct ffi_meet *meet;

    if (ar == NULL || check_ids(ids, ranks, why, why_size) != 0)
        return -1;
    if (ar->create_local(handles, ordinals, ranks, &config) != 0) {
        snprintf(why, why_size, "%s", ar->error(NULL));
        return -1;
    }
    meet = ffi_meet_new(ranks);
    memset(seats, 0, sizeof seats);
    for (int i = 0; i < ranks; i++) {
        memcpy(seats[i].ids, ids, sizeof *ids * (size_t)ranks);
        seats[i].ranks = ranks;
        seats[i].me = i;
        seats[i].ordinal = ordinals[i];
        seats[i].handle = handles[i];
        seats[i].meet = meet; /* NULL when there was no memory for it: then all calls are staged */
        memcpy(seats[i].gpus, ordinals, sizeof *ordinals * (size_t)ranks);
    }
    if (ffi_seats_add(seats, ranks) != 0) {
        ar->destroy(handles, ranks);
        ffi_meet_free(meet);
        snprintf(why, why_size, "%s", FULL);
        return -1;
    }
    return 0;
}

/* ---- NCCL ------------------------------------------------------------------------------------ */

/* A function of the NCCL that this process uses. */
static void *nccl(const char *name, char *why, size_t why_size)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    void *symbol = library != NULL ? dlsym(library, name) : dlsym(RTLD_DEFAULT, name);

    if (symbol == NULL)
        snprintf(why, why_size, "no %s: %s", name,
                 library == NULL ? "libnccl.so.2 is neither loaded nor in the library path"
                                 : "not in this libnccl.so.2");
    return symbol;
}

int symtuner_ffi_unique_id(void *id, char *why, size_t why_size)
{
    int (*get)(ffi_unique_id *);
    int result;

    *(void **)&get = nccl("ncclGetUniqueId", why, why_size);
    if (get == NULL)
        return -1;
    result = get(id);
    if (result != 0)
        snprintf(why, why_size, "ncclGetUniqueId: error %d; NCCL_DEBUG=WARN says more", result);
    return result == 0 ? 0 : -1;
}

static int set_device(int ordinal, char *why, size_t why_size)
{
    /* cudart is static in libsymtuner_ar.so; the driver's own call is always there */
    int (*retain)(void **, int) = NULL, (*current)(void *) = NULL, error;
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;

    if (cuda != NULL) {
        *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
        *(void **)&current = dlsym(cuda, "cuCtxSetCurrent");
    }
    if (retain == NULL || current == NULL) {
        snprintf(why, why_size, "no usable libcuda.so.1; it comes with NVIDIA's driver");
        return -1;
    }
    error = retain(&context, ordinal);
    if (error == 0)
        error = current(context);
    if (error != 0)
        snprintf(why, why_size,
                 "GPU %d cannot be made current: CUDA error %d; nvidia-smi says whether it is "
                 "there, well and not another process's alone",
                 ordinal, error);
    return error != 0 ? -1 : 0;
}

/* ncclInProgress is the answer with NCCL_COMM_BLOCKING=0: the library of the kernels waits for the
 * communicator, and one that ends does so by itself. */
static int is_error(int result)
{
    return result != 0 && result != 7;
}

/* End a communicator by ncclCommDestroy or, where a rank may be missing, ncclCommAbort. */
static int end_comm(void *comm, const char *how, char *why, size_t why_size)
{
    int (*end)(void *), result;

    *(void **)&end = nccl(how, why, why_size);
    if (end == NULL)
        return -1;
    result = end(comm);
    if (is_error(result))
        snprintf(why, why_size, "%s: error %d; NCCL_DEBUG=WARN says more", how, result);
    return is_error(result) ? -1 : 0;
}

static int end_handles(ffi_handle **handles, int n, char *why, size_t why_size)
{
    int result = ffi_ar_get()->destroy(handles, n);

    if (result != 0)
        snprintf(why, why_size, "%s", ffi_ar_get()->error(NULL));
    return result != 0 ? -1 : 0;
}

/* A seat that is not in the table yet, or NULL and why not. */
static struct ffi_seat *new_seat(const int64_t *ids, int ranks, int me, int ordinal, char *why,
                                 size_t why_size)
{
    struct ffi_seat *seat = NULL;

    if (need_ar(why, why_size) == NULL || check_ids(ids, ranks, why, why_size) != 0)
        return NULL;
    /* here, where it is an error of all ranks; when they admit the group it would be one of ours */
    if (ffi_seats_room(1))
        seat = aligned_alloc(FFI_CACHE_LINE, sizeof *seat);
    if (seat == NULL) {
        snprintf(why, why_size, "%s", ffi_seats_room(1) ? "out of memory" : FULL);
        return NULL;
    }
    memset(seat, 0, sizeof *seat);
    memcpy(seat->ids, ids, sizeof *ids * (size_t)ranks);
    seat->ranks = ranks;
    seat->me = me;
    seat->ordinal = ordinal;
    seat->across = 1;
    return seat;
}

/* Make its communicator and its handle, both or none. */
static int join(struct ffi_seat *seat, const void *unique_id, uint32_t timeout_ms, char *why,
                size_t why_size)
{
    struct ffi_ar_config config = {
        .size = sizeof config, .timeout_ms = timeout_ms, .one_stream = 1};
    ffi_unique_id id;
    int (*init)(void **, int, ffi_unique_id, int);
    char ignored[128];
    int result;

    *(void **)&init = nccl("ncclCommInitRank", why, why_size);
    if (init == NULL)
        return -1;
    memcpy(&id, unique_id, sizeof id);
    if (set_device(seat->ordinal, why, why_size) != 0)
        return -1;
    result = init(&seat->comm, seat->ranks, id, seat->me);
    if (is_error(result)) {
        snprintf(why, why_size, "ncclCommInitRank: error %d; NCCL_DEBUG=WARN says more", result);
        return -1;
    }
    if (ffi_ar_get()->create(&seat->handle, &seat->comm, 1, &config) != 0) {
        snprintf(why, why_size, "%s", ffi_ar_get()->error(NULL));
        end_comm(seat->comm, "ncclCommAbort", ignored, sizeof ignored);
        return -1;
    }
    return 0;
}

int symtuner_ffi_open_comm(const int64_t *ids, int ranks, int me, int ordinal,
                           const void *unique_id, uint32_t timeout_ms, void **ticket, char *why,
                           size_t why_size)
{
    struct ffi_seat *seat = new_seat(ids, ranks, me, ordinal, why, why_size);

    if (seat == NULL)
        return -1;
    if (join(seat, unique_id, timeout_ms, why, why_size) != 0) {
        free(seat);
        return -1;
    }
    *ticket = seat;
    return 0;
}

int symtuner_ffi_open_xla(const int64_t *ids, int ranks, int me, int ordinal, uint32_t timeout_ms,
                          void **ticket, char *why, size_t why_size)
{
    struct ffi_seat *seat = new_seat(ids, ranks, me, ordinal, why, why_size);

    if (seat == NULL)
        return -1;
    seat->xla = 1;
    seat->timeout_ms = timeout_ms;
    *ticket = seat;
    return 0;
}

int symtuner_ffi_admit(void **ticket, char *why, size_t why_size)
{
    if (*ticket == NULL || ffi_seats_add(*ticket, 1) != 0) {
        snprintf(why, why_size, "%s", *ticket == NULL ? "the group was not opened" : FULL);
        return -1;
    }
    free(*ticket);
    *ticket = NULL; /* in here: behind this call Python may be interrupted, and would give it up */
    return 0;
}

int symtuner_ffi_give_up(void *ticket, char *why, size_t why_size)
{
    struct ffi_seat *seat = ticket;
    int bad = 0;

    if (seat == NULL)
        return 0; /* there is nothing to give back */
    if (seat->handle != NULL)
        bad = end_handles(&seat->handle, 1, why, why_size);
    if (seat->comm != NULL) /* no communicator of XLA's was taken yet */
        bad |= end_comm(seat->comm, "ncclCommAbort", why, why_size);
    free(seat);
    return bad;
}

/* The latest of our seats in a group across processes: one with our own communicator and one with
 * XLA's may be open side by side. */
static struct ffi_seat *find_seat_across(const int64_t *ids, int ranks)
{
    struct ffi_seat *seat, *latest = NULL;

    for (int i = 0; (seat = ffi_seat_at(i)) != NULL; i++)
        if (seat->across && seat->ranks == ranks &&
            memcmp(seat->ids, ids, sizeof *ids * (size_t)ranks) == 0)
            latest = seat;
    return latest;
}

int symtuner_ffi_watch(const int64_t *ids, int ranks, const int *pids, char *why, size_t why_size)
{
    struct ffi_seat *seat = find_seat_across(ids, ranks);

    if (seat != NULL)
        return ffi_watch(seat, pids, why, why_size);
    snprintf(why, why_size, "no such group");
    return -1;
}

/* ---- end ------------------------------------------------------------------------------------- */

void symtuner_ffi_abort(void)
{
    const struct ffi_ar *ar = ffi_ar_get();
    struct ffi_seat *seat;

    for (int i = 0; ar != NULL && (seat = ffi_seat_hold(i)) != NULL; i++) {
        if (seat->handle != NULL)
            ar->abort(seat->handle);
        ffi_seat_release(seat);
    }
}

/* A communicator with a dead rank cannot be destroyed, only aborted; its memory goes with the
 * process. */
static int close_comm(struct ffi_seat *seat, char *why, size_t why_size)
{
    int lost = __atomic_load_n(&seat->lost, __ATOMIC_ACQUIRE), bad = 0;

    if (!lost && seat->handle != NULL)
        bad = end_handles(&seat->handle, 1, why, why_size);
    if (seat->xla) /* the communicator is XLA's */
        return bad;
    return end_comm(seat->comm, lost ? "ncclCommAbort" : "ncclCommDestroy", why, why_size) | bad;
}

/* The group whose seats begin in place ${first}, which nobody finds any more; ${n} of them. */
static int close_group(int first, int n, char *why, size_t why_size)
{
    struct ffi_seat *seats[FFI_GROUP_RANKS];
    ffi_handle *handles[FFI_GROUP_RANKS];
    int bad;

    for (int r = 0; r < n; r++) {
        seats[r] = ffi_seat_shut(first + r);
        handles[r] = seats[r]->handle;
    }
    if (seats[0]->across) {
        bad = close_comm(seats[0], why, why_size);
    } else {
        bad = end_handles(handles, n, why, why_size);
        ffi_meet_free(seats[0]->meet);
    }
    for (int r = 0; r < n; r++)
        seats[r]->ranks = 0; /* done with, where the place is not forgotten */
    return bad;
}

int symtuner_ffi_close(char *why, size_t why_size)
{
    int places = ffi_seats_shut(), bad = 0, n;

    for (int i = 0; i < places; i += n) {
        const struct ffi_seat *seat = ffi_seat_shut(i);

        /* a local group's seats lie side by side */
        n = seat->across || seat->ranks == 0 ? 1 : seat->ranks;
        if (seat->ranks != 0)
            bad |= close_group(i, n, why, why_size);
    }
    ffi_seats_forget(places);
    return bad;
}

static int plan_of(ffi_handle *handle, size_t count, int dtype, int op, char *text, size_t size)
{
    const struct ffi_ar *ar = ffi_ar_get();
    struct ffi_ar_plan plan = {.size = sizeof plan};
    char *buffers = (char *)4096; /* never touched: a query looks at addresses only */

    if (ar->query(buffers, buffers, count, dtype, op, handle, &plan) != 0) {
        snprintf(text, size, "%s", ar->error(handle));
        return -1;
    }
    snprintf(text, size, "%s %d %d %d %d %s", plan.kernel, plan.ctas, plan.threads, plan.zero_copy,
             plan.pieces, plan.why);
    return 0;
}

int symtuner_ffi_plan(int i, size_t count, int dtype, int op, char *text, size_t size)
{
    struct ffi_seat *seat = ffi_seat_hold(i);
    int result = -1;

    if (seat == NULL)
        return -1;
    pthread_mutex_lock(&seat->lock);
    if (seat->handle != NULL)
        result = plan_of(seat->handle, count, dtype, op, text, size);
    pthread_mutex_unlock(&seat->lock);
    ffi_seat_release(seat);
    return result;
}

int symtuner_ffi_describe(int i, char *text, size_t size)
{
    struct ffi_seat *seat = ffi_seat_hold(i);
    int result = -1;

    if (seat == NULL)
        return -1;
    pthread_mutex_lock(&seat->lock);
    if (seat->handle != NULL) {
        ffi_ar_get()->describe(seat->handle, text, size);
        result = 0;
    }
    pthread_mutex_unlock(&seat->lock);
    ffi_seat_release(seat);
    return result;
}

int symtuner_ffi_seat(int i, char *text, size_t size)
{
    struct ffi_seat *seat = ffi_seat_hold(i);
    struct ffi_meet_state met = {0};
    uintptr_t bits;

    if (seat == NULL)
        return -1;
    if (seat->meet != NULL)
        ffi_meet_state(seat->meet, &met);
    bits = __atomic_load_n(&seat->address_bits, __ATOMIC_RELAXED);
    snprintf(text, size,
             "rank=%d ranks=%d gpu=%d comm=%s calls=%llu zero-copy=%llu aligned=%llu ffi=0.%d "
             "late=%llu skips=%d",
             seat->me, seat->ranks, seat->ordinal,
             seat->xla      ? "xla-nccl"
             : seat->across ? "own-nccl"
                            : "peer-pointers",
             (unsigned long long)__atomic_load_n(&seat->calls, __ATOMIC_RELAXED),
             (unsigned long long)__atomic_load_n(&seat->zero_copy, __ATOMIC_RELAXED),
             (unsigned long long)(bits & -bits), __atomic_load_n(&seat->minor, __ATOMIC_RELAXED),
             (unsigned long long)met.late, met.skip);
    ffi_seat_release(seat);
    return 0;
}

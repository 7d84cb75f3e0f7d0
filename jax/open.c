/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - open, close and describe groups. All ranks of a group are in this process, or each is in
 * a process of its own and they use an NCCL communicator. */
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
    "more than " TEXT(FFI_GROUP_MEMBERS) " places in groups; symtuner.close() frees all of them"

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
    if (ids == NULL || ranks < 1 || ranks > FFI_GROUP_RANKS)
        return ffi_fail(why, why_size, "a group has 1 to %d ranks, not %d", FFI_GROUP_RANKS, ranks);
    return 0;
}

static int check_place(int ordinal, char *why, size_t why_size)
{
    if (ffi_keep_place(ordinal))
        return 0;
    return ffi_fail(why, why_size,
                    "communicators of the program have all places of GPU %d; load symtuner before "
                    "they are made, set a lower SYMTUNER_AR_MAX_CTAS or raise SYMTUNER_MAX_COMMS",
                    ordinal);
}

int symtuner_ffi_open_local(const int64_t *ids, const int *ordinals, int ranks, uint32_t timeout_ms,
                            char *why, size_t why_size)
{
    const struct ffi_ar *ar = need_ar(why, why_size);
    struct symtuner_ar_config config;
    ffi_handle *handles[FFI_GROUP_RANKS] = {NULL};
    struct ffi_member members[FFI_GROUP_RANKS];
    struct ffi_exchange *exchange;

    if (ar == NULL || check_ids(ids, ranks, why, why_size) != 0)
        return -1;
    for (int i = 0; i < ranks; i++)
        if (check_place(ordinals[i], why, why_size) != 0)
            return -1;
    config = ffi_ar_config(timeout_ms, ordinals, ranks);
    if (ar->create_local(handles, ordinals, ranks, &config) != 0)
        return ffi_fail(why, why_size, "%s", ar->error(NULL));
    ffi_ar_reserve(ar, handles, ranks);
    exchange = ffi_exchange_new(ranks);
    memset(members, 0, sizeof members);
    for (int i = 0; i < ranks; i++) {
        memcpy(members[i].ids, ids, sizeof *ids * (size_t)ranks);
        members[i].ranks = ranks;
        members[i].me = i;
        members[i].ordinal = ordinals[i];
        members[i].handle = handles[i];
        members[i].exchange = exchange; /* NULL: no memory for it, so all calls are staged */
        memcpy(members[i].gpus, ordinals, sizeof *ordinals * (size_t)ranks);
    }
    if (ffi_members_add(members, ranks) != 0) {
        ar->destroy(handles, ranks);
        ffi_exchange_free(exchange);
        return ffi_fail(why, why_size, "%s", FULL);
    }
    ffi_slot_claim(0, ranks);
    return 0;
}

/* ---- NCCL ------------------------------------------------------------------------------------ */

/* Find a function of the NCCL library that this process uses. Returns NULL and says why if there is
 * none. */
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

static int nccl_fails(const char *call, int error, char *why, size_t why_size)
{
    return ffi_fail(why, why_size, "%s: error %d; NCCL_DEBUG=WARN says more", call, error);
}

int symtuner_ffi_unique_id(void *id, char *why, size_t why_size)
{
    int (*get)(ffi_unique_id *);
    int result;

    *(void **)&get = nccl("ncclGetUniqueId", why, why_size);
    if (get == NULL)
        return -1;
    result = get(id);
    return result == 0 ? 0 : nccl_fails("ncclGetUniqueId", result, why, why_size);
}

static int set_device(int ordinal, char *why, size_t why_size)
{
    int (*retain)(void **, int), (*current)(void *), error;
    void *context = NULL;

    *(void **)&retain = ffi_driver("cuDevicePrimaryCtxRetain");
    *(void **)&current = ffi_driver("cuCtxSetCurrent");
    if (retain == NULL || current == NULL)
        return ffi_fail(why, why_size, "no usable libcuda.so.1; it comes with NVIDIA's driver");
    error = retain(&context, ordinal);
    if (error == 0)
        error = current(context);
    if (error == 0)
        return 0;
    return ffi_fail(why, why_size,
                    "GPU %d cannot be made current: CUDA error %d; nvidia-smi says whether it is "
                    "there, well and not another process's alone",
                    ordinal, error);
}

/* Is this result of NCCL an error? ncclInProgress (7) is not: NCCL returns it with
 * NCCL_COMM_BLOCKING=0. After a communicator was made, libsymtuner_ar.so waits until it is ready.
 * When a communicator is destroyed, nobody needs to wait. */
static int is_error(int result)
{
    return result != 0 && result != 7;
}

/* End a communicator by the function ${how}: "ncclCommDestroy", or "ncclCommAbort" if a rank may be
 * missing. */
static int end_comm(void *comm, const char *how, char *why, size_t why_size)
{
    int (*end)(void *), result;

    *(void **)&end = nccl(how, why, why_size);
    if (end == NULL)
        return -1;
    result = end(comm);
    return is_error(result) ? nccl_fails(how, result, why, why_size) : 0;
}

static int end_handles(ffi_handle **handles, int n, char *why, size_t why_size)
{
    int result = ffi_ar_get()->destroy(handles, n);

    return result == 0 ? 0 : ffi_fail(why, why_size, "%s", ffi_ar_get()->error(NULL));
}

/* Allocate a member (groups.h) that is not in the table yet. Returns NULL and says why if that
 * fails. */
static struct ffi_member *new_member(const int64_t *ids, int ranks, int me, int ordinal, char *why,
                                     size_t why_size)
{
    struct ffi_member *member = NULL;

    if (need_ar(why, why_size) == NULL || check_ids(ids, ranks, why, why_size) != 0 ||
        check_place(ordinal, why, why_size) != 0)
        return NULL;
    /* check for room now: the ranks tell each other if this function fails, but not if
     * symtuner_ffi_admit() fails later */
    if (ffi_members_room(1))
        member = aligned_alloc(FFI_CACHE_LINE, sizeof *member);
    if (member == NULL) {
        snprintf(why, why_size, "%s", ffi_members_room(1) ? "out of memory" : FULL);
        return NULL;
    }
    memset(member, 0, sizeof *member);
    memcpy(member->ids, ids, sizeof *ids * (size_t)ranks);
    member->ranks = ranks;
    member->me = me;
    member->ordinal = ordinal;
    member->across = 1;
    return member;
}

/* Make the member's communicator and its handle. If no handle can be made, end the communicator. */
static int join(struct ffi_member *member, const void *unique_id, uint32_t timeout_ms, char *why,
                size_t why_size)
{
    struct symtuner_ar_config config = ffi_ar_config(timeout_ms, &member->ordinal, 1);
    ffi_unique_id id;
    int (*init)(void **, int, ffi_unique_id, int);
    char ignored[128];
    int result;

    *(void **)&init = nccl("ncclCommInitRank", why, why_size);
    if (init == NULL)
        return -1;
    memcpy(&id, unique_id, sizeof id);
    if (set_device(member->ordinal, why, why_size) != 0)
        return -1;
    result = init(&member->comm, member->ranks, id, member->me);
    if (is_error(result))
        return nccl_fails("ncclCommInitRank", result, why, why_size);
    if (ffi_ar_get()->create(&member->handle, &member->comm, 1, &config) != 0) {
        snprintf(why, why_size, "%s", ffi_ar_get()->error(NULL));
        end_comm(member->comm, "ncclCommAbort", ignored, sizeof ignored);
        return -1;
    }
    ffi_ar_reserve(ffi_ar_get(), &member->handle, 1);
    return 0;
}

int symtuner_ffi_open_comm(const int64_t *ids, int ranks, int me, int ordinal,
                           const void *unique_id, uint32_t timeout_ms, void **ticket, char *why,
                           size_t why_size)
{
    struct ffi_member *member = new_member(ids, ranks, me, ordinal, why, why_size);

    if (member == NULL)
        return -1;
    if (join(member, unique_id, timeout_ms, why, why_size) != 0) {
        free(member);
        return -1;
    }
    *ticket = member;
    return 0;
}

int symtuner_ffi_open_xla(const int64_t *ids, int ranks, int me, int ordinal, uint32_t timeout_ms,
                          void **ticket, char *why, size_t why_size)
{
    struct ffi_member *member = new_member(ids, ranks, me, ordinal, why, why_size);

    if (member == NULL)
        return -1;
    member->xla = 1;
    member->timeout_ms = timeout_ms;
    *ticket = member;
    return 0;
}

int symtuner_ffi_admit(void **ticket, char *why, size_t why_size)
{
    if (*ticket == NULL || ffi_members_add(*ticket, 1) != 0)
        return ffi_fail(why, why_size, "%s", *ticket == NULL ? "the group was not opened" : FULL);
    ffi_slot_claim(((struct ffi_member *)*ticket)->me, ((struct ffi_member *)*ticket)->ranks);
    free(*ticket);
    /* Clear the ticket here, and not in Python. If Python cleared it after this call, a Ctrl-C just
     * before that line would leave the ticket set. Python would then call symtuner_ffi_give_up()
     * for a group that is open. */
    *ticket = NULL;
    return 0;
}

int symtuner_ffi_give_up(void *ticket, char *why, size_t why_size)
{
    struct ffi_member *member = ticket;
    int bad = 0;

    if (member == NULL)
        return 0; /* there is nothing to free */
    if (member->handle != NULL)
        bad = end_handles(&member->handle, 1, why, why_size);
    if (member->comm != NULL) /* our own communicator: XLA's would be set only in a run */
        bad |= end_comm(member->comm, "ncclCommAbort", why, why_size);
    free(member);
    return bad;
}

/* Return the member (groups.h) of this process in a group across processes, or NULL. A process may
 * have two members in a group: one on our own communicator and one on XLA's. Then return the one
 * that was opened later. */
static struct ffi_member *find_member_across(const int64_t *ids, int ranks)
{
    struct ffi_member *member, *latest = NULL;

    for (int i = 0; (member = ffi_member_at(i)) != NULL; i++)
        if (member->across && member->ranks == ranks &&
            memcmp(member->ids, ids, sizeof *ids * (size_t)ranks) == 0)
            latest = member;
    return latest;
}

int symtuner_ffi_watch(const int64_t *ids, int ranks, const int *pids, char *why, size_t why_size)
{
    struct ffi_member *member = find_member_across(ids, ranks);

    if (member != NULL)
        return ffi_liveness_watch(member, pids, why, why_size);
    return ffi_fail(why, why_size, "no such group");
}

/* ---- end ------------------------------------------------------------------------------------- */

void symtuner_ffi_abort(void)
{
    const struct ffi_ar *ar = ffi_ar_get();
    struct ffi_member *member;

    for (int i = 0; ar != NULL && (member = ffi_member_hold(i)) != NULL; i++) {
        if (member->handle != NULL)
            ar->abort(member->handle);
        ffi_member_release(member);
    }
}

/* Destroy the handle and the communicator of a group across processes. If a rank is dead, the
 * communicator cannot be destroyed: abort it, and keep the handle, whose memory is freed when the
 * process ends. If a call still waits for the dead rank, keep the communicator, too, because
 * ncclCommAbort would unmap memory that the call's kernel uses. The group's watch (liveness.c) then
 * ends this process. */
static int close_comm(struct ffi_member *member, char *why, size_t why_size)
{
    int lost = __atomic_load_n(&member->lost, __ATOMIC_ACQUIRE), bad = 0;

    if (!lost && member->handle != NULL)
        bad = end_handles(&member->handle, 1, why, why_size);
    if (member->xla || (lost && ffi_pending(member))) /* XLA's communicator belongs to XLA */
        return bad;
    return end_comm(member->comm, lost ? "ncclCommAbort" : "ncclCommDestroy", why, why_size) | bad;
}

/* Destroy the handles of a group. Its ${n} members have the indices from ${first} on. They are
 * marked closed, so calls no longer find them. */
static int close_group(int first, int n, char *why, size_t why_size)
{
    struct ffi_member *members[FFI_GROUP_RANKS];
    ffi_handle *handles[FFI_GROUP_RANKS];
    int bad;

    for (int r = 0; r < n; r++) {
        members[r] = ffi_member_shut(first + r);
        handles[r] = members[r]->handle;
    }
    if (members[0]->across) {
        bad = close_comm(members[0], why, why_size);
    } else {
        bad = end_handles(handles, n, why, why_size);
        ffi_exchange_free(members[0]->exchange);
    }
    for (int r = 0; r < n; r++)
        members[r]->ranks = 0; /* mark it destroyed, in case ffi_members_forget() keeps the table */
    return bad;
}

int symtuner_ffi_close(char *why, size_t why_size)
{
    int places = ffi_members_shut(), bad = 0, n;

    for (int i = 0; i < places; i += n) {
        const struct ffi_member *member = ffi_member_shut(i);

        /* the members of a local group have consecutive indices */
        n = member->across || member->ranks == 0 ? 1 : member->ranks;
        if (member->ranks != 0)
            bad |= close_group(i, n, why, why_size);
    }
    ffi_members_forget(places);
    return bad;
}

static int plan_of(ffi_handle *handle, size_t count, int dtype, int op, char *text, size_t size)
{
    const struct ffi_ar *ar = ffi_ar_get();
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    char *buffers = (char *)4096; /* never accessed: a query looks at addresses only */

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
    struct ffi_member *member = ffi_member_hold(i);
    int result = -1;

    if (member == NULL)
        return -1;
    pthread_mutex_lock(&member->lock);
    if (member->handle != NULL)
        result = plan_of(member->handle, count, dtype, op, text, size);
    pthread_mutex_unlock(&member->lock);
    ffi_member_release(member);
    return result;
}

int symtuner_ffi_describe(int i, char *text, size_t size)
{
    struct ffi_member *member = ffi_member_hold(i);
    int result = -1;

    if (member == NULL)
        return -1;
    pthread_mutex_lock(&member->lock);
    if (member->handle != NULL) {
        ffi_ar_get()->describe(member->handle, text, size);
        result = 0;
    }
    pthread_mutex_unlock(&member->lock);
    ffi_member_release(member);
    return result;
}

int symtuner_ffi_member(int i, char *text, size_t size)
{
    struct ffi_member *member = ffi_member_hold(i);
    struct ffi_exchange_state met = {0};
    uintptr_t bits;

    if (member == NULL)
        return -1;
    if (member->exchange != NULL)
        ffi_exchange_state(member->exchange, &met);
    bits = __atomic_load_n(&member->address_bits, __ATOMIC_RELAXED);
    snprintf(text, size,
             "rank=%d ranks=%d gpu=%d comm=%s calls=%llu zero-copy=%llu aligned=%llu ffi=0.%d "
             "late=%llu skips=%d",
             member->me, member->ranks, member->ordinal,
             member->xla      ? "xla-nccl"
             : member->across ? "own-nccl"
                              : "peer-pointers",
             (unsigned long long)__atomic_load_n(&member->calls, __ATOMIC_RELAXED),
             (unsigned long long)__atomic_load_n(&member->zero_copy, __ATOMIC_RELAXED),
             (unsigned long long)(bits & -bits), __atomic_load_n(&member->minor, __ATOMIC_RELAXED),
             (unsigned long long)met.late, met.skip);
    ffi_member_release(member);
    return 0;
}

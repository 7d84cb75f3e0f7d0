/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c - the table of members: a member is one device of this process in one open group
 * (groups.h). */
#include "jax/groups.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

static struct ffi_member members[FFI_GROUP_MEMBERS];
/* [i]: CUDA device of members[i]. A thread may read it while another thread fills members[i]. */
static int gpus[FFI_GROUP_MEMBERS];
static int used; /* members[0] to members[used - 1] are or were in use */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_open(const struct ffi_member *member)
{
    return __atomic_load_n(&member->open, __ATOMIC_SEQ_CST);
}

void ffi_member_release(struct ffi_member *member)
{
    if (member != NULL)
        __atomic_fetch_sub(&member->held, 1, __ATOMIC_SEQ_CST);
}

/* If the member is open, count the caller in its ${held}. Returns whether the member is open.
 * Another thread may close the group at the same time. We first add to ${held} and then read
 * ${open}; that thread first clears ${open} and then reads ${held}. So either we see that the
 * member is closed, or the other thread sees our count and waits for us. */
static int hold(struct ffi_member *member)
{
    __atomic_fetch_add(&member->held, 1, __ATOMIC_SEQ_CST);
    if (is_open(member))
        return 1;
    ffi_member_release(member);
    return 0;
}

struct ffi_member *ffi_member_at(int i)
{
    int n = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

    for (int place = 0; i >= 0 && place < n; place++)
        if (is_open(&members[place]) && i-- == 0)
            return &members[place];
    return NULL;
}

struct ffi_member *ffi_member_hold(int i)
{
    struct ffi_member *member = ffi_member_at(i);

    return member != NULL && hold(member) ? member : NULL;
}

static int has_row(const struct ffi_member *member, const int64_t *groups, int rows)
{
    size_t bytes = sizeof *groups * (size_t)member->ranks;

    for (int row = 0; row < rows; row++)
        if (memcmp(groups + (size_t)row * (size_t)member->ranks, member->ids, bytes) == 0)
            return 1;
    return 0;
}

/* To skip the members of other devices, we read ${gpus} and do not call hold(). A call of hold()
 * would write to a cache line that the thread of another device uses all the time. */
struct ffi_member *ffi_member_find(const int64_t *groups, int rows, int ranks, int ordinal, int xla)
{
    int n = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

    for (int i = 0; i < n; i++) {
        if (__atomic_load_n(&gpus[i], __ATOMIC_RELAXED) != ordinal || !hold(&members[i]))
            continue;
        if (members[i].ordinal == ordinal && members[i].ranks == ranks && members[i].xla == xla &&
            has_row(&members[i], groups, rows))
            return &members[i];
        ffi_member_release(&members[i]);
    }
    return NULL;
}

int ffi_members_room(int n)
{
    return __atomic_load_n(&used, __ATOMIC_ACQUIRE) + n <= FFI_GROUP_MEMBERS;
}

/* Copy ${with} to ${member}, except ${lock}, ${open} and ${held}. Another thread may be in hold()
 * for the member that was here before, and that thread changes ${held} and reads ${open}. */
static void fill(struct ffi_member *member, const struct ffi_member *with)
{
    size_t from = offsetof(struct ffi_member, found);

    memcpy(member, with, offsetof(struct ffi_member, lock));
    memcpy((char *)member + from, (const char *)with + from, sizeof *member - from);
    pthread_mutex_init(&member->lock, NULL);
}

int ffi_members_add(const struct ffi_member *more, int n)
{
    int result = -1;

    pthread_mutex_lock(&lock);
    if (ffi_members_room(n)) {
        for (int i = used; i < used + n; i++) {
            fill(&members[i], &more[i - used]);
            __atomic_store_n(&gpus[i], members[i].ordinal, __ATOMIC_RELAXED);
        }
        for (int i = used; i < used + n; i++)
            __atomic_store_n(&members[i].open, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&used, used + n, __ATOMIC_RELEASE);
        result = 0;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int ffi_members_shut(void)
{
    int n;

    pthread_mutex_lock(&lock);
    n = used;
    for (int i = 0; i < n; i++)
        __atomic_store_n(&members[i].open, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&lock);
    return n;
}

struct ffi_member *ffi_member_shut(int i)
{
    const struct timespec moment = {0, 1000000};

    while (__atomic_load_n(&members[i].held, __ATOMIC_SEQ_CST) != 0)
        nanosleep(&moment, NULL);
    return &members[i];
}

void ffi_members_forget(int n)
{
    pthread_mutex_lock(&lock);
    if (used == n)
        __atomic_store_n(&used, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/window.h"

#include <string.h>

#include "dropin/life.h"

enum { MOST = 16 };

bool st_window_holds(const struct st_comm *c, const void *buffer, size_t bytes)
{
    for (int i = 0; i < c->windows_top; i++) {
        uintptr_t at = (uintptr_t)buffer - (uintptr_t)c->windows[i].base;

        if (at < c->windows[i].bytes && bytes <= c->windows[i].bytes - at)
            return true;
    }
    return false;
}

uint64_t st_window_class(const struct st_comm *c, const void *buffer, size_t bytes)
{
    return !st_window_holds(c, buffer, bytes) ? 0 : (uintptr_t)buffer % 16 == 0 ? 1 : 2;
}

/* Register the window of seen[0] with our kernels. If this thread drives several ranks of the
 * communicator, one call must register the window for all of them. The buffer of each rank is in
 * that rank's first element of ${seen}. Sets ${comm} of the registered elements to NULL. */
static void settle(struct st_seen *seen, int n)
{
    struct symtuner_ar *handle[MOST];
    void *buffer[MOST], *window[MOST];
    struct st_comm *c[MOST] = {st_comm_find(seen->comm)};
    size_t bytes = seen->bytes;
    int ranks = 0, result;

    for (int i = 0; i < n && ranks < MOST; i++) {
        struct st_comm *other = seen[i].comm ? st_comm_find(seen[i].comm) : NULL;
        bool again = false;

        if (!other || !c[0] || other->key != c[0]->key)
            continue;
        for (int k = 0; k < ranks; k++)
            again |= c[k] == other; /* a second window of that rank, for a later call */
        if (again || !(handle[ranks] = st_life_hold(other)))
            continue;
        c[ranks] = other;
        buffer[ranks] = seen[i].buffer;
        window[ranks++] = *seen[i].window;
        seen[i].comm = NULL;
    }
    seen->comm = NULL;
    if (ranks == 0)
        return;
    st_inside++;
    result = c[0]->kernels->register_(handle, buffer, window, ranks, bytes);
    st_inside--;
    /* if register_ fails, it fails on all ranks, and the buffers are staged */
    for (int i = 0; i < ranks && result == NCCL_ABI_SUCCESS; i++) {
        int place = 0;

        while (place < c[i]->windows_top && c[i]->windows[place].base)
            place++;
        if (place == ST_WINDOWS)
            continue;
        if (place == c[i]->windows_top)
            c[i]->windows_top++;
        c[i]->windows[place].window = window[i];
        c[i]->windows[place].base = buffer[i];
        c[i]->windows[place].bytes = bytes;
    }
    for (int i = 0; i < ranks; i++)
        st_life_release(c[i]);
}

/* The ranks wait for each other when they register a window. So all ranks register the windows of a
 * group in the same order, that of their communicators' keys. */
void st_seen_settle(struct st_seen *seen, int n)
{
    for (;;) {
        uint64_t lowest = 0;
        int next = n;

        for (int i = 0; i < n; i++) {
            const struct st_comm *c = seen[i].comm ? st_comm_find(seen[i].comm) : NULL;

            if (!c || (next < n && c->key >= lowest))
                continue;
            lowest = c->key;
            next = i;
        }
        if (next == n)
            return;
        settle(seen + next, n - next);
    }
}

void st_seen(struct st_comm *c, struct st_seen seen)
{
    struct st_group *g = st_group_of(c->real);
    struct st_seen *waiting;

    if (g->depth == 0) {
        st_seen_settle(&seen, 1);
        return;
    }
    waiting = st_group_more((void **)&g->seen, g->seens, &g->seens_room, sizeof *g->seen);
    if (!waiting)
        return;
    *waiting = seen;
    g->seens++;
}

void st_window_forget(struct st_comm *c, void *window)
{
    struct symtuner_ar *handle = st_life_hold(c);

    for (int i = 0; i < c->windows_top && window; i++) {
        if (c->windows[i].window != window)
            continue;
        if (handle) {
            st_inside++;
            c->kernels->deregister_(&handle, &c->windows[i].base, 1);
            st_inside--;
        }
        memset(&c->windows[i], 0, sizeof c->windows[i]);
    }
    if (handle)
        st_life_release(c);
}

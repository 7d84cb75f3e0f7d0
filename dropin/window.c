/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/window.h"

#include "dropin/life.h"

enum { MOST = 16 };

bool st_window_holds(struct st_comm *c, const void *buffer, size_t bytes)
{
    struct symtuner_ar *handle = c->windows ? st_life_hold(c) : NULL;
    bool holds = handle && c->kernels->registered_(handle, buffer, bytes);

    if (handle)
        st_life_release(c);
    return holds;
}

uint64_t st_window_class(struct st_comm *c, const void *buffer, size_t bytes)
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
            again |= c[k] == other; /* the rank's second window: a later settle() registers it */
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
    /* if register_ fails, it fails on all ranks, and our kernels copy the data through scratch */
    for (int i = 0; i < ranks; i++) {
        c[i]->windows |= result == NCCL_ABI_SUCCESS;
        st_life_release(c[i]);
    }
}

/* The ranks wait for each other when they register a window. So all ranks register the windows of a
 * group in the same order: that of the communicators' keys. */
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

    if (!c->kernels->registered_ || !c->kernels->deregister_window_)
        return;
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
    struct symtuner_ar *handle = c->windows && window ? st_life_hold(c) : NULL;

    if (!handle)
        return;
    /* The result does not matter: the call fails only if our kernels do not know the window. */
    st_inside++;
    c->kernels->deregister_window_(handle, window);
    st_inside--;
    st_life_release(c);
}

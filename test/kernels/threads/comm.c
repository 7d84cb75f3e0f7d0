/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c - the lives of handles that are made from communicators. */
#include "test/kernels/threads/member.h"

enum { BUFFERS = 3, PIECE = 1 << 20 };

/* All ranks make a new communicator. */
static void make_comm(struct member *m)
{
    if (member_meet(m))
        ncclGetUniqueId(&m->group->id);
    member_meet(m);
    MUST(ncclCommInitRank(&m->comm, m->group->ranks, m->group->id, m->rank));
}

static void register_one(struct member *m, bool *registered)
{
    const int i = t_below(&m->script, BUFFERS);
    void *buffer = m->memory + i * PIECE;
    ncclResult_t result;

    if (!registered[i]) {
        MUST(symtuner_ar_register(&m->h, &buffer, NULL, 1, PIECE));
        registered[i] = true;
        return;
    }
    /* This fails on all ranks as long as a graph uses the buffer. */
    result = symtuner_ar_deregister(&m->h, &buffer, 1);
    if (result != ncclSuccess && result != ncclInvalidUsage && result != ncclRemoteError)
        MUST(result);
    registered[i] = result != ncclSuccess;
}

static void step(struct member *m, bool *registered)
{
    static const char *const kernels[] = {NULL, NULL, "copy", "chunked", "one_ll8"};

    switch (t_below(&m->script, 8)) {
    case 0:
        register_one(m, registered);
        break;
    case 1:
        MUST_RESERVE(symtuner_ar_reserve(&m->h, 1, (size_t)1 << t_below(&m->script, 26)));
        break;
    case 2:
        if (!m->group->boxes)
            symtuner_ar_force(m->h, kernels[t_below(&m->script, 5)], 0, 0);
        break;
    case 3:
    case 4:
        member_capture(m, &m->script, MEMORY);
        break;
    default:
        member_call(m, &m->script, MEMORY);
    }
    member_look(m);
}

/* ---- how handles end ------------------------------------------------------------------------- */

static void *abort_it(void *handle)
{
    symtuner_ar_abort(handle);
    return NULL;
}

/* Let another thread abort the handle while this one makes calls, until they fail. Returns the
 * other thread, which may still be in symtuner_ar_abort. */
static pthread_t abort_meanwhile(struct member *m)
{
    pthread_t thread;

    symtuner_ar_force(m->h, t_below(&m->own, 2) ? "one_ll8" : "copy", 0, 0);
    pthread_create(&thread, NULL, abort_it, m->h);
    while (symtuner_ar_status(m->h) == ncclSuccess)
        if (t_below(&m->own, 4) == 0)
            member_capture(m, &m->own, 4096);
        else
            member_call(m, &m->own, 4096);
    return thread;
}

static void end_by_abort(struct member *m)
{
    const bool discards = t_below(&m->script, 2) != 0;
    pthread_t thread;

    member_meet(m); /* afterwards no rank waits for this one any more */
    thread = abort_meanwhile(m);
    if (!discards)
        MUST(symtuner_ar_destroy(&m->h, 1)); /* this waits for the other thread */
    pthread_join(thread, NULL);
    member_meet(m);
    ncclCommAbort(m->comm);
    if (discards)
        MUST(symtuner_ar_discard(&m->h, 1));
    make_comm(m);
}

static void live(struct member *m)
{
    bool registered[BUFFERS] = {false};
    const int steps = t_below(&m->script, 12);
    const struct symtuner_ar_config config = {
        .size = sizeof config,
        .bulk_bytes = 1 << 20,
        .transport =
            t_below(&m->script, 8) == 0 && !m->group->boxes ? SYMTUNER_AR_HOST : SYMTUNER_AR_AUTO};

    MUST(symtuner_ar_create(&m->h, &m->comm, 1, &config));
    for (int i = 0; i < steps; i++)
        step(m, registered);
    if (t_below(&m->script, 8) == 0)
        end_by_abort(m);
    else
        MUST(symtuner_ar_destroy(&m->h, 1));
}

void *member_of_comm(void *member)
{
    struct member *m = member;

    member_begin(m);
    make_comm(m);
    for (int i = 0; i < m->lives; i++)
        live(m);
    member_meet(m);
    ncclCommDestroy(m->comm);
    member_end(m);
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - the lives of handles of local groups. One thread makes and ends the handles of all
 * ranks; in between each rank has a thread. */
#include "test/kernels/threads/gpu.h"
#include "test/kernels/threads/member.h"

enum { PIECE = 1 << 20 };

static const struct symtuner_ar_config config = {
    .size = sizeof config, .bulk_bytes = 1 << 20, .timeout_ms = LOCAL_MS};

static void create(struct member *m)
{
    MUST(symtuner_ar_create_local(m->group->handles, m->group->gpu, m->group->ranks, &config));
}

/* A step for which one thread has the handles of all ranks. */
static void step_of_all(struct member *m, bool *registered)
{
    void *buffers[MOST_RANKS];

    for (int r = 0; r < m->group->ranks; r++)
        buffers[r] = m->memory + r * PIECE;
    if (t_below(&m->own, 2))
        MUST_RESERVE(symtuner_ar_reserve(m->group->handles, m->group->ranks,
                                         (size_t)1 << t_below(&m->own, 26)));
    else if (*registered)
        MUST(symtuner_ar_deregister(m->group->handles, buffers, m->group->ranks));
    else
        MUST(symtuner_ar_register(m->group->handles, buffers, NULL, m->group->ranks, PIECE));
}

static void live(struct member *m)
{
    const int steps = t_below(&m->script, 8);
    bool registered = false;

    if (m->rank == 0)
        create(m);
    member_meet(m);
    m->h = m->group->handles[m->rank];
    for (int i = 0; i < steps; i++) {
        const int kind = t_below(&m->script, 4);

        if (kind == 0) {
            member_meet(m);
            if (m->rank == 0)
                step_of_all(m, &registered);
            member_meet(m);
        } else if (kind == 1) {
            member_capture(m, &m->script, MEMORY);
        } else {
            member_call(m, &m->script, MEMORY);
        }
        member_look(m);
    }
    if (t_below(&m->script, 16) == 0)
        symtuner_ar_abort(m->h);
    m->h = NULL;
    member_meet(m);
    if (m->rank == 0)
        MUST(symtuner_ar_destroy(m->group->handles, m->group->ranks));
}

void *member_of_local(void *member)
{
    struct member *m = member;

    member_begin(m);
    for (int i = 0; i < m->lives; i++)
        live(m);
    member_end(m);
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* life.c - see life.h: what happens when a communicator is made. end.c: what happens at its end. */
#include "dropin/life.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/ledger/book.h"
#include "dropin/meet.h"
#include "dropin/settings.h"

enum { OLDEST = 22803 };  /* the first release that has the windows that our kernels use */
enum { DONE_MS = 60000 }; /* how long a rank with a handle waits for the handles of the others */
enum { MOST = 16 };       /* largest number of ranks, as SYMTUNER_AR_MAX_RANKS */
/* How long a kernel of ours waits for a late rank: a day, the most that the library takes. NCCL's
 * kernels wait for ever, and programs let ranks wait for hours, for example in a barrier while one
 * rank prepares the data. If a rank is lost, a watchdog of the program ends the wait. */
enum { LIMIT_MS = 86400000 };

nccl_abi_result st_no_nccl(void)
{
    st_warn_once("the program calls an NCCL function, but no NCCL that has it is loaded");
    return NCCL_ABI_INVALID_USAGE;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Return the number of GPUs of this box; 0 if the driver does not tell. Counts them once per
 * process. */
static int gpus_here(void)
{
    static atomic_int known; /* 1 + the number of GPUs; 0: not counted yet */
    int count = atomic_load(&known);
    DIR *folder;

    if (count)
        return count - 1;
    folder = opendir("/proc/driver/nvidia/gpus");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    atomic_store(&known, 1 + count);
    return count;
}

/* Return why NCCL must run all calls of this communicator, or ST_WHY_OURS if there is no such
 * reason. This checks only what is the same on all ranks, so all ranks get the same answer.
 * ${ranks}: the number of the communicator's ranks, 0 if it is not known yet. */
static enum st_tally_why shared_reason(const struct st_real *real, const struct st_made *made,
                                       int ranks)
{
    int gpus;

    if (made->why != ST_WHY_OURS)
        return made->why;
    if (!made->blocking)
        return ST_WHY_NONBLOCKING;
    if (ranks == 1)
        return ST_WHY_ONE_RANK;
    gpus = gpus_here();
    if (ranks > MOST || (gpus && ranks > gpus))
        return ST_WHY_NOT_ONE_BOX;
    if (real->version < OLDEST)
        return ST_WHY_OLD_NCCL;
    return made->key ? ST_WHY_OURS : ST_WHY_UNFOLLOWED;
}

struct st_meet *st_made_enter(const struct st_real *real, const struct st_made *made, int ranks,
                              int count)
{
    const struct st_settings *settings = st_settings();

    if (shared_reason(real, made, ranks) != ST_WHY_OURS)
        return NULL;
    st_followers_comm(real);
    /* Load the kernels before NCCL makes the communicator. Loading may take seconds longer on some
     * ranks than on others. NCCL waits for the late ranks, but st_meet_wait(), which the ranks call
     * afterwards, waits only a short time. */
    if (!settings->wrong && !settings->observe && settings->max_comms != 0)
        st_kernels_for(real);
    return st_meet_enter(made->key, count);
}

/* Return a record of the new communicator. If the table of communicators is full, the record is not
 * in the table (${unlisted}). The rank then needs the record only to tell the other ranks that it
 * cannot use our kernels, and the caller frees it. */
static struct st_comm *record(struct st_real *real, const struct st_made *made)
{
    static _Atomic uint64_t families; /* number of families so far */
    struct st_comm *c = st_comm_find(*made->comm);
    const bool known = made->blocking || made->parent_spans;
    int device = 0;

    st_followers_comm(real);
    if (c) /* the record of a communicator at this address that NCCL ended after an error */
        st_book_close(c->book), st_comm_remove(c);
    c = st_comm_add(*made->comm, real);
    if (!c) {
        c = calloc(1, sizeof *c);
        if (!c)
            return NULL;
        c->unlisted = true;
        c->comm = *made->comm;
        c->real = real;
    }
    c->key = made->key;
    c->blocking = made->blocking;
    c->sharing = st_comm_sharing(made->sharing);
    c->family = made->family ? made->family : atomic_fetch_add(&families, 1) + 1;
    if (!known) /* while NCCL may still be making the communicator, its size is unknown */
        c->ranks = 1;
    else if (!real->comm_count || real->comm_count(*made->comm, &c->ranks) != NCCL_ABI_SUCCESS ||
             !real->comm_rank || real->comm_rank(*made->comm, &c->rank) != NCCL_ABI_SUCCESS)
        c->ranks = 1;
    else if (real->comm_device && real->comm_device(*made->comm, &device) == NCCL_ABI_SUCCESS)
        c->device = device >= 0 ? device % ST_DEVICES : 0;
    st_slot_claim(c->rank, c->ranks, real->version, real->path);
    if (!c->unlisted)
        c->book = st_book_open(c->key, c->rank, known ? c->ranks : 0, real->version);
    c->why = (int)shared_reason(real, made, c->ranks);
    return c;
}

static void decide(struct st_comm *c, enum st_tally_why why)
{
    struct st_tally_slot *slot = st_slot();

    if (why != ST_WHY_OURS)
        st_comm_give(c);
    c->why = (int)why;
    if (slot)
        st_tally_add(slot, &slot->comms[why]);
}

static void drop_unlisted(struct st_comm *c)
{
    if (c->unlisted)
        free(c);
}

/* The ranks of one communicator that this thread drives. */
struct party {
    struct st_comm *c[MOST];
    int n;
    enum st_tally_why shared; /* what shared_reason() returned: ST_WHY_NOT_ONE_BOX or ST_WHY_OURS */
    enum st_tally_why own;    /* what own_reason() returned */
    struct st_meet *meet;
    struct st_boxes_mark mark;
    bool parent_spans; /* the communicator was split or shrunk from one that spans boxes */
    bool further;      /* one of these ranks' GPUs has a handle, or keeps one for JAX */
};

/* Count one more handle on each GPU of ${p}. If one of these GPUs already has as many handles as
 * allowed, count none and return false. Call this before the ranks meet, because other threads, or
 * this thread's group, may be about to make handles, too. If in the end no handle is made, decide()
 * undoes the count. */
static bool take_places(struct party *p)
{
    bool room = true;
    int before;

    for (int i = 0; i < p->n && room; i++) {
        struct st_comm *c = p->c[i];
        bool shared = false; /* ranks of one communicator on one GPU count once */

        for (int k = 0; k < i; k++)
            shared |= p->c[k]->device == c->device;
        if (shared)
            continue;
        before = st_comm_take(c);
        room = before < st_settings_comms(c->device);
        p->further |= before > 0 || st_settings_kept();
    }
    for (int i = 0; i < p->n && room && p->further; i++)
        st_comm_limit(p->c[i]);
    for (int i = 0; i < p->n && !room; i++)
        st_comm_give(p->c[i]);
    return room;
}

/* Return why this process cannot use our kernels, or ST_WHY_OURS if it can. Other ranks may get
 * another answer. */
static enum st_tally_why own_reason(const struct st_real *real, struct party *p)
{
    const struct st_settings *settings = st_settings();

    for (int i = 0; i < p->n; i++)
        if (!p->c[i]->blocking)
            return ST_WHY_NONBLOCKING;
    if (settings->wrong)
        return ST_WHY_SETTINGS;
    if (settings->observe)
        return ST_WHY_OBSERVE;
    for (int i = 0; i < p->n; i++)
        if (p->c[i]->unlisted)
            return ST_WHY_COMMS;
    if (!take_places(p))
        return ST_WHY_COMMS;
    if (st_kernels_for(real))
        return ST_WHY_OURS;
    return st_kernels_loaded() ? ST_WHY_OTHER_NCCL : ST_WHY_NO_KERNELS;
}

/* May the ranks meet through NCCL (boxes/boxes.h)? Ranks on several boxes have no other way. Some
 * ranks may have a blocking communicator, and others a non-blocking one. If the parent spans boxes,
 * the blocking ranks wait for all ranks, so the non-blocking ranks must meet them, too. */
static bool may_span(const struct st_real *real, const struct st_made *made,
                     const struct st_comm *c)
{
    return (made->mark.there || made->parent_spans) && made->key && real->version >= OLDEST &&
           (c->why == ST_WHY_OURS || c->why == ST_WHY_NOT_ONE_BOX ||
            (c->why == ST_WHY_NONBLOCKING && made->parent_spans && c->ranks > 1));
}

/* Warn that NCCL runs all calls of the communicator, and say why. If the ranks met in shared
 * memory, only the rank that came first calls this. */
static void warn(const struct party *p, enum st_tally_why why, enum st_meet_answer answer)
{
    static const char *const text[] = {
        [ST_MEET_OPEN] = "there is no shared memory to meet the other ranks in",
        [ST_MEET_MISSING] = "not all of its ranks run under symtuner on this host",
        [ST_MEET_UNABLE] = "another rank cannot use our kernels",
        [ST_MEET_DIFFER] = "its ranks have different SYMTUNER_ variables or versions"};

    if (why == ST_WHY_COMMS && p->c[0]->unlisted)
        st_warn_once("NCCL runs all calls of a further communicator: the drop-in follows only %d",
                     ST_COMM_PLACES / 2);
    else if (why == ST_WHY_COMMS)
        st_warn_once("NCCL runs all calls of a further communicator of %d ranks: our kernels serve "
                     "%d of a GPU at a time%s; set a lower SYMTUNER_AR_MAX_CTAS or raise "
                     "SYMTUNER_MAX_COMMS",
                     p->c[0]->ranks, st_settings_comms(p->c[0]->device),
                     st_settings_kept() ? ", beside the groups of JAX" : "");
    else if (why == ST_WHY_SHARED_GPU)
        st_warn_once("NCCL runs all calls of a communicator of %d ranks: several of them are on "
                     "one GPU; SYMTUNER_AR_SHARE_GPU=1 on all ranks lets our kernels run there",
                     p->c[0]->ranks);
    else if (why == ST_WHY_MISSING)
        st_warn_once("NCCL runs all calls of a communicator of %d ranks: %s", p->c[0]->ranks,
                     text[answer]);
}

/* Return why NCCL would run every call of this handle, or ST_WHY_OURS. The reason may be that the
 * library cannot add up box by box, for example because each box has one rank, or that ranks share
 * a GPU. All ranks ask about the same call, a sum of one int8, so they get the same answer. */
static enum st_tally_why in_vain(const struct st_kernels *kernels, struct symtuner_ar *handle)
{
    static const char no_boxes[] = "the ranks span several nodes";
    static const char one_gpu[] = "several ranks are on one GPU";
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    char byte;

    if (kernels->query_(&byte, &byte, 1, 0, 0, handle, &plan) != NCCL_ABI_SUCCESS || plan.boxes)
        return ST_WHY_OURS;
    return strncmp(plan.why, no_boxes, sizeof no_boxes - 1) == 0 ? ST_WHY_BOXES
           : strncmp(plan.why, one_gpu, sizeof one_gpu - 1) == 0 ? ST_WHY_SHARED_GPU
                                                                 : ST_WHY_OURS;
}

/* Make the handles of ${p}. If the ranks are on several boxes, a rank that cannot use our kernels
 * calls this function, too. For such a rank the function passes an invalid max_ctas, so that
 * create_ fails on all ranks. Returns true if all ranks have made handles, even if the handles were
 * of no use (in_vain) and are freed again. */
static bool make_handles(struct party *p)
{
    const struct st_kernels *kernels = st_kernels_for(p->c[0]->real);
    struct symtuner_ar *handle[MOST] = {NULL};
    void *comm[MOST];
    struct symtuner_ar_config config = {.size = sizeof config, .timeout_ms = LIMIT_MS};
    const char *limit = getenv("SYMTUNER_AR_TIMEOUT_MS");
    enum st_tally_why vain = ST_WHY_OURS;
    bool made, warns;
    int result;

    for (int i = 0; i < p->n; i++)
        comm[i] = p->c[i]->comm;
    if (limit && *limit)
        config.timeout_ms = 0; /* 0: the library reads SYMTUNER_AR_TIMEOUT_MS */
    if (p->own != ST_WHY_OURS)
        config.max_ctas = -1; /* invalid, so create_ fails on all ranks */
    else if (p->further)
        config.max_ctas = st_settings_further(p->c[0]->device);
    st_inside++;
    result = kernels->create_(handle, comm, p->n, &config);
    made = result == NCCL_ABI_SUCCESS;
    if (p->meet && !st_meet_done(p->meet, p->n, made, DONE_MS) && made) {
        for (int i = 0; i < p->n; i++) /* without abort_, destroy_ could wait for a dead rank */
            kernels->abort_(handle[i]);
        kernels->destroy_(handle, p->n);
        made = false;
    }
    if (made && (vain = in_vain(kernels, handle[0])) != ST_WHY_OURS) {
        kernels->destroy_(handle, p->n);
        made = false;
        p->own = vain;
    }
    st_inside--;
    warns = !made && (p->meet ? st_meet_first(p->meet) : p->c[0]->rank == 0);
    if (warns && p->own != ST_WHY_OURS)
        warn(p, p->own, ST_MEET_UNABLE);
    else if (warns)
        st_warn_once("NCCL runs all calls of a communicator of %d ranks: %s", p->c[0]->ranks,
                     result == NCCL_ABI_SUCCESS ? "another rank has got no handle"
                                                : kernels->error_(NULL));
    for (int i = 0; i < p->n; i++) {
        p->c[i]->kernels = kernels;
        decide(p->c[i], made ? ST_WHY_OURS : p->own != ST_WHY_OURS ? p->own : ST_WHY_CREATE);
        if (!made)
            continue;
        atomic_store_explicit(&p->c[i]->handle, handle[i], memory_order_release);
    }
    return made || vain != ST_WHY_OURS;
}

/* Meet the other ranks through NCCL, and make a handle that adds up box by box. Called if the
 * meeting on this box has not found all ranks. If the parent spans boxes, the ranks need not meet:
 * each knows that all of them call create_. create_ itself ensures that either all ranks get a
 * handle or none does. */
static void span(struct party *p)
{
    struct st_comm *c = p->c[0];
    enum st_tally_why why = p->own != ST_WHY_OURS ? p->own : ST_WHY_MISSING;
    void *all;

    st_meet_leave(p->meet);
    p->meet = NULL;
    if (p->parent_spans) { /* one thread may then make handles for several ranks */
        c->spans = make_handles(p);
        for (int i = 1; i < p->n; i++)
            p->c[i]->spans = c->spans;
        return;
    }
    all = st_boxes_meet(c->real, &p->mark, c->ranks, c->rank, p->own == ST_WHY_OURS);
    if (all) {
        c->spans = make_handles(p);
        st_boxes_leave(c->real, all);
        return;
    }
    if (c->rank == 0 && why == ST_WHY_MISSING)
        st_warn_once("NCCL runs all calls of a communicator of %d ranks: not all of them are on "
                     "this box, and not all have the drop-in, SYMTUNER_AR_NODES=1 or rules for "
                     "several boxes, and the same settings",
                     c->ranks);
    else if (c->rank == 0)
        warn(p, why, ST_MEET_UNABLE);
    decide(c, why);
}

static void meet(struct party *p)
{
    enum st_meet_answer answer = p->meet ? st_meet_wait(p->meet, ST_MEET_MS) : ST_MEET_OPEN;

    if (answer == ST_MEET_ALL) {
        make_handles(p);
    } else if (((p->mark.there && p->n == 1) || p->parent_spans) &&
               (answer == ST_MEET_OPEN || answer == ST_MEET_MISSING)) {
        span(p);
    } else {
        enum st_tally_why why = p->own != ST_WHY_OURS      ? p->own
                                : p->shared != ST_WHY_OURS ? p->shared
                                                           : ST_WHY_MISSING;

        if (!p->meet || st_meet_first(p->meet))
            warn(p, why, answer);
        for (int i = 0; i < p->n; i++)
            decide(p->c[i], why);
    }
    if (p->c[0]->handle && st_settings()->verify && p->meet && st_meet_single(p->meet))
        p->c[0]->meet = p->meet;
    else
        st_meet_leave(p->meet);
}

static int by_key(const void *a, const void *b)
{
    const struct st_made *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

/* Making a handle waits for the other ranks. So all ranks make the handles of a group's
 * communicators in the same order: that of the communicators' keys. */
void st_made_settle(struct st_real *real, struct st_made *made, int n)
{
    struct party *party = calloc((size_t)n, sizeof *party);
    int parties = 0;

    qsort(made, (size_t)n, sizeof *made, by_key);
    for (int i = 0; i < n && party; i++) {
        struct st_comm *c = *made[i].comm ? record(real, &made[i]) : NULL;
        struct party *last = parties ? &party[parties - 1] : NULL;
        enum st_tally_why shared = c ? (enum st_tally_why)c->why : ST_WHY_UNFOLLOWED;
        bool spans = c && may_span(real, &made[i], c);

        if (c && (shared == ST_WHY_OURS || spans)) {
            if (!last || last->c[0]->key != c->key || last->n == MOST)
                last = &party[parties++];
            last->shared = shared;
            if (spans) {
                last->mark = made[i].mark;
                last->parent_spans = made[i].parent_spans;
            }
            if (last->n == 0)
                last->meet = made[i].meet;
            else if (made[i].meet) /* 0 ranks, because all come through last->meet */
                st_meet_come(made[i].meet, c->ranks, 0, NULL);
            if (last->n == 0)
                made[i].meet = NULL;
            last->c[last->n++] = c;
            c->why = ST_WHY_UNFOLLOWED;
        } else if (c) {
            decide(c, (enum st_tally_why)c->why);
            drop_unlisted(c);
        }
    }
    for (int i = 0; i < parties; i++) { /* come to all meetings before waiting in one */
        struct party *p = &party[i];
        struct st_meet_entry entry = {.settings = st_settings()->hash};

        p->own = own_reason(real, p);
        entry.able = p->own == ST_WHY_OURS;
        entry.single = p->n == 1;
        if (p->meet)
            st_meet_come(p->meet, p->c[0]->ranks, p->n, &entry);
    }
    for (int i = 0; i < parties; i++) {
        meet(&party[i]);
        for (int k = 0; k < party[i].n; k++)
            drop_unlisted(party[i].c[k]);
    }
    st_made_drop(made, n);
    free(party);
}

void st_made_drop(struct st_made *made, int n)
{
    for (int i = 0; i < n; i++)
        st_meet_leave(made[i].meet);
}

void st_made(struct st_real *real, struct st_made *made, int n)
{
    struct st_group *g = st_group_of(real);

    if (g->depth == 0) {
        st_made_settle(real, made, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        struct st_made *waiting =
            st_group_more((void **)&g->made, g->mades, &g->mades_room, sizeof *g->made);

        if (!waiting) {
            st_made_drop(made + i, n - i);
            return;
        }
        *waiting = made[i];
        g->mades++;
    }
}

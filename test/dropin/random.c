/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.c - makes random calls on three communicators per thread, alone and in groups, on four
 * streams, one of which is captured. Each call must compute the right result, once and at the right
 * time. It must run on the kernels or on NCCL, as docs/dropin.md says, and the drop-in must count
 * who ran it.
 *
 * usage: random CALLS THREADS FILE    runs until the kernels have run CALLS calls and NCCL has run
 *                                     CALLS; the job's counters go to FILE
 *        random CALLS                 makes CALLS calls or groups in one thread, and prints a hash
 *                                     of the calls that NCCL got
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "dropin/tally.h"
#include "test/dropin/play/play.h"

enum { PAIRS = 3, MOST = 64, LONGEST = 40 /* elements; longer calls go to NCCL */, GROUP = 7 };

/* The kinds of calls. */
enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, CONFIG, SEND, USER_OP, KINDS };

struct call {
    enum kind kind;
    int at; /* the index of the communicator */
    size_t count;
    uintptr_t stream;
    bool ours; /* whether our kernels may run the call */
    float send[MOST], recv[2 * MOST];
};

struct worker {
    unsigned seed;
    void *comm[2 * PAIRS];
    struct call call[GROUP];
};

static struct nccl n;
static long wanted;
/* numbers of calls. ours: run by our kernels; theirs: run by NCCL; own: made to NCCL by our
 * kernels */
static atomic_long ours, theirs, captured, own;
static bool inert;

static int dice(struct worker *w, int sides)
{
    return (int)((unsigned)rand_r(&w->seed) % (unsigned)sides);
}

static void make(struct worker *w, int pair)
{
    MUST(n.f.CommInitAll(&w->comm[2 * pair], 2, NULL) == 0);
    atomic_fetch_add(&own, 2);
}

static void end(struct worker *w, int pair)
{
    int how = dice(w, 4);

    for (int i = 2 * pair; i < 2 * pair + 2; i++) {
        if (how == 1)
            MUST(n.f.CommFinalize(w->comm[i]) == 0);
        MUST((how == 2 ? n.f.CommAbort : n.f.CommDestroy)(w->comm[i]) == 0);
    }
}

static void draw(struct worker *w, struct call *c)
{
    c->kind = (enum kind)(dice(w, 3) ? dice(w, 3) : dice(w, KINDS));
    c->at = dice(w, 2 * PAIRS);
    c->count = 1 + (size_t)dice(w, dice(w, 8) ? LONGEST - 1 : MOST);
    c->stream = (uintptr_t)dice(w, 4);
    c->ours = c->kind <= ALL_GATHER && c->count < LONGEST;
    for (size_t i = 0; i < c->count; i++)
        c->send[i] = (float)dice(w, 1000);
    memset(c->recv, 0xff, sizeof c->recv);
}

static void run(struct worker *w, struct call *c)
{
    void *comm = w->comm[c->at], *stream = (void *)c->stream;
    int result = 0;

    switch (c->kind) {
    case ALL_REDUCE:
        result = n.f.AllReduce(c->send, c->recv, c->count, F32, SUM, comm, stream);
        break;
    case REDUCE_SCATTER:
        result = n.f.ReduceScatter(c->send, c->recv, c->count, F32, SUM, comm, stream);
        break;
    case ALL_GATHER:
        result = n.f.AllGather(c->send, c->recv, c->count, F32, comm, stream);
        break;
    case BROADCAST:
        result = n.f.Broadcast(c->send, c->recv, c->count, F32, 0, comm, stream);
        break;
    case CONFIG:
        result = n.f.AllReduceConfig(c->send, c->recv, c->count, F32, SUM, comm, stream, "x");
        break;
    case SEND:
        result = n.f.Send(c->send, c->count, F32, 1, comm, stream);
        break;
    default:
        result = n.f.AllReduce(c->send, c->recv, c->count, F32, 5, comm, stream);
    }
    MUST(result == 0);
}

static bool untouched(const struct call *c)
{
    uint32_t bits;

    memcpy(&bits, c->recv, sizeof bits);
    return bits == UINT32_MAX;
}

/* Check the result of a call that has just run: on the kernels if ${by_us}, otherwise on NCCL. */
static void check(const struct call *c, bool by_us)
{
    for (size_t i = 0; c->kind <= ALL_GATHER && i < c->count; i++) {
        float want = c->kind == ALL_GATHER ? c->send[i] : 2 * c->send[i];

        MUST(c->recv[i] == want);
        MUST(c->kind != ALL_GATHER || c->recv[c->count + i] == want);
    }
    atomic_fetch_add(by_us ? &ours : &theirs, 1);
    if (by_us && c->stream == 2)
        atomic_fetch_add(&captured, 1);
}

static void one(struct worker *w)
{
    draw(w, w->call);
    run(w, w->call);
    check(w->call, w->call->ours);
}

/* Make a group of calls. If a communicator has more than four collectives in the group, or one that
 * goes to NCCL, then NCCL runs all its collectives of the group. Sends do not count. */
static void group(struct worker *w)
{
    int calls = dice(w, GROUP + 1), mine[2 * PAIRS] = {0}, others[2 * PAIRS] = {0};
    bool nested = dice(w, 4) == 0;

    MUST(n.f.GroupStart() == 0);
    for (int i = 0; i < calls; i++) {
        struct call *c = &w->call[i];

        draw(w, c);
        if (nested)
            MUST(n.f.GroupStart() == 0);
        run(w, c);
        if (nested)
            MUST(n.f.GroupEnd() == 0);
        MUST(!c->ours || inert || untouched(c));
        mine[c->at] += c->ours;
        others[c->at] += !c->ours && c->kind != SEND;
    }
    MUST(n.f.GroupEnd() == 0);
    for (int i = 0; i < calls; i++) {
        const struct call *c = &w->call[i];

        check(c, c->ours && others[c->at] == 0 && mine[c->at] <= 4);
    }
}

static void *work(void *self)
{
    struct worker *w = self;

    for (int i = 0; i < PAIRS; i++)
        make(w, i);
    for (long round = 1; atomic_load(&ours) < wanted || atomic_load(&theirs) < wanted; round++) {
        (dice(w, 2) ? one : group)(w);
        if (round % 256 == 0) {
            int pair = dice(w, PAIRS);

            end(w, pair);
            make(w, pair);
        }
    }
    for (int i = 0; i < PAIRS; i++)
        end(w, i);
    return NULL;
}

/* Compare this program's numbers with those of the fakes and of the job's file. */
static void compare(const struct st_tally *tally)
{
    const struct st_tally_slot *slot = &tally->slot[0];
    uint64_t counted[2] = {0, 0};

    MUST(kernels()->collectives == ours);
    MUST(n.record->collectives == theirs + own);
    for (int c = 0; c < ST_TALLY_COLLS; c++)
        for (int w = 0; w < ST_WHYS; w++)
            counted[w != ST_WHY_OURS] += slot->call[c][w].calls;
    MUST(counted[0] == (uint64_t)ours && counted[1] == (uint64_t)theirs);
    MUST(slot->captured == (uint64_t)captured);
}

/* Print a hash of the calls that NCCL gets, for SYMTUNER_MODE=off or a run without the drop-in. In
 * both cases NCCL runs each call when the program makes it. */
static int trace(void)
{
    struct worker w = {.seed = 1};

    inert = true;
    for (int i = 0; i < PAIRS; i++)
        make(&w, i);
    for (long i = 0; i < wanted; i++) {
        (dice(&w, 2) ? one : group)(&w);
        n.record->text[0] = '\0';
    }
    for (int i = 0; i < PAIRS; i++)
        end(&w, i);
    printf("%016llx after %ld calls\n", (unsigned long long)n.record->hash, n.record->collectives);
    return 0;
}

int main(int argc, char **argv)
{
    int threads = argc == 4 ? atoi(argv[2]) : 0;
    struct worker *worker = calloc((size_t)threads + 1, sizeof *worker);
    pthread_t thread[64];
    struct st_tally *tally;
    char error[256];

    MUST((argc == 2 || argc == 4) && threads <= 64);
    wanted = atol(argv[1]);
    nccl_linked(&n);
    MUST(dlopen("libcuda.so.1", RTLD_NOW) != NULL);
    if (argc == 2)
        return trace();
    tally = st_tally_create(argv[3], error, sizeof error);
    MUST(tally != NULL && setenv(ST_TALLY_VARIABLE, argv[3], 1) == 0);
    make(worker + threads, 0); /* the first communicator makes the drop-in load the kernels */
    n.record->quiet = kernels()->quiet = true;
    kernels()->nccl_from = LONGEST * sizeof(float);
    for (int i = 0; i < threads; i++) {
        worker[i].seed = (unsigned)i * 2654435761u + 1;
        MUST(pthread_create(&thread[i], NULL, work, &worker[i]) == 0);
    }
    for (int i = 0; i < threads; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
    compare(tally);
    MUST(kernels()->handles == 2);
    MUST(unlink(argv[3]) == 0);
    printf("random: %ld calls by the kernels, %ld by NCCL; %ld of the former captured\n",
           (long)ours, (long)theirs, (long)captured);
    return 0;
}

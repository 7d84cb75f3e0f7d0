/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks.c - runs as one process per rank, and prints whether our kernels or NCCL run its calls.
 *
 * usage: ranks SEED RANKS RANK    SEED names the communicator. Prints "ours" or "nccl", and the
 *                                 seconds that the drop-in needed for the communicator; prints
 *                                 "failed" if NCCL could not make it. Variables change that:
 *                                 BOX      the id is the one that rank 0 gets from NCCL
 *                                 GATHER   also make an all-gather
 *                                 SPLIT    split the communicator without leaving out a rank, make
 *                                          an all-reduce on the new one, and check how the drop-in
 *                                          has asked the kernels for a handle: as always
 *                                          ("create"), or so that all ranks get none ("refuse")
 *                                 FULL=R   at the start, or with SPLIT right before the split,
 *                                          rank R makes as many communicators as the drop-in
 *                                          follows; at a split it must then "refuse"
 *                                 FAST=R   the new communicator of SPLIT is non-blocking on rank R,
 *                                          which must then "refuse"
 *                                 VERIFY   1: make four calls in place, the third in a capture, and
 *                                          print who ran each. wrong: the same, but the kernels
 *                                          of this rank compute wrong results
 *        ranks pair SEED RANKS RANK
 *                                 drives ranks RANK and RANK + 1: two threads make the
 *                                 communicator, and then one thread splits both in a group. The
 *                                 drop-in must ask the kernels for the handles of both at once
 *        ranks none               makes no communicator and starts sh
 *        ranks count FILE         creates FILE as `symtuner run` does, and starts "ranks loader"
 *                                 with it, which forks and dies by SIGKILL. Then checks the
 *                                 counters
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dropin/tally.h"
#include "test/dropin/play/play.h"

enum { INT32 = 2, MAX = 2 };

static struct nccl n;
static float a[16], b[16];

/* Return how many seconds have passed since all ranks reached ncclCommInitRank. */
static double since_met(void)
{
    const struct timespec *met = &n.record->met;
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - met->tv_sec) + 1e-9 * (double)(t.tv_nsec - met->tv_nsec);
}

static void call(void *comm)
{
    said(n.record);
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm, NULL) == 0);
}

/* Make a communicator, and fork a child that uses it, as data loaders do. Then make another
 * communicator, which is non-blocking, and split it. */
static void load(void)
{
    struct nccl_abi_config fast = {.size = sizeof fast, .blocking = 0};
    struct nccl_abi_id id = {{0}};
    void *comm[2], *later, *child, *window;
    int error;

    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    call(comm[0]);
    if (fork() == 0) {
        call(comm[0]);
        _exit(0);
    }
    MUST(wait(NULL) > 0);
    MUST(n.f.CommWindowRegister(comm[0], b, sizeof b, &window, 1) == 0);
    call(comm[0]);
    MUST(n.f.CommWindowDeregister(comm[0], window) == 0);
    kernels()->gives = true;
    MUST(n.f.AllReduce(a, b, DECIDED, F32, SUM, comm[0], NULL) == 0);
    kernels()->gives = false;
    MUST(n.f.AllReduce(a, b, DECIDED, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.Broadcast(a, b, 8, F32, 0, comm[1], NULL) == 0);
    MUST(n.f.AllReduce(a, b, 0, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(NULL, b, 2, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(a, b, 16, INT32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(a, b, 16, F32, MAX, comm[0], NULL) == 0);
    MUST(n.f.CommInitRankConfig(&later, 2, id, 0, &fast) == NCCL_ABI_IN_PROGRESS);
    call(later);
    MUST(n.f.CommSplit(later, 0, 0, &child, &fast) == NCCL_ABI_IN_PROGRESS && !child);
    MUST(n.f.CommGetAsyncError(later, &error) == 0 && child);
    MUST(n.f.AllGather(a, b, 4, F32, child, NULL) == 0);
    MUST(n.f.Reduce(a, b, 4, F32, SUM, 0, child, NULL) == 0);
    raise(SIGKILL);
}

static void count(const char *program, const char *path)
{
    char error[256];
    struct st_tally *tally = st_tally_create(path, error, sizeof error);
    struct st_tally_slot *slot;
    pid_t child;
    int status;

    MUST(tally != NULL);
    child = fork();
    if (child == 0) {
        setenv(ST_TALLY_VARIABLE, path, 1);
        execl(program, program, "loader", "", (char *)NULL);
        _exit(127);
    }
    MUST(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    MUST(st_tally_used(tally) == 1);
    slot = &tally->slot[0];
    MUST(slot->pid == child && slot->nccl == 22809 && slot->ranks == 2);
    MUST(strcmp(slot->program, "ranks") == 0 && strstr(slot->library, "first/libnccl.so.2"));
    MUST(slot->comms[ST_WHY_OURS] == 2);
    MUST(slot->call[ST_TALLY_ALL_REDUCE][ST_WHY_OURS].calls == 5);
    MUST(slot->call[ST_TALLY_ALL_REDUCE][ST_WHY_OURS].bytes == 304);
    MUST(slot->call[ST_TALLY_ALL_REDUCE][ST_WHY_UNMAPPED].calls == 1);
    /* only one call is like those that were timed: the others use a window, another type, another
     * operator, and another kernel */
    MUST(slot->timed[0][6] == 1 && slot->timed[1][6] == 0);
    MUST(slot->timed[0][5] == 0 && slot->tma_ipc == 1);
    MUST(slot->call[ST_TALLY_BROADCAST][ST_WHY_COLLECTIVE].calls == 1);
    MUST(slot->call[ST_TALLY_ALL_REDUCE][ST_WHY_EMPTY].calls == 1);
    MUST(slot->call[ST_TALLY_ALL_REDUCE][ST_WHY_ARGUMENTS].calls == 1);
    MUST(slot->call[ST_TALLY_ALL_REDUCE][ST_WHY_NONBLOCKING].calls == 1);
    MUST(slot->call[ST_TALLY_ALL_GATHER][ST_WHY_UNFOLLOWED].calls == 1);
    MUST(slot->call[ST_TALLY_ALL_GATHER][ST_WHY_UNFOLLOWED].bytes == 32);
    MUST(slot->call[ST_TALLY_REDUCE][ST_WHY_UNFOLLOWED].calls == 1);
    MUST(slot->call[ST_TALLY_REDUCE][ST_WHY_UNFOLLOWED].bytes == 16);
    MUST(unlink(path) == 0);
}

/* Make a call in place, and return who ran it. */
static const char *verified(void *comm, void *stream)
{
    static const char *const who[] = {"nobody", "nccl", "ours", "both"};
    struct record *ours = kernels();
    int found;

    said(n.record);
    said(ours);
    a[0] = 3;
    MUST(n.f.AllReduce(a, a, 16, F32, SUM, comm, stream) == 0);
    found =
        (strstr(n.record->text, "AllReduce") != NULL) | 2 * (strstr(ours->text, "all_r") != NULL);
    MUST(a[0] == 6 || (found == 2 && ours->wrong));
    return who[found];
}

/* Ranks may create the communicator with different functions. Only the id says which ranks belong
 * together. */
static int init(void **comm, int ranks, struct nccl_abi_id id, int rank)
{
    return rank % 2 == 0 ? n.f.CommInitRank(comm, ranks, id, rank)
                         : n.f.CommInitRankConfig(comm, ranks, id, rank, NULL);
}

/* Split the communicator and use the new one. ${request} is "create" or "refuse": how the drop-in
 * must have asked the kernels for a handle. */
static void split(void *comm, const char *request, bool fast)
{
    struct nccl_abi_config config = {.size = sizeof config, .blocking = 0};
    void *child;

    said(kernels());
    MUST(n.f.CommSplit(comm, 0, 0, &child, fast ? &config : NULL) == 0);
    MUST(strstr(kernels()->text, request) != NULL);
    call(child);
    MUST(n.f.CommDestroy(child) == 0);
}

/* Make communicators of a single rank, until the drop-in's list of communicators is full. */
static void fill(void)
{
    void *comm;

    for (int i = 0; i < 2048; i++)
        MUST(n.f.CommInitAll(&comm, 1, NULL) == 0);
}

/* Rank 0 asks NCCL for an id, and the others read it from a file. */
static struct nccl_abi_id shared_id(const char *seed, int rank)
{
    struct nccl_abi_id id = {{0}};
    char whole[512], path[520];
    FILE *f = NULL;

    snprintf(whole, sizeof whole, "%s/id-%s", getenv("READY"), seed);
    snprintf(path, sizeof path, "%s.new", whole);
    if (rank == 0) {
        MUST(n.id(&id) == 0);
        f = fopen(path, "w");
        MUST(f && fwrite(&id, sizeof id, 1, f) == 1 && fclose(f) == 0);
        MUST(rename(path, whole) == 0);
        return id;
    }
    while (!(f = fopen(whole, "r")))
        usleep(1000);
    MUST(fread(&id, sizeof id, 1, f) == 1 && fclose(f) == 0);
    return id;
}

struct member {
    struct nccl_abi_id id;
    int ranks, rank;
    void *comm, *child;
};

static void *join(void *self)
{
    struct member *m = self;

    MUST(init(&m->comm, m->ranks, m->id, m->rank) == 0);
    return NULL;
}

static void pair(const char *seed, int ranks, int rank)
{
    struct nccl_abi_id id = shared_id(seed, rank);
    struct member m[2] = {{id, ranks, rank, NULL, NULL}, {id, ranks, rank + 1, NULL, NULL}};
    pthread_t thread[2];

    for (int i = 0; i < 2; i++)
        MUST(pthread_create(&thread[i], NULL, join, &m[i]) == 0);
    for (int i = 0; i < 2; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
    said(kernels());
    MUST(n.f.GroupStart() == 0);
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommSplit(m[i].comm, 0, 0, &m[i].child, NULL) == 0);
    MUST(n.f.GroupEnd() == 0);
    SAID(kernels(), "create:2 ");
    for (int i = 0; i < 2; i++)
        call(m[i].child);
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommDestroy(m[i].child) == 0);
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommDestroy(m[i].comm) == 0);
}

int main(int argc, char **argv)
{
    struct nccl_abi_id id = {{0}};
    void *comm;
    double waited;
    bool full, fast;

    if (argc == 2)
        return execlp("sh", "sh", "-c", "echo child", (char *)NULL);
    if (argc == 3 && strcmp(argv[1], "count") == 0) {
        count(argv[0], argv[2]);
        return 0;
    }
    nccl_linked(&n);
    dlopen("libcuda.so.1", RTLD_NOW);
    if (argc == 3)
        load();
    if (argc == 5) {
        pair(argv[2], atoi(argv[3]), atoi(argv[4]));
        return 0;
    }
    MUST(argc == 4);
    if (getenv("BOX"))
        id = shared_id(argv[1], atoi(argv[3]));
    else
        snprintf(id.bytes, sizeof id.bytes, "%s", argv[1]);
    full = getenv("FULL") && atoi(getenv("FULL")) == atoi(argv[3]);
    fast = getenv("FAST") && atoi(getenv("FAST")) == atoi(argv[3]);
    if (full && !getenv("SPLIT"))
        fill();
    if (init(&comm, atoi(argv[2]), id, atoi(argv[3])) != 0) {
        printf("failed 0.0\n");
        return 0;
    }
    waited = since_met();
    if (getenv("VERIFY")) {
        kernels()->wrong = strcmp(getenv("VERIFY"), "wrong") == 0;
        for (uintptr_t i = 0; i < 4; i++)
            printf("%s%s", i ? "-" : "", verified(comm, (void *)i));
        printf(" %.1f\n", waited);
        return 0;
    }
    call(comm);
    if (!*n.record->text) /* the drop-in must set the longest time limit, if the user sets none */
        MUST(kernels()->limit_ms == (getenv("SYMTUNER_AR_TIMEOUT_MS") ? 0 : 86400000));
    printf("%s %.1f\n", *n.record->text ? "nccl" : "ours", waited);
    if (getenv("GATHER"))
        MUST(n.f.AllGather(a, b, 4, F32, comm, NULL) == 0);
    if (full && getenv("SPLIT"))
        fill();
    if (getenv("SPLIT"))
        split(comm, full || fast ? "refuse" : getenv("SPLIT"), fast);
    MUST(n.f.CommDestroy(comm) == 0);
    return 0;
}

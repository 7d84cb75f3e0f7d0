/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - a program whose calls the drop-in counts in the ledger.
 *
 * usage: calls ends           ends communicators in several ways, and exits with others open; a
 *                             forked child exits, too
 *        calls killed         dies by SIGKILL
 *        calls meanwhile      exits while a thread ends a communicator. The thread cannot write
 *                             the counters yet, because the ledger is a full pipe
 *        calls signal PLUGIN  makes calls, and opens a tuner of PLUGIN, libsymtuner.so. Asks it
 *                             about the call that goes to NCCL, as NCCL would. Then sends SIGUSR1,
 *                             waits until the drop-in and the plugin have written their counters,
 *                             and dies by SIGKILL
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_abi/tuner.h"
#include "test/dropin/play/play.h"

static struct nccl n;
static float a[64], b[64];

static void all_reduce(void *comm, size_t count)
{
    MUST(n.f.AllReduce(a, b, count, F32, SUM, comm, NULL) == 0);
}

/* Make calls on both ranks of a communicator. */
static void call(void *comm[2])
{
    for (int rank = 0; rank < 2; rank++) {
        for (int i = 0; i < 3; i++)
            all_reduce(comm[rank], 16);
        /* stream 2 is being captured */
        MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[rank], (void *)2) == 0);
        MUST(n.f.AllGather(a, b, 4, F32, comm[rank], NULL) == 0);
        all_reduce(comm[rank], 0);
        MUST(n.f.GroupStart() == 0);
        for (int i = 0; i < 5; i++) /* a group with so many calls goes to NCCL */
            all_reduce(comm[rank], 64);
        MUST(n.f.GroupEnd() == 0);
        MUST(n.f.Broadcast(a, b, 8, F32, 0, comm[rank], NULL) == 0);
        MUST(n.f.Send(a, 8, F32, 0, comm[rank], NULL) == 0);
    }
}

static void ends(void)
{
    struct nccl_abi_config fast = {.size = sizeof fast, .blocking = 0};
    struct nccl_abi_id id = {{0}};
    void *comm[2], *later, *unused;
    int status;
    pid_t child;

    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    call(comm);
    MUST(n.f.CommFinalize(comm[0]) == 0);
    MUST(n.f.CommDestroy(comm[0]) == 0);
    MUST(n.f.CommAbort(comm[1]) == 0);
    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    all_reduce(comm[0], 16);
    MUST(n.f.CommInitRankConfig(&later, 2, id, 0, &fast) == NCCL_ABI_IN_PROGRESS);
    MUST(n.f.CommInitRankConfig(&unused, 2, id, 1, &fast) == NCCL_ABI_IN_PROGRESS);
    all_reduce(later, 16);
    child = fork();
    if (child == 0)
        exit(0);
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

static void *destroy(void *comm)
{
    MUST(n.f.CommDestroy(comm) == 0);
    return NULL;
}

static void exit_meanwhile(void)
{
    int pipe = open(getenv("SYMTUNER_LEDGER"), O_RDWR | O_NONBLOCK);
    pthread_t thread;
    void *comm[2];

    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    all_reduce(comm[0], 16);
    MUST(n.f.CommDestroy(comm[1]) == 0);
    while (write(pipe, "\n", 1) == 1)
        ;
    MUST(pthread_create(&thread, NULL, destroy, comm[0]) == 0 && pthread_detach(thread) == 0);
    usleep(300000); /* now the thread waits until somebody reads from the pipe */
}

static void quiet(int level, unsigned long flags, const char *file, int line, const char *format,
                  ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

/* Wait until the ledger has ${blocks} blocks. */
static void want_blocks(int blocks)
{
    char text[1 << 14];
    int found = 0;

    for (int i = 0; i < 1000 && found < blocks; i++) {
        FILE *file = fopen(getenv("SYMTUNER_LEDGER"), "r");

        usleep(10000);
        if (!file)
            continue;
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        found = 0;
        for (const char *at = text; (at = strstr(at, "\nend\n")); at++)
            found++;
    }
    MUST(found == blocks);
}

static void on_signal(const char *path)
{
    void *plugin = dlopen(path, RTLD_NOW), *comm[2], *tuner;
    const struct nccl_abi_tuner_v4 *v4;
    float table[7][3];
    int channels = 0;

    MUST(plugin);
    v4 = dlsym(plugin, "ncclTunerPlugin_v4");
    MUST(v4 != NULL);
    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    MUST(v4->init(2, 1, quiet, &tuner) == 0);
    all_reduce(comm[0], 16);
    all_reduce(comm[0], 16);
    all_reduce(comm[0], 0); /* this call goes to NCCL */
    for (int i = 0; i < 21; i++)
        table[i / 3][i % 3] = 1;
    MUST(v4->get_coll_info(tuner, 4, 0, 1, (float **)table, 7, 3, 0, &channels) == 0);
    raise(SIGUSR1);
    want_blocks(3);
}

int main(int argc, char **argv)
{
    nccl_linked(&n);
    dlopen("libcuda.so.1", RTLD_NOW);
    MUST(argc >= 2);
    if (strcmp(argv[1], "meanwhile") == 0) {
        exit_meanwhile();
        return 0;
    }
    if (strcmp(argv[1], "signal") == 0) {
        MUST(argc == 3);
        on_signal(argv[2]);
    } else {
        ends();
    }
    return strcmp(argv[1], "ends") == 0 ? 0 : raise(SIGKILL);
}

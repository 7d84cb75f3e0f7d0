/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loading.c - loads a library whose constructor calls NCCL, while another thread is in the drop-in
 * and is about to load a library, too. The loader holds a lock of its own while it runs
 * constructors. If the drop-in held a lock while it called the loader, the two threads would wait
 * for each other, and this program would never end.
 *
 * usage: loading LIBRARY id      the drop-in opens NCCL for the first call
 *        loading LIBRARY comm    the drop-in opens the kernels for the first communicator
 *        loading LIBRARY choose  the drop-in tells the kernels which NCCL to use, and the kernels
 *                                open the library "asked"; ASKS must be "asked"
 *        loading LIBRARY driver  the drop-in opens the driver, to ask it how many communicators fit
 *                                on the GPU; SYMTUNER_AR_MAX_CTAS must be set
 *
 * LIBRARY is constructor.so. The program is linked with -rdynamic, so that the drop-in calls the
 * dlopen of this file.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test/dropin/play/play.h"

#define EXPORT __attribute__((visibility("default")))

enum { HANG = 60 /* seconds */ };

int ncclGetUniqueId(struct nccl_abi_id *id);
int ncclCommInitAll(void **comms, int n, const int *devices);

static bool comms;                /* the calls make communicators */
static const char *awaited;       /* the name of the library that the drop-in opens */
static _Thread_local bool first;  /* true in the thread that makes the first call */
static atomic_bool begun, inside; /* the first call has begun; the constructor runs */

static void call(void)
{
    struct nccl_abi_id id;
    void *comm[2];

    MUST(comms ? ncclCommInitAll(comm, 2, NULL) == 0 : ncclGetUniqueId(&id) == 0);
}

EXPORT void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);

    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    if (first && strstr(name, awaited)) {
        first = false;
        atomic_store(&begun, true);
        while (!atomic_load(&inside))
            usleep(1000);
        usleep(200000); /* gives the constructor time to reach a lock that it waits for, if any */
    }
    return real(name, flags);
}

/* The constructor calls this. */
EXPORT void constructed(void);
void constructed(void)
{
    atomic_store(&inside, true);
    call();
}

static void *call_first(void *unused)
{
    (void)unused;
    first = true;
    call();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    MUST(argc == 3);
    comms = strcmp(argv[2], "id") != 0;
    awaited = strcmp(argv[2], "comm") == 0     ? "libsymtuner_ar.so"
              : strcmp(argv[2], "choose") == 0 ? "asked"
              : strcmp(argv[2], "driver") == 0 ? "libcuda.so.1"
                                               : "libnccl.so.2";
    alarm(HANG);
    MUST(pthread_create(&thread, NULL, call_first, NULL) == 0);
    while (!atomic_load(&begun))
        usleep(1000);
    MUST(dlopen(argv[1], RTLD_NOW) != NULL);
    MUST(pthread_join(thread, NULL) == 0);
    return 0;
}

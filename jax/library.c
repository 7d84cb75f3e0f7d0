/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - finds libsymtuner_ar.so, NVIDIA's driver and the drop-in at run time. Also claims the
 * slot in which this process counts its calls. */
#include "jax/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/tally.h"
#include "jax/symtuner_ffi.h"

#define VERSION_MAJOR(v) ((v) / 10000)
#define VERSION_NEEDED   200 /* 0.2.0 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ffi_ar table;
static const void *library; /* set only after the table is filled, since readers take no lock */
static char loaded_path[512];

static int find_all(void *so, struct ffi_ar *found, const char *path, char *why, size_t why_size)
{
    const char *missing = NULL;

#define X(name)                                                                                    \
    *(void **)&found->name = dlsym(so, "symtuner_ar_" #name);                                      \
    if (found->name == NULL)                                                                       \
        missing = "symtuner_ar_" #name;
    FFI_AR_FUNCTIONS(X)
#undef X
    if (missing != NULL)
        return ffi_fail(why, why_size, "%s has no %s: not libsymtuner_ar.so?", path, missing);
    if (VERSION_MAJOR(found->version()) != VERSION_MAJOR(VERSION_NEEDED) ||
        found->version() < VERSION_NEEDED)
        return ffi_fail(why, why_size, "%s is version %d; %d or later of the same major is needed",
                        path, found->version(), VERSION_NEEDED);
    return 0;
}

/* Returns the library, or NULL with a sentence in ${why}. */
static void *open_library(const char *path, struct ffi_ar *found, char *why, size_t why_size)
{
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (so == NULL)
        ffi_fail(why, why_size, "%s", dlerror());
    if (so != NULL && find_all(so, found, path, why, why_size) != 0) {
        dlclose(so);
        so = NULL;
    }
    return so;
}

int ffi_ar_load(const char *path, char *why, size_t why_size)
{
    struct ffi_ar found;
    void *so = NULL;
    int result = 0;

    if (path == NULL || strlen(path) >= sizeof loaded_path)
        return ffi_fail(why, why_size,
                        "no path to libsymtuner_ar.so, or a path of 512 bytes or more");
    /* Load without our lock. The loader has a lock of its own, which another thread may hold while
     * it runs a constructor that calls us. */
    if (ffi_ar_get() == NULL) {
        so = open_library(path, &found, why, why_size);
        ffi_keep_place(-1); /* now, before communicators take all places (library.h) */
    }
    pthread_mutex_lock(&lock);
    if (library == NULL && so != NULL) {
        table = found;
        snprintf(loaded_path, sizeof loaded_path, "%s", path);
        __atomic_store_n(&library, so, __ATOMIC_RELEASE);
        so = NULL;
    } else if (library == NULL) {
        result = -1;
    } else if (strcmp(path, loaded_path) != 0) {
        result = ffi_fail(why, why_size, "%s is loaded already, not %s", loaded_path, path);
    }
    pthread_mutex_unlock(&lock);
    if (so != NULL) /* another thread has loaded the library meanwhile */
        dlclose(so);
    return result;
}

static const void *memory; /* an address in XLA's memory; set before the first group is opened */

void symtuner_ffi_memory(const void *p)
{
    memory = p;
}

/* Return the drop-in's limit on the thread blocks of a call: the smallest limit of these GPUs, or 0
 * if none of them has a limit. */
static int limit_of(const int *devices, int n)
{
    int (*ask)(int device), least = 0;

    *(void **)&ask = dlsym(RTLD_DEFAULT, "symtuner_nccl_limit");
    for (int i = 0; i < n && ask != NULL; i++) {
        int limit = ask(devices[i]);

        if (limit > 0 && (least == 0 || limit < least))
            least = limit;
    }
    return least;
}

struct symtuner_ar_config ffi_ar_config(uint32_t timeout_ms, const int *devices, int n)
{
    return (struct symtuner_ar_config){.size = sizeof(struct symtuner_ar_config),
                                       .timeout_ms = timeout_ms,
                                       .one_stream = 1,
                                       .max_ctas = limit_of(devices, n),
                                       .beside = FFI_BESIDE,
                                       .memory = memory};
}

const struct ffi_ar *ffi_ar_get(void)
{
    return __atomic_load_n(&library, __ATOMIC_ACQUIRE) != NULL ? &table : NULL;
}

void *ffi_driver(const char *name)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

    return cuda != NULL ? dlsym(cuda, name) : NULL;
}

int ffi_keep_place(int device)
{
    int (*keep)(int);

    *(void **)&keep = dlsym(RTLD_DEFAULT, "symtuner_nccl_keep_place");
    return keep == NULL || keep(device);
}

/* ---- counters -------------------------------------------------------------------------------- */

static struct st_tally_slot *slot;
static int tried; /* whether claim() has tried to get a slot */

struct st_tally_slot *ffi_slot(void)
{
    return __atomic_load_n(&slot, __ATOMIC_ACQUIRE);
}

/* Called in a forked child, which must not count in its parent's slot. */
static void forget(void)
{
    __atomic_store_n(&slot, NULL, __ATOMIC_RELEASE);
    tried = 0;
}

/* Claim a slot in a process without the drop-in. Only the first call tries to. */
static struct st_tally_slot *claim(int rank, int ranks)
{
    const char *path = getenv(ST_TALLY_VARIABLE);
    struct st_tally_slot *mine;
    struct st_tally *tally;
    char error[256];

    if (tried || path == NULL || *path == '\0')
        return NULL;
    tried = 1;
    tally = st_tally_open(path, error, sizeof error);
    if (tally == NULL) {
        fprintf(stderr, "symtuner: %s: nothing is counted\n", error);
        return NULL;
    }
    mine = st_tally_claim(tally, program_invocation_short_name);
    if (mine == NULL) { /* all slots are taken */
        st_tally_close(tally);
        return NULL;
    }
    mine->rank = rank;
    mine->ranks = ranks;
    return mine;
}

void ffi_slot_claim(int rank, int ranks)
{
    static int watches_fork;
    struct st_tally_slot *(*ask)(int, int, int), *mine;

    *(void **)&ask = dlsym(RTLD_DEFAULT, "symtuner_nccl_slot");
    pthread_mutex_lock(&lock);
    if (!watches_fork)
        watches_fork = pthread_atfork(NULL, NULL, forget) == 0;
    mine = ffi_slot();
    if (mine == NULL && watches_fork) {
        mine = ask != NULL ? ask(ST_TALLY_VERSION, rank, ranks) : claim(rank, ranks);
        __atomic_store_n(&slot, mine, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    if (mine != NULL)
        st_tally_add(mine, &mine->jax_groups);
}

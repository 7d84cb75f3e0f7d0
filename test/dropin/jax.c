/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jax.c - checks groups of JAX beside communicators of the program, in one process under the
 * drop-in.
 *
 * usage: jax CASE FFI KERNELS
 * FFI is the path of a libsymtuner_ffi.so without the functions that XLA calls. It finds NCCL by
 * dlopen and dlsym, as the installed libsymtuner_ffi.so does. KERNELS is the path of the
 * libsymtuner_ar.so that the FFI library loads. Unless SYMTUNER_MAX_COMMS says otherwise, each GPU
 * has room for the handles of two communicators. All groups of JAX together count as one
 * communicator.
 */
#include <pthread.h>
#include <stdint.h>

#include "dropin/tally.h"
#include "jax/symtuner_ffi.h"
#include "test/dropin/play/play.h"

enum { GPUS = 2 };

static struct nccl n;
static const char *path; /* the path KERNELS */
static __typeof__(symtuner_ffi_load) *load;
static __typeof__(symtuner_ffi_unique_id) *unique_id;
static __typeof__(symtuner_ffi_open_comm) *open_comm;
static __typeof__(symtuner_ffi_open_local) *open_local;
static __typeof__(symtuner_ffi_open_xla) *open_xla;
static __typeof__(symtuner_ffi_admit) *admit;
static __typeof__(symtuner_ffi_close) *close_all;
static char why[256];

static void find(const char *library)
{
    void *ffi = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (!ffi)
        fprintf(stderr, "%s\n", dlerror());
    MUST(ffi);
    *(void **)&load = dlsym(ffi, "symtuner_ffi_load");
    *(void **)&unique_id = dlsym(ffi, "symtuner_ffi_unique_id");
    *(void **)&open_comm = dlsym(ffi, "symtuner_ffi_open_comm");
    *(void **)&open_local = dlsym(ffi, "symtuner_ffi_open_local");
    *(void **)&open_xla = dlsym(ffi, "symtuner_ffi_open_xla");
    *(void **)&admit = dlsym(ffi, "symtuner_ffi_admit");
    *(void **)&close_all = dlsym(ffi, "symtuner_ffi_close");
}

static void load_jax(void)
{
    if (load(path, why, sizeof why) != 0)
        fprintf(stderr, "%s\n", why);
    MUST(load(path, why, sizeof why) == 0);
}

/* ---- JAX's groups ---------------------------------------------------------------------------- */

static char id[128];
static pthread_barrier_t all;
/* protects ${why}, because the ranks that open a group are threads */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void meet(void)
{
    pthread_barrier_wait(&all);
}

/* Open a group across processes as one of its ranks. In this test threads stand for the
 * processes. */
static void *open_rank(void *rank)
{
    static const int64_t ids[GPUS] = {5, 7};
    int me = (int)(intptr_t)rank;
    void *ticket = NULL;
    char wrong[256];

    if (open_comm(ids, GPUS, me, me, id, 1000, &ticket, wrong, sizeof wrong) != 0) {
        pthread_mutex_lock(&lock);
        snprintf(why, sizeof why, "%s", wrong);
        pthread_mutex_unlock(&lock);
        return (void *)1;
    }
    MUST(admit(&ticket, wrong, sizeof wrong) == 0);
    return NULL;
}

/* Open a group across processes. Returns whether all ranks could. */
static bool opens_across(void)
{
    pthread_t thread[GPUS];
    bool fine = true;

    MUST(unique_id(id, why, sizeof why) == 0);
    n.record->wait = meet; /* as in NCCL, no rank gets a communicator before all ranks have come */
    for (int i = 0; i < GPUS; i++)
        MUST(pthread_create(&thread[i], NULL, open_rank, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < GPUS; i++) {
        void *bad;

        MUST(pthread_join(thread[i], &bad) == 0);
        fine &= bad == NULL;
    }
    n.record->wait = NULL;
    return fine;
}

static bool opens_local(int64_t first)
{
    static const int gpus[GPUS] = {0, 1};
    const int64_t ids[GPUS] = {first, first + 1};

    return open_local(ids, gpus, GPUS, 1000, why, sizeof why) == 0;
}

/* ---- the program's communicators ------------------------------------------------------------- */

/* Make a communicator, and return how many handles the drop-in has made for it. */
static int make(void **comm)
{
    int before = kernels() ? (int)kernels()->handles : 0;

    MUST(n.f.CommInitAll(comm, GPUS, NULL) == 0);
    return kernels() ? (int)kernels()->handles - before : 0;
}

static void end(void **comm)
{
    for (int i = 0; i < GPUS; i++)
        MUST(n.f.CommDestroy(comm[i]) == 0);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* JAX's library makes a communicator for a group. That communicator gets only the handles that
 * JAX's library creates, not handles of the drop-in, too, and its scratch is registered once. */
static void once(void)
{
    load_jax();
    MUST(opens_across());
    MUST(kernels()->handles == GPUS);
    SAID(kernels(), "create:1 create:1 ");
    /* our kernels made these calls to NCCL */
    SAID(n.record, "AllGather:1 WindowRegister:4096 AllGather:1 WindowRegister:4096 ");
    MUST(close_all(why, sizeof why) == 0);
    SAID(kernels(), "destroy:1 destroy:1 ");
    SAID(n.record, "Destroy Destroy ");
}

/* Check symtuner_nccl_slot: it gives a slot for counters only if counters are wanted, and only to a
 * library that has the same version of the slot's layout. */
static void check_slot(void)
{
    void *(*slot)(int, int, int);

    *(void **)&slot = dlsym(RTLD_DEFAULT, "symtuner_nccl_slot");
    MUST(slot && !slot(ST_TALLY_VERSION + 1, 0, GPUS) && !slot(ST_TALLY_VERSION - 1, 0, GPUS));
    MUST(!slot(ST_TALLY_VERSION, 0, GPUS) == !getenv(ST_TALLY_VARIABLE));
}

/* On each GPU two communicators may have handles. All groups of JAX together count as one of
 * them. */
static void first(void)
{
    void *one[GPUS], *two[GPUS];

    load_jax();
    MUST(opens_across());
    MUST(kernels()->max_ctas == 0);
    MUST(opens_local(10) && opens_local(20)); /* further groups of JAX do not count */
    MUST(make(one) == GPUS);
    MUST(make(two) == 0);
    end(one);
    end(two);
    MUST(make(one) == GPUS);
    end(one);
}

/* As soon as JAX's library is loaded, the drop-in lets the program's communicators have one handle
 * less on each GPU. */
static void kept(void)
{
    void *one[GPUS], *two[GPUS];

    load_jax();
    MUST(make(one) == GPUS);
    MUST(kernels()->max_ctas == 96);
    MUST(make(two) == 0);
    MUST(opens_local(10));
    MUST(kernels()->max_ctas == 0);
    MUST(opens_across());
    MUST(kernels()->max_ctas == 0);
    check_slot();
}

/* If communicators already have as many handles as a GPU may have, JAX opens no group there. */
static void late(void)
{
    static const int64_t ids[GPUS] = {5, 7};
    void *one[GPUS], *two[GPUS], *ticket = NULL;

    MUST(make(one) == GPUS);
    MUST(make(two) == GPUS);
    load_jax();
    MUST(!opens_across());
    MUST(strstr(why, "SYMTUNER_MAX_COMMS"));
    MUST(!opens_local(10));
    MUST(open_xla(ids, GPUS, 0, 0, 1000, &ticket, why, sizeof why) != 0);
    MUST(kernels()->handles == 2 * GPUS);
    end(one);
    MUST(make(one) == 0); /* the place that became free is now JAX's */
    MUST(opens_local(10));
    MUST(opens_across());
    MUST(kernels()->handles == 3 * GPUS);
}

/* If a communicator came first, its calls may have all blocks, and calls of JAX's groups leave room
 * for NCCL. */
static void second(void)
{
    void *one[GPUS];

    MUST(make(one) == GPUS);
    MUST(kernels()->max_ctas == 0);
    load_jax();
    MUST(opens_across());
    MUST(kernels()->max_ctas == 96);
    kernels()->max_ctas = 0;
    MUST(opens_local(10));
    MUST(kernels()->max_ctas == 96);
    end(one);
    MUST(opens_local(20));
    MUST(kernels()->max_ctas == 0);
}

/* With SYMTUNER_MAX_COMMS=0 or 1 JAX opens its groups, and no communicator gets a handle. */
static void alone(void)
{
    void *one[GPUS];

    load_jax();
    MUST(opens_local(10));
    MUST(make(one) == 0);
    MUST(opens_across());
}

int main(int argc, char **argv)
{
    static const struct play_case cases[] = {{"once", once}, {"first", first},   {"kept", kept},
                                             {"late", late}, {"second", second}, {"alone", alone}};

    MUST(argc == 4);
    nccl_linked(&n);
    dlopen("libcuda.so.1", RTLD_NOW);
    find(argv[2]);
    MUST(pthread_barrier_init(&all, NULL, GPUS) == 0);
    path = argv[3];
    return play_case(cases, sizeof cases / sizeof *cases, argv[1]);
}

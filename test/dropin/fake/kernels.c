/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - a libsymtuner_ar.so that only records its calls.
 *
 * Like the real library, it calls NCCL while it makes and frees handles. It looks for NCCL's
 * functions in the library that symtuner_ar_use_nccl was given. If it was given none, it calls the
 * drop-in's dlsym to search all libraries. Messages of record.nccl_from bytes or more go to NCCL.
 * With WHY in the environment all messages go to NCCL, for the reason WHY. With BOX the ranks are
 * on two boxes, and with APART each box has one rank. JAX's library sets config.one_stream, and the
 * drop-in does not.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "dropin/kernels.h"
#include "test/dropin/fake/record.h"

#define EXPORT __attribute__((visibility("default")))

struct symtuner_ar {
    void *comm;
    int aborted;
    int used; /* number of calls and aborts that have begun and not returned */
    struct {
        const void *window; /* NULL: this element is free */
        const char *base;
        size_t bytes;
    } windows[8];
};

static struct record record = {.lock = PTHREAD_MUTEX_INITIALIZER, .nccl_from = 1 << 20};

EXPORT struct record *fake_kernels(void);
EXPORT struct record *fake_kernels(void)
{
    return &record;
}

/* SLOW=N: loading this library takes N seconds, as from a slow file system. */
__attribute__((constructor)) static void load(void)
{
    const char *slow = getenv("SLOW");

    sleep(slow ? (unsigned)atoi(slow) : 0);
}

/* Return the library that symtuner_ar_use_nccl was given first, or NULL. */
static void *chosen(void)
{
    return __atomic_load_n(&record.nccl, __ATOMIC_ACQUIRE);
}

/* The real library may call the loader here. With ASKS=NAME the fake opens the library NAME. */
int symtuner_ar_use_nccl(void *library)
{
    void *none = NULL;

    if (getenv("ASKS"))
        dlopen(getenv("ASKS"), RTLD_LAZY | RTLD_NOLOAD);
    __atomic_compare_exchange_n(&record.nccl, &none, library, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return chosen() == library ? 0 : 5;
}

/* Call NCCL as the real library does. If the drop-in intercepted this call, the program would
 * hang. */
static void call_nccl(void *comm)
{
    int (*gather)(const void *, void *, size_t, int, void *, void *);
    int (*window)(void *, void *, size_t, void **, int);
    void *made;

    *(void **)&gather = dlsym(chosen() ? chosen() : RTLD_DEFAULT, "ncclAllGather");
    *(void **)&window = dlsym(chosen() ? chosen() : RTLD_DEFAULT, "ncclCommWindowRegister");
    gather(&record, &record, 1, 0, comm, NULL);
    window(comm, &record, 4096, &made, 1);
}

int symtuner_ar_create(struct symtuner_ar **handles, void *const *comms, int n,
                       const struct symtuner_ar_config *config)
{
    record_add(&record, config && config->max_ctas < 0 ? "refuse:%d " : "create:%d ", n);
    /* for a negative max_ctas, the library fails on all ranks */
    if (config && config->max_ctas < 0)
        return 4;
    if (config && !config->one_stream && config->beside != SYMTUNER_AR_UNKNOWN)
        /* the drop-in does not know what runs beside the calls, so it must not set this member */
        return 5;
    __atomic_store_n(&record.limit_ms, config ? config->timeout_ms : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&record.max_ctas, config ? config->max_ctas : 0, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++)
        call_nccl(comms[i]);
    if (record.create || __atomic_exchange_n(&record.create_once, 0, __ATOMIC_RELAXED))
        return 6;
    for (int i = 0; i < n; i++) {
        handles[i] = calloc(1, sizeof **handles);
        handles[i]->comm = comms[i];
        __atomic_add_fetch(&record.handles, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

int symtuner_ar_create_local(struct symtuner_ar **handles, const int *devices, int n,
                             const struct symtuner_ar_config *config)
{
    (void)devices;
    record_add(&record, "create_local:%d ", n);
    __atomic_store_n(&record.max_ctas, config ? config->max_ctas : 0, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++)
        handles[i] = calloc(1, sizeof **handles);
    __atomic_add_fetch(&record.handles, n, __ATOMIC_RELAXED);
    return 0;
}

int symtuner_ar_reserve(struct symtuner_ar **handles, int n, size_t bytes)
{
    (void)handles, (void)n, (void)bytes;
    return 0;
}

static int made_op = -1; /* the number of the operator that exists; -1: none exists */

int symtuner_ar_op_create_premul_sum(int *op, void *scalar, int dtype, int residence,
                                     struct symtuner_ar *handle)
{
    int (*create)(int *, void *, int, int, void *);
    int result;

    *(void **)&create = dlsym(chosen(), "ncclRedOpCreatePreMulSum");
    result = create(op, scalar, dtype, residence, handle->comm);
    record_add(&record, "op_create ");
    made_op = *op;
    return result;
}

int symtuner_ar_op_destroy(int op, struct symtuner_ar *handle)
{
    int (*destroy)(int, void *);

    record_add(&record, "op_destroy ");
    if (op != made_op)
        return 4;
    made_op = -1;
    *(void **)&destroy = dlsym(chosen(), "ncclRedOpDestroy");
    return destroy(op, handle->comm);
}

/* If record.stuck is set, wait as for a kernel of ours that waits for a lost rank. */
static void wait_for_kernel(struct symtuner_ar *handle)
{
    int ms = 0;

    __atomic_add_fetch(&record.waiting, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&record.stuck, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&handle->aborted, __ATOMIC_RELAXED) && ms++ < 10000)
        usleep(1000);
    __atomic_sub_fetch(&record.waiting, 1, __ATOMIC_RELAXED);
    if (ms > 10000)
        record_add(&record, "late ");
}

int symtuner_ar_synchronize(struct symtuner_ar *handle)
{
    __atomic_add_fetch(&handle->used, 1, __ATOMIC_RELAXED);
    wait_for_kernel(handle);
    __atomic_sub_fetch(&handle->used, 1, __ATOMIC_RELAXED);
    return 0;
}

static int end(struct symtuner_ar **handles, int n)
{
    for (int i = 0; i < n; i++) {
        if (__atomic_load_n(&handles[i]->used, __ATOMIC_RELAXED))
            abort();
        __atomic_sub_fetch(&record.aborted, handles[i]->aborted, __ATOMIC_RELAXED);
        free(handles[i]);
        handles[i] = NULL;
        __atomic_sub_fetch(&record.handles, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

int symtuner_ar_destroy(struct symtuner_ar **handles, int n)
{
    for (int i = 0; i < n; i++)
        wait_for_kernel(handles[i]);
    record_add(&record, "destroy:%d ", n);
    return end(handles, n);
}

int symtuner_ar_discard(struct symtuner_ar **handles, int n)
{
    for (int i = 0; i < n; i++)
        if (!handles[i]->aborted)
            abort();
    record_add(&record, "discard:%d ", n);
    return end(handles, n);
}

int symtuner_ar_register(struct symtuner_ar **handles, void *const *buffers, void *const *windows,
                         int n, size_t bytes)
{
    record_add(&record, "register:%dx%zu ", n, bytes);
    if (record.registers)
        record.registers(handles[0]->comm);
    for (int i = 0; i < n; i++) {
        struct symtuner_ar *h = handles[i];
        int place = 0;

        while (place < 7 && h->windows[place].window)
            place++;
        h->windows[place].window = windows[i];
        h->windows[place].base = buffers[i];
        h->windows[place].bytes = bytes;
    }
    return 0;
}

int symtuner_ar_deregister_window(struct symtuner_ar *h, void *window)
{
    for (int i = 0; i < 8; i++) {
        if (!window || h->windows[i].window != window)
            continue;
        record_add(&record, "deregister:%zu ", h->windows[i].bytes);
        h->windows[i].window = NULL;
        return 0;
    }
    return 5;
}

int symtuner_ar_registered(const struct symtuner_ar *h, const void *p, size_t bytes)
{
    bool found = false;

    for (int i = 0; i < 8; i++)
        found |= h->windows[i].window && (const char *)p >= h->windows[i].base &&
                 (const char *)p + bytes <= h->windows[i].base + h->windows[i].bytes;
    return found && !record.stages;
}

static int run(const char *name, size_t count, struct symtuner_ar *handle, void *stream)
{
    int result;

    __atomic_add_fetch(&handle->used, 1, __ATOMIC_RELAXED);
    if (record.launch)
        record.launch(handle->comm, stream);
    __atomic_add_fetch(&record.collectives, 1, __ATOMIC_RELAXED);
    record_add(&record, "%s:%zu ", name, count);
    result = __atomic_load_n(&handle->aborted, __ATOMIC_RELAXED)
                 ? 5
                 : __atomic_exchange_n(&record.fail, 0, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&handle->used, 1, __ATOMIC_RELAXED);
    return result;
}

int symtuner_ar_all_reduce(const void *send, void *recv, size_t count, int dtype, int op,
                           struct symtuner_ar *handle, void *stream)
{
    sum_of_two(send, recv, count, dtype, op);
    if (record.wrong)
        *(float *)recv += 0.5f;
    return run("all_reduce", count, handle, stream);
}

int symtuner_ar_all_reduce_at(const void *const *sends, void *const *recvs, size_t count, int dtype,
                              int op, struct symtuner_ar *handle, void *stream)
{
    (void)sends, (void)recvs, (void)dtype, (void)op;
    return run("all_reduce_at", count, handle, stream);
}

int symtuner_ar_decide(int coll, const void *send, const void *recv, size_t count, int dtype,
                       int op, struct symtuner_ar *handle, int *nccl)
{
    (void)coll, (void)send, (void)recv, (void)dtype, (void)op, (void)handle;
    record_add(&record, "decide:%zu ", count);
    *nccl = record.gives;
    return 0;
}

uint32_t symtuner_ar_waits(const struct symtuner_ar *handle)
{
    (void)handle;
    return 0;
}

size_t symtuner_ar_describe(struct symtuner_ar *handle, char *text, size_t size)
{
    (void)handle;
    return (size_t)snprintf(text, size, "the fake kernels");
}

int symtuner_ar_reduce_scatter(const void *send, void *recv, size_t count, int dtype, int op,
                               struct symtuner_ar *handle, void *stream)
{
    sum_of_two(send, recv, count, dtype, op);
    return run("reduce_scatter", count, handle, stream);
}

int symtuner_ar_all_gather(const void *send, void *recv, size_t count, int dtype,
                           struct symtuner_ar *handle, void *stream)
{
    gather_of_two(send, recv, count, dtype);
    return run("all_gather", count, handle, stream);
}

static int answer(int coll, size_t count, int op, struct symtuner_ar_plan *plan)
{
    plan->kernel = count * 4 >= record.nccl_from || ((int)op > 4 && (int)op != made_op) ? "nccl"
                   : count == DECIDED                                                   ? "tma_ipc"
                                      : "two_lamport";
    plan->boxes = 0;
    if (getenv("BOX") || getenv("WHY"))
        plan->kernel = "nccl";
    if (getenv("WHY"))
        snprintf(plan->why, sizeof plan->why, "%s", getenv("WHY"));
    if (getenv("APART") || (getenv("BOX") && !getenv("WHY") && coll != SYMTUNER_AR_ALL_REDUCE)) {
        snprintf(plan->why, sizeof plan->why, "the ranks span several nodes");
    } else if (getenv("BOX") && !getenv("WHY")) { /* our kernels run it box by box */
        plan->boxes = 2;
        plan->pieces = 3;
    }
    return plan->size == sizeof *plan ? 0 : 5;
}

int symtuner_ar_query_coll(int coll, const void *send, const void *recv, size_t count, int dtype,
                           int op, struct symtuner_ar *handle, struct symtuner_ar_plan *plan)
{
    (void)send, (void)recv, (void)dtype, (void)handle;
    record_add(&record, "query ");
    return answer(coll, count, op, plan);
}

/* The drop-in calls this once for each new handle. It is not recorded. */
int symtuner_ar_query(const void *send, const void *recv, size_t count, int dtype, int op,
                      struct symtuner_ar *handle, struct symtuner_ar_plan *plan)
{
    (void)send, (void)recv, (void)dtype, (void)handle;
    return answer(SYMTUNER_AR_ALL_REDUCE, count, op, plan);
}

int symtuner_ar_status(struct symtuner_ar *handle)
{
    (void)handle;
    return record.status;
}

int symtuner_ar_abort(struct symtuner_ar *handle)
{
    __atomic_add_fetch(&handle->used, 1, __ATOMIC_RELAXED);
    record_add(&record, "abort ");
    if (__atomic_exchange_n(&handle->aborted, 1, __ATOMIC_RELAXED) == 0)
        __atomic_add_fetch(&record.aborted, 1, __ATOMIC_RELAXED);
    if (record.aborts)
        record.aborts();
    __atomic_sub_fetch(&handle->used, 1, __ATOMIC_RELAXED);
    return 0;
}

const char *symtuner_ar_error(const struct symtuner_ar *handle)
{
    (void)handle;
    return "the fake kernels fail";
}

int symtuner_ar_boxes_asked(void)
{
    return getenv("ASKED") != NULL;
}

int symtuner_ar_followers_wait(int wait)
{
    __atomic_add_fetch(wait ? &record.promises : &record.taken_back, 1, __ATOMIC_RELAXED);
    return 0;
}

int symtuner_ar_separate(void *stream)
{
    record.separated_stream = stream;
    __atomic_add_fetch(&record.separated, 1, __ATOMIC_RELAXED);
    return 0;
}

int symtuner_ar_version(void)
{
    return SYMTUNER_AR_VERSION;
}

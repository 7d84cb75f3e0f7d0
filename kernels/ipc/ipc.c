/* SPDX-License-Identifier: Apache-2.0 */
/* ipc.c - maps buffers of the peers that nobody registered. */
#include "kernels/ipc/ipc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/board.h"
#include "kernels/ipc/allocation.h"
#include "kernels/order/capture.h"

/* What a rank shows to its peers. Only that rank writes here. It sets an entry of ${allocation}
 * before it counts the entry in ${count}. */
struct shown {
    uint64_t process; /* the number of the rank's process, from this_process() */
    int device;
    uint32_t count; /* entries of ${allocation} that are set */
    struct {
        char *base; /* its address in the process ${process} */
        cudaIpcMemHandle_t handle;
    } allocation[AR_IPC_ALLOCATIONS];
};

struct ar_ipc {
    struct shown *board;                          /* shared memory; one entry for each rank */
    struct ar_allocation own[AR_IPC_ALLOCATIONS]; /* [i]: what mine(h)->allocation[i] shows */
    unsigned long long refused; /* id of the latest own allocation that peers cannot map */
    char *peer[AR_IPC_RANKS][AR_IPC_ALLOCATIONS]; /* [r]: rank r's allocations, mapped here */
    int count[AR_IPC_RANKS]; /* [r]: used entries of peer[r]; NULL entries could not be mapped */
    struct ar_ipc_map *map;  /* a copy of ${peer} in GPU memory */
    cudaStream_t stream;     /* copies to ${map} run on this stream */
};

bool ar_ipc_wanted(int asked, const void *memory)
{
    /* XLA's allocator "platform" makes a new allocation for each buffer, so the numbers of
     * allocations would soon be used up. JAX ignores the case of the words. */
    static const struct {
        const char *variable, *word, *who;
    } unfit[] = {
        {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "torch"},
        {"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", "torch"},
        {"PYTORCH_ALLOC_CONF", "expandable_segments:True", "torch"},
        {"PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync", "torch"},
        {"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", "JAX"},
        {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform", "JAX"},
        {"XLA_PYTHON_CLIENT_ALLOCATOR", "vmm", "JAX"},
    };

    for (size_t i = 0; i < sizeof unfit / sizeof unfit[0] && asked; i++) {
        const char *value = getenv(unfit[i].variable);
        char text[AR_WHY];

        if (value == NULL || strcasestr(value, unfit[i].word) == NULL)
            continue;
        snprintf(text, sizeof text,
                 "SYMTUNER_AR_IPC=1 has no effect: other processes cannot map memory that %s "
                 "takes with %s=%s, or not for long",
                 unfit[i].who, unfit[i].variable, unfit[i].word);
        ar_rules_warn(text);
        asked = 0;
    }
    if (asked && memory != NULL && !ar_allocation_can_map(memory)) {
        ar_rules_warn(
            "SYMTUNER_AR_IPC=1 has no effect: other processes cannot map the memory of "
            "this program; docs/reference/unregistered.md says how JAX takes other memory");
        asked = 0;
    }
    return asked != 0;
}

/* Return a number that no other process of this host has, or 0 if that fails. It is made of the
 * process id and the PID namespace, because processes of two containers may have the same id. */
static uint64_t this_process(void)
{
    struct stat space;

    return stat("/proc/self/ns/pid", &space) == 0
               ? (uint64_t)space.st_ino << 32 | (uint32_t)getpid()
               : 0;
}

static struct shown *mine(const symtuner_ar *h)
{
    return &h->ipc->board[h->me];
}

int ar_ipc_open(symtuner_ar *h, const char *name, bool create)
{
    struct ar_ipc *ipc = h->ipc = calloc(1, sizeof *ipc);
    cudaError_t error;
    int cause;

    if (ipc == NULL)
        return ENOMEM;
    cause = st_board_map(name, sizeof *ipc->board * (size_t)h->ranks, create, (void **)&ipc->board);
    if (cause != 0) {
        ipc->board = NULL;
        return cause;
    }
    mine(h)->process = this_process();
    mine(h)->device = h->device;
    if (mine(h)->process == 0)
        return ENOSYS;
    error = cudaSetDevice(h->device);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&ipc->map, sizeof *ipc->map);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&ipc->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(ipc->map, 0, sizeof *ipc->map, ipc->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(ipc->stream); /* kernels on other streams must find zeros */
    cudaGetLastError();
    return error == cudaSuccess ? 0 : ENOMEM;
}

static bool is_here(const symtuner_ar *h, int r)
{
    return h->ipc->board[r].process == mine(h)->process;
}

void ar_ipc_end(symtuner_ar *h)
{
    struct ar_ipc *ipc = h->ipc;

    if (ipc == NULL)
        return;
    for (int r = 0; r < h->ranks && ipc->board != NULL; r++)
        for (int i = 0; i < ipc->count[r] && !is_here(h, r); i++)
            if (ipc->peer[r][i] != NULL)
                cudaIpcCloseMemHandle(ipc->peer[r][i]);
    if (ipc->stream != NULL)
        cudaStreamDestroy(ipc->stream);
    cudaFree(ipc->map);
    cudaGetLastError();
    if (ipc->board != NULL)
        munmap(ipc->board, sizeof *ipc->board * (size_t)h->ranks);
    free(ipc);
    h->ipc = NULL;
}

/* ---- this rank's allocations ----------------------------------------------------------------- */

/* Show an allocation to the peers. Returns its number, or 0 if the peers cannot map it. */
static int show(symtuner_ar *h, const struct ar_allocation *a)
{
    struct shown *s = mine(h);
    const uint32_t n = s->count;

    if (a->id == h->ipc->refused || n == AR_IPC_ALLOCATIONS)
        return 0;
    /* For example, memory of a pool or of torch's expandable segments has no IPC handle. Ask even
     * if all ranks are in this process: other GPUs may not access such memory, although peer access
     * is enabled. */
    if (cudaIpcGetMemHandle(&s->allocation[n].handle, a->base) != cudaSuccess) {
        cudaGetLastError();
        h->ipc->refused = a->id;
        return 0;
    }
    s->allocation[n].base = a->base;
    h->ipc->own[n] = *a;
    __atomic_store_n(&s->count, n + 1, __ATOMIC_RELEASE);
    return (int)n + 1;
}

/* Return the place (kernels/shared/ipc.h) of the buffer of ${bytes} at ${p}, or 0 if peers cannot
 * map that buffer. */
static uint64_t place_of(symtuner_ar *h, const char *p, uint64_t bytes)
{
    struct ar_allocation a;
    int number = 0;

    if ((uintptr_t)p % AR_WORD != 0 || !ar_allocation_find(p, bytes, h->device, &a))
        return 0;
    for (int i = (int)mine(h)->count; i > 0 && number == 0; i--)
        if (h->ipc->own[i - 1].id == a.id)
            number = i;
    if (number == 0)
        number = show(h, &a);
    return number == 0 ? 0 : ar_ipc_place(number, (uint64_t)(p - a.base));
}

/* ---- the peers' allocations ------------------------------------------------------------------ */

/* Map allocation ${i} of rank ${r}. Returns its address here, or NULL if that fails. */
static char *map_one(symtuner_ar *h, int r, int i)
{
    const struct shown *s = &h->ipc->board[r];
    void *at = NULL;
    char text[AR_WHY];
    cudaError_t error;

    if (!is_here(h, r)) {
        error = cudaIpcOpenMemHandle(&at, s->allocation[i].handle, cudaIpcMemLazyEnablePeerAccess);
    } else {
        at = s->allocation[i].base;
        error = s->device == h->device ? cudaSuccess : cudaDeviceEnablePeerAccess(s->device, 0);
        error = error == cudaErrorPeerAccessAlreadyEnabled ? cudaSuccess : error;
    }
    cudaGetLastError();
    if (error == cudaSuccess)
        return at;
    snprintf(text, sizeof text,
             "rank %d cannot map memory of rank %d (%s); calls with it go through scratch", h->me,
             r, cudaGetErrorString(error));
    ar_rules_warn(text);
    return NULL;
}

/* Map the allocations that the peers have shown since the last call. If one cannot be mapped, for
 * example because it was freed meanwhile, its address is NULL, and the next one is tried. */
static void map_new(symtuner_ar *h)
{
    struct ar_ipc *ipc = h->ipc;

    for (int r = 0; r < h->ranks; r++) {
        const int shown = (int)__atomic_load_n(&ipc->board[r].count, __ATOMIC_ACQUIRE);

        for (int *n = &ipc->count[r]; r != h->me && *n < shown; ++*n) {
            char **at = &ipc->peer[r][*n];

            *at = map_one(h, r, *n);
            cudaMemcpyAsync(&ipc->map->base[r][*n], at, sizeof *at, cudaMemcpyHostToDevice,
                            ipc->stream);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- */

/* In an all-gather no peer reads send, and in a reduce-scatter no peer writes recv, so these
 * buffers need no place. */
void ar_ipc_locate(symtuner_ar *h, int coll, uint64_t sent, uint64_t got, struct ar_args *args)
{
    enum cudaStreamCaptureMode mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);

    args->ipc = h->ipc->map;
    args->at_send = coll == AR_ALL_GATHER ? 0 : place_of(h, args->in, sent);
    args->at_recv = coll == AR_REDUCE_SCATTER ? 0 : place_of(h, args->out, got);
    map_new(h);
    ar_capture_mode(mode);
}

int ar_ipc_describe(const symtuner_ar *h, char *text, size_t size)
{
    int peers = 0;

    if (h->ipc == NULL)
        return 0;
    for (int r = 0; r < h->ranks; r++)
        for (int i = 0; i < h->ipc->count[r]; i++)
            peers += h->ipc->peer[r][i] != NULL;
    return snprintf(text, size,
                    "unregistered buffers: %u allocations shown to the peers, %d of theirs mapped; "
                    "%u calls without scratch, %u through it\n",
                    mine(h)->count, peers, __atomic_load_n(&h->mailbox->ipc[1], __ATOMIC_RELAXED),
                    __atomic_load_n(&h->mailbox->ipc[0], __ATOMIC_RELAXED));
}

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
#include "kernels/group/error.h"
#include "kernels/ipc/agree.h"
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

/* With AR_IPC_AUTO a rank shows an allocation to its peers in the USES-th call that uses it. So
 * buffers of a program's first steps, which the program soon frees, stay unmapped. A rank shows at
 * most one byte of PART_OF_MEMORY bytes of its GPU's memory, because cudaFree does not free memory
 * that a peer has mapped. */
enum { USES = 3, PART_OF_MEMORY = 16, CANDIDATE_SETS = 128, CANDIDATE_WAYS = 4 };

/* An allocation that is not shown yet. */
struct candidate {
    unsigned long long id;
    uint64_t call; /* number of the latest call that used it */
    int uses;      /* how many calls have used it */
};

struct ar_ipc {
    struct shown *board;      /* shared memory; one entry for each rank */
    struct ar_ipc_talk *talk; /* lies behind the board; NULL unless the mode is AR_IPC_AUTO */
    struct ar_ipc_past past;  /* this rank's side of ${talk} */
    struct candidate candidate[CANDIDATE_SETS][CANDIDATE_WAYS];
    uint64_t room;                                /* how many bytes this rank may still show */
    struct ar_allocation own[AR_IPC_ALLOCATIONS]; /* [i]: what mine(h)->allocation[i] shows */
    unsigned long long refused; /* id of the latest own allocation that peers cannot map */
    char *peer[AR_IPC_RANKS][AR_IPC_ALLOCATIONS]; /* [r]: rank r's allocations, mapped here */
    int count[AR_IPC_RANKS]; /* [r]: used entries of peer[r]; NULL entries could not be mapped */
    struct ar_ipc_map *map;  /* a copy of ${peer} in GPU memory */
    cudaStream_t stream;     /* copies to ${map} run on this stream */
};

int ar_ipc_wanted(int asked, const void *memory)
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

    for (size_t i = 0; i < sizeof unfit / sizeof unfit[0] && asked != AR_IPC_OFF; i++) {
        const char *value = getenv(unfit[i].variable);
        char text[AR_WHY];

        if (value == NULL || strcasestr(value, unfit[i].word) == NULL)
            continue;
        snprintf(text, sizeof text,
                 "SYMTUNER_AR_IPC=1 has no effect: other processes cannot map memory that %s "
                 "takes with %s=%s, or not for long",
                 unfit[i].who, unfit[i].variable, unfit[i].word);
        if (asked == AR_IPC_ON)
            ar_rules_warn(text);
        asked = AR_IPC_OFF;
    }
    if (asked == AR_IPC_OFF || memory == NULL || ar_allocation_can_map(memory))
        return asked;
    if (asked == AR_IPC_ON)
        ar_rules_warn(
            "SYMTUNER_AR_IPC=1 has no effect: other processes cannot map the memory of "
            "this program; docs/reference/unregistered.md says how JAX takes other memory");
    return AR_IPC_OFF;
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

static size_t board_bytes(const symtuner_ar *h)
{
    return sizeof(struct shown) * (size_t)h->ranks +
           (h->ipc_mode == AR_IPC_AUTO ? ar_ipc_talk_bytes(h->ranks) : 0);
}

int ar_ipc_open(symtuner_ar *h, const char *name, bool create)
{
    struct ar_ipc *ipc = h->ipc = calloc(1, sizeof *ipc);
    cudaError_t error;
    size_t room, total = 0;
    int cause;

    if (ipc == NULL)
        return ENOMEM;
    cause = st_board_map(name, board_bytes(h), create, (void **)&ipc->board);
    if (cause != 0) {
        ipc->board = NULL;
        return cause;
    }
    if (h->ipc_mode == AR_IPC_AUTO)
        ipc->talk = (struct ar_ipc_talk *)(ipc->board + h->ranks);
    mine(h)->process = this_process();
    mine(h)->device = h->device;
    if (mine(h)->process == 0)
        return ENOSYS;
    error = cudaSetDevice(h->device);
    if (error == cudaSuccess)
        error = cudaMemGetInfo(&room, &total);
    ipc->room = total / PART_OF_MEMORY;
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
        munmap(ipc->board, board_bytes(h));
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

/* With AR_IPC_AUTO: count a call that uses ${a}. Return whether this rank may show ${a} now. */
static bool may_show(symtuner_ar *h, const struct ar_allocation *a)
{
    struct ar_ipc *ipc = h->ipc;
    struct candidate *set = ipc->candidate[a->id % CANDIDATE_SETS], *c = set;

    for (int i = 0; i < CANDIDATE_WAYS && c->id != a->id; i++)
        if (set[i].id == a->id || set[i].call < c->call)
            /* after the loop, the entry of ${a}, or else the one that was not used longest */
            c = &set[i];
    if (c->id != a->id)
        *c = (struct candidate){.id = a->id};
    if (c->call != ipc->past.calls + 1)
        c->uses++;
    c->call = ipc->past.calls + 1;
    if (c->uses < USES || a->bytes > ipc->room)
        return false;
    ipc->room -= a->bytes;
    return true;
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
    if (number == 0 && (h->ipc->talk == NULL || may_show(h, &a)))
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
            if (*at != NULL && ipc->talk != NULL)
                ar_ipc_tell_mapped(ipc->talk, h->me, r, *n + 1);
            cudaMemcpyAsync(&ipc->map->base[r][*n], at, sizeof *at, cudaMemcpyHostToDevice,
                            ipc->stream);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- */

/* In an all-gather no peer reads send, and in a reduce-scatter no peer writes recv, so these
 * buffers need no place. */
static bool needs_send(int coll)
{
    return coll != AR_ALL_GATHER;
}

static bool needs_recv(int coll)
{
    return coll != AR_REDUCE_SCATTER;
}

ncclResult_t ar_ipc_agree(symtuner_ar *h, int coll, const char *send, uint64_t sent,
                          const char *recv, uint64_t got, bool *runs)
{
    enum cudaStreamCaptureMode mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    struct ar_ipc_call call = {.needs_send = needs_send(coll),
                               .needs_recv = needs_recv(coll),
                               .bytes = sent > got ? sent : got};
    int decision;

    call.send = call.needs_send ? place_of(h, send, sent) : 0;
    call.recv = call.needs_recv ? place_of(h, recv, got) : 0;
    map_new(h);
    ar_capture_mode(mode);
    decision = ar_ipc_decide(h->ipc->talk, &h->ipc->past, h->me, h->ranks, &call, h->timeout_ns,
                             &h->mailbox->abort);
    *runs = decision > 0;
    return decision >= 0
               ? ncclSuccess
               : ar_fail(h, ncclRemoteError, "another rank is %d calls behind and does not come",
                         AR_IPC_DECISIONS);
}

void ar_ipc_locate(symtuner_ar *h, int coll, uint64_t sent, uint64_t got, struct ar_args *args)
{
    enum cudaStreamCaptureMode mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);

    args->ipc = h->ipc->map;
    args->at_send = needs_send(coll) ? place_of(h, args->in, sent) : 0;
    args->at_recv = needs_recv(coll) ? place_of(h, args->out, got) : 0;
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

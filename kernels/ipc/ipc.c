/* SPDX-License-Identifier: Apache-2.0 */
/* ipc.c - maps those buffers of the peers that nobody registered. */
#include "kernels/ipc/ipc.h"

#include <errno.h>
#include <limits.h>
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
#include "kernels/ipc/post.h"
#include "kernels/ipc/vmm.h"
#include "kernels/order/capture.h"

/* What a rank shows to its peers. Only that rank writes here. It sets an entry of ${allocation}
 * before it counts the entry in ${count}. */
struct shown {
    uint64_t process; /* the number of the rank's process, from this_process() */
    int device;
    struct ar_post_address address; /* where the rank receives descriptors */
    uint32_t count;                 /* entries of ${allocation} that are set */
    struct {
        size_t by_fd; /* 0, or bytes of an allocation that peers map by a file descriptor */
        char *base;   /* its address in the process ${process} */
        cudaIpcMemHandle_t handle;
    } allocation[AR_IPC_ALLOCATIONS];
};

/* An allocation of this rank that it has shown to its peers. */
struct own {
    struct ar_allocation a;
    int fd;        /* its file descriptor; -1: none, or all peers have it */
    unsigned lack; /* bit r: rank r has yet to get ${fd} */
};

/* An allocation of a peer. */
struct mapped {
    char *at;     /* its address here; NULL: not mapped */
    size_t by_fd; /* bytes that a file descriptor maps; 0: ${at} comes without a descriptor */
    bool came;    /* its file descriptor has come */
};

/* With AR_IPC_AUTO a rank shows an allocation to its peers in the USES-th call that uses it. So
 * buffers of a program's first steps, which the program soon frees, stay unmapped. Together the
 * allocations that a rank shows are at most 1 / PART_OF_MEMORY of its GPU's memory, because
 * cudaFree does not free memory that a peer has mapped. */
enum { USES = 3, PART_OF_MEMORY = 16, CANDIDATE_SETS = 128, CANDIDATE_WAYS = 4 };

/* An allocation that this rank has not shown to its peers yet. */
struct candidate {
    unsigned long long id;
    uint64_t call; /* number of the latest call that used it */
    int uses;      /* how many calls have used it */
};

/* What a rank needs with AR_IPC_AUTO. */
struct auto_state {
    struct ar_ipc_talk *talk; /* what all ranks share for decisions; lies right after the board */
    struct ar_ipc_past past;  /* what this rank remembers for decisions */
    struct candidate candidate[CANDIDATE_SETS][CANDIDATE_WAYS];
    uint64_t room; /* bytes of allocations that this rank may still show */
};

struct ar_ipc {
    struct auto_state *automatic;       /* NULL unless the mode is AR_IPC_AUTO */
    struct shown *board;                /* shared memory; one entry for each rank */
    struct own own[AR_IPC_ALLOCATIONS]; /* [i]: the allocation of mine(h)->allocation[i] */
    unsigned long long refused;         /* id of the latest own allocation that peers cannot map */
    struct mapped peer[AR_IPC_RANKS][AR_IPC_ALLOCATIONS]; /* [r]: rank r's allocations */
    int count[AR_IPC_RANKS];                              /* [r]: used entries of peer[r] */
    struct ar_post post;                                  /* sends and receives descriptors */
    int unsent;             /* number of own allocations whose descriptors some peer still lacks */
    int awaited;            /* number of announced descriptors of peers that have not come yet */
    struct ar_ipc_map *map; /* in GPU memory: a copy of the addresses in ${peer} */
    cudaStream_t stream;    /* copies to ${map} run on this stream */
};

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
    for (int i = 0; i < AR_IPC_ALLOCATIONS; i++)
        ipc->own[i].fd = -1;
    ar_post_init(&ipc->post);
    cause = st_board_map(name, board_bytes(h), create, (void **)&ipc->board);
    if (cause != 0) {
        ipc->board = NULL;
        return cause;
    }
    if (h->ipc_mode == AR_IPC_AUTO) {
        ipc->automatic = calloc(1, sizeof *ipc->automatic);
        if (ipc->automatic == NULL)
            return ENOMEM;
        ipc->automatic->talk = (struct ar_ipc_talk *)(ipc->board + h->ranks);
    }
    mine(h)->process = this_process();
    mine(h)->device = h->device;
    if (mine(h)->process == 0)
        return ENOSYS;
    cause = ar_post_open(&ipc->post, &mine(h)->address);
    if (cause != 0)
        return cause;
    error = cudaSetDevice(h->device);
    if (error == cudaSuccess && ipc->automatic != NULL) {
        error = cudaMemGetInfo(&room, &total);
        ipc->automatic->room = total / PART_OF_MEMORY;
    }
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

/* End the mapping of allocation ${i} of rank ${r}. */
static void end_one(symtuner_ar *h, int r, int i)
{
    const struct mapped *m = &h->ipc->peer[r][i];

    if (m->at != NULL && m->by_fd != 0)
        ar_vmm_unmap(m->at, m->by_fd);
    else if (m->at != NULL && !is_here(h, r))
        cudaIpcCloseMemHandle(m->at);
}

void ar_ipc_end(symtuner_ar *h)
{
    struct ar_ipc *ipc = h->ipc;

    if (ipc == NULL)
        return;
    for (int r = 0; r < h->ranks && ipc->board != NULL; r++)
        for (int i = 0; i < AR_IPC_ALLOCATIONS; i++)
            end_one(h, r, i);
    for (int i = 0; i < AR_IPC_ALLOCATIONS; i++) {
        if (ipc->own[i].a.vmm)
            ar_vmm_release(ipc->own[i].a.id);
        if (ipc->own[i].fd >= 0)
            close(ipc->own[i].fd);
    }
    ar_post_close(&ipc->post);
    if (ipc->stream != NULL)
        cudaStreamDestroy(ipc->stream);
    cudaFree(ipc->map);
    cudaGetLastError();
    if (ipc->board != NULL)
        munmap(ipc->board, board_bytes(h));
    free(ipc->automatic);
    free(ipc);
    h->ipc = NULL;
}

/* ---- this rank's allocations ----------------------------------------------------------------- */

/* Send the peers the file descriptors that they do not have yet. If one cannot be sent now, the
 * next call tries again. */
static void send_rest(symtuner_ar *h)
{
    struct ar_ipc *ipc = h->ipc;
    char text[AR_WHY];

    for (int i = 0; i < (int)mine(h)->count && ipc->unsent > 0; i++) {
        struct own *o = &ipc->own[i];

        for (int r = 0; r < h->ranks && o->lack != 0; r++) {
            enum ar_post_sent sent = AR_POST_LATER;

            if ((o->lack >> r & 1) != 0)
                sent = ar_post_send(&ipc->post, h->me, r, &ipc->board[r].address, i, o->fd);
            if (sent == AR_POST_LATER)
                continue;
            o->lack &= ~(1u << r);
            if (sent == AR_POST_NEVER) {
                snprintf(text, sizeof text,
                         "rank %d cannot send rank %d a descriptor of its memory (%s); calls with "
                         "it go through scratch",
                         h->me, r, strerror(errno));
                ar_rules_warn(text);
            }
        }
        if (o->lack == 0 && o->fd >= 0) {
            close(o->fd);
            o->fd = -1;
            ipc->unsent--;
        }
    }
}

/* Get what peers need to map ${o}: a file descriptor in o->fd (then *by_fd is not 0), or a CUDA IPC
 * handle in *handle. Returns false if there is neither. */
static bool get_handle(symtuner_ar *h, struct own *o, size_t *by_fd, cudaIpcMemHandle_t *handle)
{
    *by_fd = 0;
    if (o->a.vmm) {
        o->fd = ar_vmm_export(o->a.base, &o->a.id);
        if (o->fd < 0)
            return false;
        *by_fd = o->a.bytes;
        o->lack = ((1u << h->ranks) - 1) & ~(1u << h->me);
        h->ipc->unsent++;
        return true;
    }
    /* Some memory has no IPC handle, for example that of a pool. Other GPUs cannot reach it even if
     * peer access is enabled. So ask for the handle even if all ranks are in this process. */
    if (cudaIpcGetMemHandle(handle, o->a.base) == cudaSuccess)
        return true;
    cudaGetLastError();
    return false;
}

/* Show an allocation to the peers. Returns its number, or 0 if the peers cannot map it. */
static int show(symtuner_ar *h, const struct ar_allocation *a)
{
    struct shown *s = mine(h);
    const uint32_t n = s->count;
    struct own o = {*a, -1, 0};
    char text[AR_WHY];

    if (a->id == h->ipc->refused || n == AR_IPC_ALLOCATIONS)
        return 0;
    if (!get_handle(h, &o, &s->allocation[n].by_fd, &s->allocation[n].handle)) {
        h->ipc->refused = a->id;
        if (a->vmm && h->ipc->automatic == NULL) {
            snprintf(text, sizeof text,
                     "rank %d gets no descriptor of its memory; calls with it go through scratch",
                     h->me);
            ar_rules_warn(text);
        }
        return 0;
    }
    s->allocation[n].base = a->base;
    h->ipc->own[n] = o;
    __atomic_store_n(&s->count, n + 1, __ATOMIC_RELEASE);
    return (int)n + 1;
}

/* Return whether ${a} and ${b} are one allocation, at one address. Memory of cuMemCreate at two
 * addresses counts as two, because peers get the distance of a buffer from one base address. */
static bool is_same(const struct ar_allocation *a, const struct ar_allocation *b)
{
    return a->id == b->id && a->vmm == b->vmm && a->base == b->base && a->bytes == b->bytes;
}

/* With AR_IPC_AUTO, show ${a} to the peers if enough calls have used it, or if ${decides} is false:
 * then kernel tma_ipc runs the call in any case. Returns its number, or 0 if it is not shown. */
static int show_later(symtuner_ar *h, const struct ar_allocation *a, bool decides)
{
    struct auto_state *s = h->ipc->automatic;
    struct candidate *set = s->candidate[a->id % CANDIDATE_SETS], *c = set;
    int number;

    if (a->vmm)
        return 0; /* only AR_IPC_ON maps by descriptors: on GPUs only test ar_fuzz has done so */
    for (int i = 0; i < CANDIDATE_WAYS && c->id != a->id; i++)
        if (set[i].id == a->id || set[i].call < c->call)
            /* ${c} becomes the entry of ${a}, or else the entry that was not used for longest */
            c = &set[i];
    if (c->id != a->id)
        *c = (struct candidate){.id = a->id};
    if (decides && c->call != s->past.calls + 1)
        c->uses++;
    c->call = s->past.calls + 1;
    if ((decides && c->uses < USES) || (h->force.family < 0 && a->bytes > s->room))
        return 0;
    number = show(h, a);
    if (number != 0)
        s->room -= a->bytes < s->room ? a->bytes : s->room;
    else
        c->uses = INT_MIN; /* peers cannot map it, so do not ask again in each call */
    return number;
}

/* Return where the ${bytes} at ${p} lie, as ar_ipc_place (kernels/shared/ipc.h), or 0 if peers
 * cannot map them. ${decides}: whether kernel tma_ipc or NCCL runs the call is not decided yet. */
static uint64_t place_of(symtuner_ar *h, const char *p, uint64_t bytes, bool decides)
{
    struct ar_allocation a;
    int number = 0;

    if ((uintptr_t)p % AR_WORD != 0 || !ar_allocation_find(p, bytes, h->device, &a))
        return 0;
    for (int i = (int)mine(h)->count; i > 0 && number == 0; i--)
        if (is_same(&h->ipc->own[i - 1].a, &a))
            number = i;
    if (number == 0)
        number = h->ipc->automatic == NULL ? show(h, &a) : show_later(h, &a, decides);
    return number == 0 ? 0 : ar_ipc_place(number, (uint64_t)(p - a.base));
}

/* ---- the peers' allocations ------------------------------------------------------------------ */

static void tell_unmapped(const symtuner_ar *h, int r, const char *why)
{
    char text[AR_WHY];

    if (h->ipc->automatic != NULL)
        return; /* no warning: NCCL runs these calls */
    snprintf(text, sizeof text,
             "rank %d cannot map memory of rank %d (%s); calls with it go through scratch", h->me,
             r, why);
    ar_rules_warn(text);
}

/* Write to this rank's GPU where allocation ${i} of rank ${r} is mapped (NULL: nowhere). With
 * AR_IPC_AUTO, also tell the peers that this rank has mapped it. */
static void tell_mapped(symtuner_ar *h, int r, int i)
{
    const struct mapped *m = &h->ipc->peer[r][i];

    if (m->at != NULL && h->ipc->automatic != NULL)
        ar_ipc_tell_mapped(h->ipc->automatic->talk, h->me, r, i + 1);
    cudaMemcpyAsync(&h->ipc->map->base[r][i], &m->at, sizeof m->at, cudaMemcpyHostToDevice,
                    h->ipc->stream);
}

/* Map allocation ${i} of rank ${r}, which has an IPC handle. If that fails, for example because the
 * allocation was freed meanwhile, its address stays NULL. */
static void map_one(symtuner_ar *h, int r, int i)
{
    const struct shown *s = &h->ipc->board[r];
    void *at = NULL;
    cudaError_t error;

    if (!is_here(h, r)) {
        error = cudaIpcOpenMemHandle(&at, s->allocation[i].handle, cudaIpcMemLazyEnablePeerAccess);
    } else {
        at = s->allocation[i].base;
        error = s->device == h->device ? cudaSuccess : cudaDeviceEnablePeerAccess(s->device, 0);
        error = error == cudaErrorPeerAccessAlreadyEnabled ? cudaSuccess : error;
    }
    cudaGetLastError();
    h->ipc->peer[r][i].at = error == cudaSuccess ? at : NULL;
    if (error != cudaSuccess)
        tell_unmapped(h, r, cudaGetErrorString(error));
    tell_mapped(h, r, i);
}

/* Map the allocation whose descriptor came in ${parcel}. Ignore the parcel if its rank or number is
 * wrong: some other program of this user has sent it. */
static void map_parcel(symtuner_ar *h, const struct ar_parcel *parcel)
{
    struct ar_ipc *ipc = h->ipc;
    const int r = parcel->rank, i = parcel->number;
    struct mapped *m;
    char why[40] = "no room for a file descriptor";
    int error;

    if (r >= h->ranks || r == h->me || i >= AR_IPC_ALLOCATIONS ||
        i >= (int)__atomic_load_n(&ipc->board[r].count, __ATOMIC_ACQUIRE) ||
        ipc->board[r].allocation[i].by_fd == 0 || ipc->peer[r][i].came)
        return;
    m = &ipc->peer[r][i];
    m->came = true;
    ipc->awaited--;
    m->by_fd = ipc->board[r].allocation[i].by_fd;
    if (parcel->fd >= 0) {
        m->at = ar_vmm_map(parcel->fd, m->by_fd, h->device, &error);
        snprintf(why, sizeof why, "error %d of the driver", error);
    }
    if (m->at == NULL)
        tell_unmapped(h, r, why);
    tell_mapped(h, r, i);
}

/* Map the allocations that the peers have shown since the last call, and those whose descriptors
 * have come. */
static void map_new(symtuner_ar *h)
{
    struct ar_ipc *ipc = h->ipc;
    struct ar_parcel parcel;

    for (int r = 0; r < h->ranks; r++) {
        const int shown = (int)__atomic_load_n(&ipc->board[r].count, __ATOMIC_ACQUIRE);

        for (int *n = &ipc->count[r]; r != h->me && *n < shown; ++*n)
            if (ipc->board[r].allocation[*n].by_fd != 0)
                ipc->awaited++;
            else
                map_one(h, r, *n);
    }
    while (ipc->awaited > 0 && ar_post_receive(&ipc->post, &mine(h)->address, &parcel)) {
        map_parcel(h, &parcel);
        if (parcel.fd >= 0)
            close(parcel.fd);
    }
}

static void exchange(symtuner_ar *h)
{
    if (h->ipc->unsent > 0)
        send_rest(h);
    map_new(h);
}

/* ---------------------------------------------------------------------------------------------- */

/* needs_send and needs_recv return whether peers access this rank's send or recv buffer. In an
 * all-gather no peer reads send, and in a reduce-scatter no peer writes recv. */
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

    call.send = call.needs_send ? place_of(h, send, sent, true) : 0;
    call.recv = call.needs_recv ? place_of(h, recv, got, true) : 0;
    exchange(h);
    ar_capture_mode(mode);
    decision = ar_ipc_decide(h->ipc->automatic->talk, &h->ipc->automatic->past, h->me, h->ranks,
                             &call, h->timeout_ns, &h->mailbox->abort);
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
    args->at_send = needs_send(coll) ? place_of(h, args->in, sent, false) : 0;
    args->at_recv = needs_recv(coll) ? place_of(h, args->out, got, false) : 0;
    exchange(h);
    ar_capture_mode(mode);
}

int ar_ipc_describe(const symtuner_ar *h, char *text, size_t size)
{
    int peers = 0;

    if (h->ipc == NULL)
        return 0;
    for (int r = 0; r < h->ranks; r++)
        for (int i = 0; i < AR_IPC_ALLOCATIONS; i++)
            peers += h->ipc->peer[r][i].at != NULL;
    return snprintf(text, size,
                    "unregistered buffers: %u allocations shown to the peers, %d of theirs mapped; "
                    "%u calls without scratch, %u through it\n",
                    mine(h)->count, peers, __atomic_load_n(&h->mailbox->ipc[1], __ATOMIC_RELAXED),
                    __atomic_load_n(&h->mailbox->ipc[0], __ATOMIC_RELAXED));
}

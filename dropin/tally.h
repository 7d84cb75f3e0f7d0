/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally.h - a file in which the processes of one job count their NCCL calls, and the calls of the
 * "JAX route": the calls that JAX programs make to our kernels through libsymtuner_ffi.so.
 *
 * `symtuner run` creates the file and names it in SYMTUNER_RUN_FILE. A process claims a slot of its
 * own in the file when it makes an NCCL communicator under libsymtuner_nccl.so, or opens a group of
 * ranks for the JAX route (jax/library.c). If it does both, it has one slot for both. The counters
 * of the process are in its slot. Every process maps the file, so the counts are in the file even
 * after SIGKILL. A forked child has no slot until it makes a communicator or opens a group itself.
 *
 * Units      bytes are the size of the larger buffer of a call: count x element size, and for
 *            reduce-scatter and all-gather this times the number of ranks. A process that drives
 *            several ranks counts each rank's call. A captured call counts once, however often its
 *            graph runs.
 * Threads    any thread of any process may add and read at any time; the additions are atomic and
 *            relaxed. A reader sees calls and bytes of one cell at slightly different times.
 * Ownership  st_tally_close unmaps what st_tally_create and st_tally_open mapped. Whoever created
 *            the file removes it.
 */
#ifndef ST_TALLY_H_
#define ST_TALLY_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ST_TALLY_VARIABLE "SYMTUNER_RUN_FILE"
#define ST_TALLY_MAGIC    UINT64_C(0x796c6c6174747973) /* the bytes "syttally" */

enum { ST_TALLY_VERSION = 11, ST_TALLY_SLOTS = 64, ST_TALLY_SIZES = 48 };

/* The NCCL functions that are counted: X(NAME in ST_TALLY_NAME, name in SYMTUNER_ONLY and in rules,
 * NCCL's name). The last row stands for all other functions of dropin/entry/known.h. */
#define ST_TALLY_COLL_MAP(X)                                                                       \
    X(ALL_REDUCE, "allreduce", "ncclAllReduce")                                                    \
    X(REDUCE_SCATTER, "reducescatter", "ncclReduceScatter")                                        \
    X(ALL_GATHER, "allgather", "ncclAllGather")                                                    \
    X(BROADCAST, "broadcast", "ncclBroadcast")                                                     \
    X(REDUCE, "reduce", "ncclReduce")                                                              \
    X(SEND, "send", "ncclSend")                                                                    \
    X(RECV, "recv", "ncclRecv")                                                                    \
    X(OTHER, "other", "other NCCL calls")

/* X(NAME in ST_WHY_NAME, text). The first row stands for calls that our kernels run. Each other row
 * is a reason why NCCL runs a call. The reasons from OBSERVE to UNFOLLOWED, and SHARED_GPU, are
 * true of all calls of a communicator, and BOXES may be. So communicators are counted by reason,
 * too. Add new rows at the end, and raise ST_TALLY_VERSION. */
#define ST_TALLY_WHY_MAP(X)                                                                        \
    X(OURS, "our kernels")                                                                         \
    X(OBSERVE, "SYMTUNER_MODE is observe")                                                         \
    X(SETTINGS, "a SYMTUNER_ variable has a wrong value")                                          \
    X(OLD_NCCL, "this NCCL is older than 2.28.3")                                                  \
    X(NO_KERNELS, "libsymtuner_ar.so could not be loaded")                                         \
    X(OTHER_NCCL, "the kernels serve another NCCL of this process")                                \
    X(NONBLOCKING, "the communicator is non-blocking")                                             \
    X(ONE_RANK, "the communicator has one rank")                                                   \
    X(NOT_ONE_BOX, "the communicator has more ranks than this box has GPUs")                       \
    X(MISSING, "not all ranks have the drop-in, or not with the same settings")                    \
    X(CREATE, "the kernels cannot run between these GPUs")                                         \
    X(COMMS, "the GPU has too many communicators")                                                 \
    X(UNFOLLOWED, "the communicator was made by a call that the drop-in does not follow")          \
    X(ONLY, "SYMTUNER_ONLY leaves this collective out")                                            \
    X(COLLECTIVE, "there is no kernel for this collective")                                        \
    X(OPERATOR, "there is no kernel for this operator or type")                                    \
    X(SLOWER, "the kernels' table gives the call to NCCL (SYMTUNER_AR_BESIDE)")                    \
    X(GROUP, "the group has more collectives of this communicator")                                \
    X(ARGUMENTS, "an argument is wrong or unusual")                                                \
    X(FAILED, "a kernel failed or the communicator was aborted")                                   \
    X(MISMATCH, "a verified call had another result than NCCL's")                                  \
    X(EMPTY, "the call has no elements")                                                           \
    X(BOXES,                                                                                       \
      "the communicator spans several boxes, where NCCL alone runs such calls or is faster")       \
    X(RULE, "a rule gives the call to NCCL")                                                       \
    X(UNMAPPED, "not all ranks have mapped the buffers (SYMTUNER_AR_IPC=auto)")                    \
    X(SHARED_GPU, "several ranks of the communicator are on one GPU")

enum st_tally_coll {
#define X(name, word, function) ST_TALLY_##name,
    ST_TALLY_COLL_MAP(X)
#undef X
        ST_TALLY_COLLS
};

enum st_tally_why {
#define X(name, text) ST_WHY_##name,
    ST_TALLY_WHY_MAP(X)
#undef X
        ST_WHYS
};

struct st_tally_cell {
    _Atomic uint64_t calls, bytes;
};

/* The counters of one process. A slot whose ${pid} is 0 belongs to no process yet. */
struct st_tally_slot {
    _Atomic int32_t pid;
    _Atomic int32_t nccl;        /* NCCL release of the first communicator, as 22809; 0: none */
    char program[64];            /* name of the program, without its folder           */
    char library[192];           /* path of the file from which that NCCL was loaded   */
    char note[256];              /* the first warning of the drop-in; empty: none     */
    _Atomic uint32_t noted;      /* 0: ${note} is empty; 1: it is being written; 2: it is written */
    _Atomic int32_t rank, ranks; /* rank in the first communicator or JAX group, and its size */
    _Atomic uint32_t unused;
    /* comms[ST_WHY_OURS]: how many communicators have a handle of our kernels. comms[why]: how many
     * have none for this reason, so that NCCL runs all their calls. */
    _Atomic uint64_t comms[ST_WHYS];
    _Atomic uint64_t verified; /* calls that ran by both our kernels and NCCL (SYMTUNER_VERIFY) */
    _Atomic uint64_t differed; /* how many of these calls had different results */
    _Atomic uint64_t captured; /* calls by our kernels that went into a CUDA graph       */
    _Atomic uint64_t by_boxes; /* calls by our kernels that were added up box by box     */
    _Atomic uint64_t pieces;   /* the pieces of all calls in ${by_boxes}                 */
    _Atomic uint64_t tma_ipc;  /* calls that our kernel tma_ipc ran                      */
    /* Calls of the JAX route. ${jax}: our kernels ran them. ${jax_nccl}: libsymtuner_ar.so gave
     * them to NCCL. If a call of ${jax_nccl} reaches NCCL through the drop-in, it counts in
     * ${call}, too. When XLA records a CUDA graph, each call in it counts, once for each
     * recording. */
    struct st_tally_cell jax, jax_nccl;
    _Atomic uint64_t jax_captured; /* calls in ${jax} that went into a CUDA graph         */
    _Atomic uint64_t jax_groups;   /* how often the JAX route has opened a group          */
    struct st_tally_cell call[ST_TALLY_COLLS][ST_WHYS];
    /* cli/run/times.h has times of all-reduces by our kernels that we measured on some boxes. Here
     * we count the calls for which these times are valid: sums of f32 or bf16, without rules or a
     * limit of CTAs, and not by kernel tma_ipc. Their communicator has ${ranks} ranks, all on this
     * box, and their buffers lie in no window. timed[captured][b] counts the calls of 2^b to
     * 2^(b+1) - 1 bytes; ${captured} is 1 for calls that went into a CUDA graph. */
    _Atomic uint64_t timed[2][ST_TALLY_SIZES];
};

/* The whole file. */
struct st_tally {
    uint64_t magic;
    uint32_t version, slots;
    uint64_t slot_size;
    _Atomic uint32_t claimed; /* slots in use; ${slots} + 1 if a process found no free slot */
    uint32_t unused;
    struct st_tally_slot slot[];
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes");

/*
 * st_tally_create(path, error, size):
 * Make the file, which must not exist yet, with room for ST_TALLY_SLOTS processes. Only this user
 * may read and write it. All disk space is reserved now. Otherwise the disk could be full later,
 * and adding to a counter would end the process with SIGBUS. Returns NULL, with the reason in
 * ${error}, on failure.
 */
struct st_tally *st_tally_create(const char *path, char *error, size_t size);

/* Map a file that st_tally_create has made. Returns NULL, with the reason in ${error}, if the file
 * is of another kind, of another user, or of another version of symtuner. */
struct st_tally *st_tally_open(const char *path, char *error, size_t size);
void st_tally_close(struct st_tally *tally);

/* Return a slot for this process, or NULL if none is left. Call this once per process. */
struct st_tally_slot *st_tally_claim(struct st_tally *tally, const char *program);

/* Return how many slots are in use. */
int st_tally_used(const struct st_tally *tally);

/* Keep ${text} as the slot's note, if the slot has no note yet. */
void st_tally_note(struct st_tally_slot *slot, const char *text);
/* Return the slot's note, "" if there is none. */
const char *st_tally_noted(const struct st_tally_slot *slot);

const char *st_tally_coll_word(int coll); /* "allreduce"     */
const char *st_tally_coll_name(int coll); /* "ncclAllReduce" */
const char *st_tally_why_text(int why);
/* Write the name that this reason has in ledgers, such as "not-one-box", into ${word}, and return
 * ${word}. */
enum { ST_TALLY_WORD = 16 };
const char *st_tally_why_word(int why, char word[ST_TALLY_WORD]);
/* Return the reason with this name, or -1. */
int st_tally_why_parse(const char *word);

/* Count a call in one cell. */
static inline void st_tally_put(struct st_tally_cell *cell, uint64_t bytes)
{
    atomic_fetch_add_explicit(&cell->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&cell->bytes, bytes, memory_order_relaxed);
}

/* Count a call. Does nothing if ${slot} is NULL. */
static inline void st_tally_count(struct st_tally_slot *slot, enum st_tally_coll coll,
                                  enum st_tally_why why, uint64_t bytes)
{
    if (slot)
        st_tally_put(&slot->call[coll][why], bytes);
}

/* Are the times of cli/run/times.h valid for calls with these properties (see ${timed} above)?
 * ${dtype} and ${op} are NCCL's numbers. */
static inline bool st_tally_is_timed(enum st_tally_coll coll, int dtype, int op)
{
    enum { SUM = 0, F32 = 7, BF16 = 9 };

    return coll == ST_TALLY_ALL_REDUCE && op == SUM && (dtype == F32 || dtype == BF16);
}

static inline void st_tally_time(struct st_tally_slot *slot, bool captured, uint64_t bytes)
{
    int size = 63 - __builtin_clzll(bytes | 1);

    atomic_fetch_add_explicit(
        &slot->timed[captured][size < ST_TALLY_SIZES ? size : ST_TALLY_SIZES - 1], 1,
        memory_order_relaxed);
}

static inline void st_tally_add(struct st_tally_slot *slot, _Atomic uint64_t *counter)
{
    if (slot)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

#endif

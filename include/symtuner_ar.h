/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtuner_ar.h - an all-reduce for GPUs that can reach each other's memory.
 *
 * The library sums (or averages, multiplies, takes the minimum or maximum of) one buffer per rank
 * over all ranks of one node, with kernels that write straight into the peers' memory. Everything
 * is "the same call on every rank": count, dtype, op and the order of calls must agree, as in NCCL.
 *
 * Units      counts are elements, sizes are bytes, times name their unit.
 * Ownership  a handle owns its scratch memory, never the caller's buffers. The communicator that a
 *            handle was made from must outlive the handle.
 * Threads    one handle belongs to one thread at a time. Different handles are independent.
 * Streams    calls on one handle run one after the other. When the stream changes between two calls
 *            the library makes the new stream wait for the old one, by an event behind every call.
 *            A caller that has one stream for the eager calls of a handle, captures none of its
 *            calls on that stream, and has a thread for each GPU, may set config.one_stream: then
 *            no events are recorded but in captures, which take place on other streams. Should an
 *            eager call come on another stream all the same, it waits on the host until the GPU is
 *            idle, and from then on there are events. Graphs that hold calls of the same handle
 *            must not run at the same time. Such use is an error as soon as two kernels of the
 *            handle are seen to run at once; a second graph that starts while the last blocks of
 *            the first one end may not be seen, and its bytes may then be wrong.
 * Blocks     a call waits on the GPU for the peers, and its blocks keep their multiprocessors while
 *            they do. A call never takes all: by default all but four, in multiples of 4 (128 of
 *            132). So two handles may be started in different order by two ranks, on streams of
 *            their own: the second call's blocks run by and by. Of k handles that may all wait at
 *            once, each may take (multiprocessors - 1) / (k - 1): config.max_ctas. Ranks of a local
 *            group that share a GPU share half of it.
 * Devices    a stream is one of the handle's GPU. Which GPU is current does not matter, and no
 *            function changes that.
 * Graphs     every call may be captured. Counters live on the device, so replays may be repeated,
 *            interleaved with other graphs and with eager calls, in the same order on every rank.
 *            A graph, its clones and its executables keep what their calls need, whatever is
 *            destroyed before them: a local group stays, and its graphs work; of a handle that was
 *            made from a communicator the counters stay, and a replay after symtuner_ar_destroy is
 *            a launch failure, which ends the CUDA context, before anything is written. The
 *            caller's buffers, and windows that the caller has registered, must outlive the graphs.
 * Errors     ncclResult_t, so that NCCL check macros work; symtuner_ar_error() has the sentence.
 *            Functions write their outputs on success only.
 * Rules      SYMTUNER_RULES may name the kernel of a call (docs/rules.md, symtuner tune writes such
 *            rules). Rules that differ between ranks, are wrong or are of another machine are one
 *            warning, and the library's own table decides.
 * Progress   communicators made with ncclConfig_t.blocking = 0 work like the others, if all of a
 *            call are such. No function answers ncclInProgress: each waits until NCCL is done, with
 *            the communicator's creation and the caller's own calls, too. Only in the caller's
 *            ncclGroupStart symtuner_ar_all_reduce does not; wait after ncclGroupEnd, as always.
 *            While a function runs no other thread may ask NCCL about its communicator:
 *            ncclCommGetAsyncError is not safe against itself. No wait is longer than timeout_ms,
 *            which here includes waiting for other ranks to come, or goes on for more than a second
 *            after symtuner_ar_abort. Such an end is ncclRemoteError (ncclInvalidUsage by an
 *            abort) and names NCCL's call; the handle refuses every further call, and
 *            symtuner_ar_destroy frees nothing, for NCCL may still use it. Destroy first, then
 *            ncclCommAbort. What ncclCommGetAsyncError finds is passed on as the result.
 * Promise    the same numbers give the same bits: on all ranks, in every run, and whatever the
 *            kernel, the length, the alignment, the place in the message, in place or not,
 *            registered or not. There is one order of addition: ranks in groups of four,
 *            (r0 + r1) + (r2 + r3), and the groups' sums one after the other. So
 *              3  (r0 + r1) + r2                      6  ((r0 + r1) + (r2 + r3)) + (r4 + r5)
 *              4  (r0 + r1) + (r2 + r3)               7  ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + r6)
 *              5  ((r0 + r1) + (r2 + r3)) + r4        8  ((r0 + r1) + (r2 + r3)) +
 *                                                        ((r4 + r5) + (r6 + r7))
 *            and products alike. Sums and averages of f32 are rounded once; f16, bf16 and fp8 add
 *            up in f32; products are made in f64, of fp8 in f32; each is rounded to its type once;
 *            f64 is rounded after each step (docs/kernels.md, section 3, has the bounds). In sums
 *            -0 and NaN stay -0 and NaN, max and min take the number; a NaN's payload is not kept
 *            and may differ between ranks.
 *            Exceptions, which symtuner_ar_query() names in plan.why: calls that are NCCL's (kernel
 *            "nccl"; from which length on that may be is in docs/kernels.md, section 4) are added
 *            as NCCL does; kernels "nvls" and "nvls_one", which run only when named, leave the
 *            order to the switch, nvls_one on each rank.
 */
#ifndef SYMTUNER_AR_H_
#define SYMTUNER_AR_H_

#include <stddef.h>
#include <stdint.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYMTUNER_AR_API __attribute__((visibility("default")))

#define SYMTUNER_AR_VERSION   100 /* major * 10000 + minor * 100 + patch */
#define SYMTUNER_AR_MAX_RANKS 16

typedef struct symtuner_ar symtuner_ar; /* one rank of one group; opaque */

/* How the ranks reach each other. AUTO looks: peer memory when every pair has it, else pinned host
 * memory that all GPUs map, else NCCL; symtuner_ar_describe() says why. The other values force one
 * of the two: no group is made where that does not work. */
enum symtuner_ar_transport {
    SYMTUNER_AR_AUTO = 0,
    SYMTUNER_AR_PEER = 1,
    SYMTUNER_AR_HOST = 2,
};

/* Set ${size} to sizeof(struct symtuner_ar_config) and the rest to 0 for the defaults; a NULL
 * config means the same. Every rank must pass the same values. */
struct symtuner_ar_config {
    size_t size;
    int transport;        /* enum symtuner_ar_transport                                           */
    uint32_t timeout_ms;  /* a kernel gives up on a silent peer after this, and we on NCCL where
                             it does not block; 0: 600000, or SYMTUNER_AR_TIMEOUT_MS           */
    size_t bulk_bytes;    /* scratch for messages of several MiB; 0: 256 MiB, 64 MiB when a GPU
                             of the group has less than 24 GiB. A handle takes 97 MiB of its GPU
                             and 5/4 of this from the start, 417 MiB by default               */
    uint64_t first_epoch; /* for tests: counters start here (below 2^38), scratch is full of NaN;
                             0: at 1                                                          */
    int one_stream;       /* 1: no event behind each call; see Streams above. Since 0.1           */
    int max_ctas;         /* most thread blocks of a call, each on a multiprocessor of its own; the
                             least of all ranks holds. 0: all multiprocessors but four, or
                             SYMTUNER_AR_MAX_CTAS; see Blocks above. Since 0.1                  */
};

/*
 * symtuner_ar_create(handles_out, comms, n, config):
 * Make one handle for each of the ${n} communicators that this thread drives: n = 1 with one
 * process or one thread per GPU, n = all local ranks when a single thread drives several GPUs.
 * Collective over the communicator. Needs NCCL 2.28.3 or later, already loaded or found as
 * libnccl.so.2. When the ranks span several nodes or GPU models, are more than 16, or cannot share
 * memory, the handle still works: every call goes to ncclAllReduce and symtuner_ar_query() says
 * why. Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_create(symtuner_ar **handles_out, const ncclComm_t *comms,
                                                int n, const struct symtuner_ar_config *config);

/*
 * symtuner_ar_create_local(handles_out, devices, nranks, config):
 * Make all ${nranks} (1..16) handles of a group that lives in this process, without NCCL: rank i
 * runs on CUDA device devices[i]. A device may appear several times; the kernels of those ranks
 * then share its SMs, each rank needs a stream of its own, and CUDA_DEVICE_MAX_CONNECTIONS=32 keeps
 * those streams from waiting for each other. Peer access is enabled where needed. Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_create_local(symtuner_ar **handles_out, const int *devices,
                                                      int nranks,
                                                      const struct symtuner_ar_config *config);

/*
 * symtuner_ar_destroy(handles, n):
 * Wait for the handles' own GPUs, then free everything. Collective for handles made from a
 * communicator. For a local group pass all its handles at once; a list that lacks some is an error
 * and frees nothing. Never waits for a peer longer than the timeout; NCCL's kernels do, so where a
 * call was NCCL's a GPU that is not idle by then (2 s at least) is ncclRemoteError, nothing of that
 * rank is freed, and ncclCommAbort ends the kernel. NULL entries are skipped, and the others set to
 * NULL. Where graphs still hold calls (see Graphs above) what they keep is freed by a later create
 * or destroy. Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_destroy(symtuner_ar **handles, int n);

/*
 * symtuner_ar_register(handles, buffers, windows, n, bytes):
 * Make buffers[i] .. buffers[i] + bytes of handles[i] reachable by the peers, for the zero-copy
 * kernels. Collective, same ${bytes} on all ranks. ${windows} is NULL (the library registers the
 * memory, which must come from ncclMemAlloc) or holds the windows that the application has already
 * registered for exactly these buffers, which stay the application's. For a local group pass all
 * its handles at once; memory from cudaMalloc is fine there. Buffers begin at multiples of 16 bytes
 * and do not overlap; a handle has room for 64. What fails on one rank fails on all, and nothing is
 * registered then. Not inside ncclGroupStart. Success without effect where no kernel could use it:
 * pinned host memory, or every call NCCL's. As with NCCL's own windows, a call must then use
 * registered memory on all ranks or on none: send in one registration, recv in one (or the same),
 * each at the same offset everywhere. So it is in place on all ranks or on none, which unregistered
 * calls need not be. Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_register(symtuner_ar **handles, void *const *buffers,
                                                  const ncclWindow_t *windows, int n, size_t bytes);

/* symtuner_ar_deregister(handles, buffers, n): undo symtuner_ar_register; collective. An error,
 * and nothing is undone, while a graph holds a call of a handle through a window that the library
 * has registered; destroy the graphs of all ranks before. Since 0.1. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_deregister(symtuner_ar **handles, void *const *buffers,
                                                    int n);

/*
 * symtuner_ar_all_reduce(send, recv, count, dtype, op, handle, stream):
 * ncclAllReduce's contract: recv[j] = op over ranks of send[j]. In place (send == recv) or
 * disjoint; any count from 0; any alignment of the element type, which may differ between ranks.
 * All NCCL data types; ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg; with a communicator also its
 * own operators, by ncclAllReduce. Asynchronous. Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_all_reduce(const void *send, void *recv, size_t count,
                                                    ncclDataType_t dtype, ncclRedOp_t op,
                                                    symtuner_ar *handle, cudaStream_t stream);

/*
 * symtuner_ar_all_reduce_at(sends, recvs, count, dtype, op, handle, stream):
 * The same when the caller knows all ranks' buffers: sends[r] and recvs[r] are rank r's, as
 * addresses that this handle's GPU can use (in a local group: plain pointers). The call runs as if
 * both were registered, and the handle remembers nothing. All ranks must pass the same lists; some
 * of them may be in place and others not.
 * Zero-copy kernels need all recvs (pull: all sends, too) on 16-byte boundaries; others are used
 * otherwise. Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_all_reduce_at(const void *const *sends, void *const *recvs,
                                                       size_t count, ncclDataType_t dtype,
                                                       ncclRedOp_t op, symtuner_ar *handle,
                                                       cudaStream_t stream);

/* What one call would do. ${size} must be set by the caller. */
struct symtuner_ar_plan {
    size_t size;
    const char *kernel; /* a name that SYMTUNER_AR_KERNEL accepts; static storage            */
    int ctas;           /* thread blocks; 0 for "nccl"                                        */
    int threads;        /* threads per block                                                  */
    int zero_copy;      /* 1: peers write (or read) the caller's buffers directly             */
    int pieces;         /* how many launches the message is split into                       */
    char why[192];      /* table row and its provenance, "rules: FILE:LINE", what was forced,
                           what the start-up probe found, or the gate that sent it to NCCL; and
                           who else's order of addition it is, where it is not ours           */
};

/* symtuner_ar_query(...): fill ${plan_out} for a call with these arguments. Launches nothing. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_query(const void *send, const void *recv, size_t count,
                                               ncclDataType_t dtype, ncclRedOp_t op,
                                               symtuner_ar *handle,
                                               struct symtuner_ar_plan *plan_out);

/*
 * symtuner_ar_force(handle, kernel, ctas, threads):
 * Override the table for the next calls, as SYMTUNER_AR_KERNEL and SYMTUNER_AR_CTAS do for a whole
 * process; NULL and 0 give the choice back. ${ctas} to 512, of which the handle runs as many as it
 * may have (see Blocks above), ${threads} to 1024. All ranks must do
 * the same between the same two calls.
 * A kernel that cannot run a call (data type, operator, registration, links) makes that call fail
 * with ncclInvalidUsage. Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_force(symtuner_ar *handle, const char *kernel, int ctas,
                                               int threads);

/* symtuner_ar_kernel_name(i): the i-th name for symtuner_ar_force; NULL past the end. */
SYMTUNER_AR_API const char *symtuner_ar_kernel_name(int i);

/* symtuner_ar_describe(handle, text, length): write transport, limits, rules and the selection
 * table in force as text, as much as fits; returns the length it needs, without the final zero. */
SYMTUNER_AR_API size_t symtuner_ar_describe(symtuner_ar *handle, char *text, size_t length);

/*
 * symtuner_ar_status(handle): ncclSuccess while the group is usable. After a kernel gave up on a
 * peer (ncclRemoteError), an abort or a misuse found on the device, that error for ever: the handle
 * refuses further calls and must be destroyed on all ranks. Does not synchronise.
 * When a rank dies, is aborted or stops calling, the call that the others are in, or enter next,
 * needs something from it: it ends in that error timeout_ms after its kernel began to wait. Unless
 * the lost rank had sent all its part of that call before; then the call is complete and right, and
 * it is the call after it that fails. A call that ended in an error leaves recv undefined, and the
 * peers may not be done with it: one that still waits for a third rank may yet write its part of a
 * registered recv, or read send and recv, until its own call ends, at the latest at its time limit.
 * Until all ranks have an error or are gone, keep such buffers, and put nothing in them.
 * Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_status(symtuner_ar *handle);

/*
 * symtuner_ar_abort(handle): refuse further calls, and make kernels of this rank that have waited
 * for a peer for 10 ms give up, a few ms later at most; any thread. A kernel that lacks nothing
 * runs to its end. The peers are not told: abort them as well, or they wait for their time limit.
 * Since 0.1.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_abort(symtuner_ar *handle);

/* symtuner_ar_error(handle): the last error as one sentence; NULL handle: of the last create,
 * destroy, register or call without a handle that failed in this thread. Never NULL; valid until
 * the next call on the handle. */
SYMTUNER_AR_API const char *symtuner_ar_error(const symtuner_ar *handle);

/* symtuner_ar_version(): SYMTUNER_AR_VERSION of the library that is loaded. */
SYMTUNER_AR_API int symtuner_ar_version(void);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtuner_ar.h - an all-reduce, a reduce-scatter and an all-gather for GPUs that can reach each
 * other's memory.
 *
 * The all-reduce computes the sum, average, product, minimum or maximum of one buffer per rank,
 * over all ranks of one node (for several nodes see Boxes). The kernels write directly into the
 * peers' memory. As in NCCL, all ranks make the same calls in the same order, with the same count,
 * dtype and op. An eager call is a call that is not captured into a CUDA graph. A local group is a
 * group of symtuner_ar_create_local. A call is zero-copy if peers read or write the caller's
 * buffers.
 *
 * Units      counts are elements, sizes are bytes, times name their unit.
 * Ownership  a handle owns its scratch memory, never the caller's buffers. The communicator that a
 *            handle was made from must outlive the handle.
 * Threads    only one thread at a time may use a handle. Different handles are independent.
 * Streams    the calls on a handle run one after the other. For this the library records an event
 *            after every call, and a call on another stream first waits for that event. But if the
 *            library gives a call to NCCL between ncclGroupStart and ncclGroupEnd, later calls do
 *            not wait for it. With config.one_stream = 1 the library records events only in
 *            captures and for copy engines. Set it only if all eager calls of a handle are on one
 *            stream, no call is captured on that stream, and each GPU has a thread of its own. If
 *            an eager call still comes on another stream, the call waits on the host until the GPU
 *            is idle. From then on events are recorded.
 *            Graphs and other calls of a handle wait for each other. They do not with one_stream,
 *            with NCCL_GRAPH_MIXING_SUPPORT=0, or if CUDA allows no event nodes in the graph. Then
 *            the program must not run a graph at the same time as another graph or call of the
 *            handle. The library reports this as an error, but it may miss a graph or call that
 *            starts while the last blocks of another are ending. Then the result may be wrong.
 * Blocks     while the blocks of a call wait for the peers, they occupy multiprocessors. A call
 *            never occupies all of them: by default the limit is all but four, rounded down to a
 *            multiple of 4 (128 of 132). So two ranks may start the calls of two handles in
 *            different order, if each call has its own stream: the blocks of the second call still
 *            find multiprocessors.
 *            If k handles may all wait at the same time, set config.max_ctas of each to at most
 *            (multiprocessors - 1) / (k - 1). If ranks share a GPU, all of them together use at
 *            most half of its multiprocessors, but each uses at least one.
 * Devices    a stream must belong to the handle's GPU. The current GPU need not be the handle's,
 *            and no function changes the current GPU.
 * Graphs     every call may be captured, but in a local group do not force the kernels copy and
 *            engines in graphs: on 2 H200s they hung. The library's counters are in device memory,
 *            so graphs may be replayed many times, between other graphs and eager calls. All ranks
 *            must replay and call in the same order. After symtuner_ar_destroy, graphs of a local
 *            group still work, and so do their clones and executables, because they keep all memory
 *            that their calls need. Graphs of a handle made from a communicator keep only the
 *            counters. If such a graph is replayed after symtuner_ar_destroy, its kernel writes
 *            nothing and ends with cudaErrorLaunchFailure, which ends the CUDA context. The
 *            caller's buffers, and windows that the caller has registered, must outlive the graphs.
 * Scratch    a handle begins with 14 MiB on its GPU. Over NVLink that is enough for messages of
 *            1 MiB, and for sums of f32, f16 and bf16 of nearly 2 MiB. Kernels pull, tma and nvls
 *            need no more. The first eager call that needs more allocates it: 96 MiB for messages
 *            of several MiB, and 5/4 of config.bulk_bytes for kernels such as chunked and copy.
 *            Scratch is not moved, and is freed with the handle. All ranks allocate in the same
 *            call. To do so, the ranks of a communicator first wait for each other on the host, for
 *            up to 0.2 s. If a rank is late, this call runs without the new scratch, and later ones
 *            try again. If memory is short on a rank, there is one warning, and from then on all
 *            ranks cut long messages into short pieces. The same happens if a graph captures this
 *            call, or if it is in an NCCL group. So call symtuner_ar_reserve before. All scratch is
 *            allocated at creation if it is host memory, if one thread drives several handles of a
 *            communicator, if the ranks share no /dev/shm, or with a start-up probe (PCIe).
 * Errors     functions return ncclResult_t, so that check macros for NCCL work. symtuner_ar_error()
 *            says what went wrong. Functions write their outputs on success only.
 * Rules      SYMTUNER_RULES may name the kernel of a call (docs/rules.md; symtuner tune writes such
 *            rules). If the rules are wrong, or differ between ranks, or are for another machine,
 *            there is one warning, and the library's own table decides.
 * Progress   communicators made with ncclConfig_t.blocking = 0 work like blocking ones. Do not pass
 *            both kinds to one function. No function returns ncclInProgress: each waits until NCCL
 *            has finished its work, including the creation of the communicator and the caller's
 *            earlier calls. The exception is a collective call between ncclGroupStart and
 *            ncclGroupEnd: it does not wait, so the caller must wait after ncclGroupEnd, as with
 *            NCCL's own calls. While a function runs, no other thread may ask NCCL about its
 *            communicator, because ncclCommGetAsyncError is not thread-safe. A wait ends after
 *            timeout_ms, or at most a second after symtuner_ar_abort. The time until the other
 *            ranks make the same call counts, too. After timeout_ms the result is ncclRemoteError,
 *            and after an abort ncclInvalidUsage. symtuner_ar_error() names the NCCL function that
 *            was waited for. The handle then refuses every further call, and symtuner_ar_destroy
 *            frees nothing, because NCCL may still use the memory. Destroy first, then call
 *            ncclCommAbort (or see symtuner_ar_discard). An error that ncclCommGetAsyncError
 *            reports becomes the function's result.
 * Promise    the same numbers give the same bits, on all ranks and in every run. The bits do not
 *            depend on the kernel, the length, the alignment or the position in the message, nor on
 *            whether the buffers are in place or registered. There is one order of addition. It
 *            adds ranks in groups of four, (r0 + r1) + (r2 + r3), and then the groups' sums one
 *            after the other:
 *              3  (r0 + r1) + r2                      6  ((r0 + r1) + (r2 + r3)) + (r4 + r5)
 *              4  (r0 + r1) + (r2 + r3)               7  ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + r6)
 *              5  ((r0 + r1) + (r2 + r3)) + r4        8  ((r0 + r1) + (r2 + r3)) +
 *                                                        ((r4 + r5) + (r6 + r7))
 *            Products have the same order. Sums and averages of f32 are rounded once. Those of f16,
 *            bf16 and fp8 are computed in f32. Products are computed in f64, but products of fp8 in
 *            f32. Every result is rounded to its type once; only f64 is rounded after each step
 *            (docs/reference/sums.md has the bounds). Sums keep -0 and NaN. The max or min of a NaN
 *            and a number is the number. The payload of a NaN is not kept and may differ between
 *            ranks.
 *            There are exceptions, which symtuner_ar_query() names in plan.why. If a call goes to
 *            NCCL (kernel "nccl"; docs/kernels.md says from which length on), NCCL adds up in its
 *            own order. With kernels "nvls" and "nvls_one" the switch chooses the order, and with
 *            "nvls_one" ranks may get different bits. These two kernels run only if the user names
 *            them.
 * Mapping    with SYMTUNER_AR_IPC=1 or auto on all ranks, kernel "tma_ipc" may run calls on buffers
 *            that are not registered: each rank maps its peers' allocations. Until the handle is
 *            freed, cudaFree does not free them (docs/reference/unregistered.md).
 * Boxes      with SYMTUNER_AR_NODES=1, or with rules that have network-pieces, ranks on several
 *            boxes may add up box by box (docs/nodes.md). First each box runs a reduce-scatter.
 *            Then ncclAllReduce adds up between the ranks that have the same number within their
 *            boxes. Then each box runs an all-gather. A box is what NCCL considers a host: it
 *            compares NCCL_HOSTID, or host name and boot id. All ranks make the same choice and get
 *            the same bits. Within a box, an element is added up in the order of Promise, where r0,
 *            r1 ... are the ranks of the box. The sum is rounded to its type once. NCCL then adds
 *            the boxes' results as it does with one rank per box, and rounds to the type each time.
 *            So the bits differ from those of one box with as many ranks, and from those of NCCL
 *            over all ranks. An average is the average of the boxes' averages. If fewer than 16
 *            bytes per rank of a box remain at the end of a message, NCCL reduces this rest over
 *            all ranks.
 *            NCCL chooses its algorithm by the length. So if a message has another length, or is
 *            cut into another number of pieces, its elements may be added in another order. Rules
 *            can fix the number of pieces for all runs. Do not make calls that run box by box
 *            between ncclGroupStart and ncclGroupEnd. All ranks must make the calls of the handle,
 *            and their own NCCL calls on its communicator, in the same order. If a rank is lost,
 *            NCCL's kernels wait for it until the program calls symtuner_ar_abort and, on its own
 *            communicator, ncclCommAbort. Each of the two alone ends only a part of these kernels.
 */
#ifndef SYMTUNER_AR_H_
#define SYMTUNER_AR_H_

#include <stddef.h>
#include <stdint.h>

/* Define SYMTUNER_AR_PLAIN_TYPES to build without the headers of CUDA and NCCL. Then their enums
 * are int, and their handles void *. */
#ifdef SYMTUNER_AR_PLAIN_TYPES
typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t, ncclScalarResidence_t;
typedef void *ncclComm_t, *ncclWindow_t, *cudaStream_t;
#else
#include <cuda_runtime_api.h>
#include <nccl.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SYMTUNER_AR_API __attribute__((visibility("default")))

#define SYMTUNER_AR_VERSION   200 /* major * 10000 + minor * 100 + patch */
#define SYMTUNER_AR_MAX_RANKS 16

typedef struct symtuner_ar symtuner_ar; /* one rank of one group; opaque */

/* How the ranks exchange data. AUTO stands for SYMTUNER_AR_TRANSPORT. If that is not set, it takes
 * the first of these that works: peer memory between every pair of GPUs, pinned host memory that
 * all GPUs map, NCCL. symtuner_ar_describe() says which was taken, and why. PEER and HOST force
 * peer memory or host memory: where this does not work, creation fails. */
enum symtuner_ar_transport {
    SYMTUNER_AR_AUTO = 0,
    SYMTUNER_AR_PEER = 1,
    SYMTUNER_AR_HOST = 2,
};

/* What other work the GPU does while the kernels of a handle run. The library looks up the kernel
 * of a call in a selection table; this setting selects the table's column. If the kernels run
 * alone, many blocks are fastest. If they run beside compute kernels, their blocks occupy
 * multiprocessors that the compute kernels need. So longer messages then get kernels with few
 * blocks, or go to NCCL (docs/kernels.md says which, and from which length on). UNKNOWN, the
 * default, acts like BESIDE_COMPUTE; only rules with when-beside tell the two apart. */
enum symtuner_ar_beside {
    SYMTUNER_AR_UNKNOWN = 0,
    SYMTUNER_AR_ALONE = 1,
    SYMTUNER_AR_BESIDE_COMPUTE = 2,
};

/* For defaults, pass NULL, or set ${size} to sizeof(struct symtuner_ar_config) and the rest to 0.
 * Ranks may differ only in ${timeout_ms}, ${one_stream}, ${max_ctas}, ${beside} and ${memory}. */
struct symtuner_ar_config {
    size_t size;
    int transport;        /* enum symtuner_ar_transport                                           */
    uint32_t timeout_ms;  /* how long a kernel waits for a silent peer; also how long a function
                             waits for other ranks, or for NCCL with blocking = 0 (creation: at
                             most 600000). 0: SYMTUNER_AR_TIMEOUT_MS, or 600000 without that   */
    size_t bulk_bytes;    /* longest piece in kernels chunked, tma_staged and copy (not all-gather),
                             but a quarter of it in an all-reduce whose recv is not registered.
                             0: 256 MiB, or 64 MiB if a GPU of the group has less than 24 GiB  */
    uint64_t first_epoch; /* for tests only: the library's counters start here (below 2^38), and
                             scratch is full of NaN. 0: the counters start at 1               */
    int one_stream;       /* 1: record no event after a call; see Streams above. Since 0.2        */
    int max_ctas;         /* largest number of blocks per call, each on a multiprocessor of its own.
                             If ranks differ, all take the smallest value. 0 stands for
                             SYMTUNER_AR_MAX_CTAS, or else the default (Blocks above). Since 0.2 */
    int beside;           /* enum symtuner_ar_beside. SYMTUNER_AR_BESIDE overrides this. If ranks
                             differ, all take UNKNOWN. Since 0.2                                */
    const void *memory;   /* NULL, or an address in memory like that of the buffers. If peers cannot
                             map it, SYMTUNER_AR_IPC has no effect on the group. Since 0.2      */
};

/* symtuner_ar_use_nccl(library): use the NCCL of ${library}, a handle from dlopen, for all
 * communicators of this process. You need this if NCCL's function names resolve to another library:
 * to another copy of NCCL, or to a library that is preloaded in front of NCCL. Call it before the
 * first symtuner_ar_create. It fails if this library already uses another NCCL in the process.
 * Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_use_nccl(void *library);

/* symtuner_ar_create(handles_out, comms, n, config): make a handle for each rank of a group that
 * this thread drives. ${comms} are the communicators of these ${n} ranks. (n is 1 unless a thread
 * drives several GPUs.) Collective over the group. Needs NCCL 2.28.3 or later, already loaded or
 * found as libnccl.so.2. NCCL runs every call of the handle if the ranks span several nodes (but
 * see Boxes above) or GPU models, share a GPU (unless all have SYMTUNER_AR_SHARE_GPU=1) or cannot
 * share memory, or are more than 16: symtuner_ar_query() says so. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_create(symtuner_ar **handles_out, const ncclComm_t *comms,
                                                int n, const struct symtuner_ar_config *config);

/*
 * symtuner_ar_create_local(handles_out, devices, nranks, config):
 * Make all ${nranks} (1..16) handles of a group within this process, without NCCL. Rank i runs on
 * CUDA device devices[i]. A device may appear several times. The kernels of those ranks then share
 * its multiprocessors, and each rank needs a stream of its own. CUDA_DEVICE_MAX_CONNECTIONS=32
 * keeps these streams from waiting for each other. Peer access is enabled where needed. Since 0.2.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_create_local(symtuner_ar **handles_out, const int *devices,
                                                      int nranks,
                                                      const struct symtuner_ar_config *config);

/*
 * symtuner_ar_destroy(handles, n):
 * Wait until the handles' calls have ended, free everything, and set the handles to NULL. NULL
 * entries are skipped. Collective for handles made from a communicator. Pass all handles of a local
 * group in one call; if some are missing, that is an error, and nothing is freed.
 * The function waits until the handle's GPU is idle if NCCL ran a call of the handle, if a graph
 * has a call of the handle, or if config.one_stream is set. While a stream of the GPU is captured,
 * CUDA refuses this wait. Then the capture fails, the result is ncclUnhandledCudaError, and none of
 * that rank's memory is freed. NCCL's kernels wait for a dead peer for ever. So if NCCL ran a call
 * of a rank, the function waits for that rank's GPU only up to the timeout (2 s at least). If the
 * GPU is not idle then, the result is ncclRemoteError, and none of that rank's memory is freed.
 * ncclCommAbort ends NCCL's kernels.
 * If symtuner_ar_status() reports an error, such as a kernel that gave up on a peer, the handles
 * are still freed, but the result is that error. After symtuner_ar_abort the result is
 * ncclSuccess. Since 0.2.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_destroy(symtuner_ar **handles, int n);

/* symtuner_ar_synchronize(handle): wait until the handle's calls have ended, as long as
 * symtuner_ar_destroy would, but free nothing. Other threads may call symtuner_ar_abort meanwhile,
 * and so end the wait. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_synchronize(symtuner_ar *handle);

/* symtuner_ar_discard(handles, n): give up handles on which symtuner_ar_abort and then
 * ncclCommAbort were called, and set the handles to NULL. This is for programs that cannot wait in
 * symtuner_ar_destroy before they abort, such as a watchdog. A later create or destroy on the GPU
 * frees the handles, once the GPU is idle and no graph contains their calls. Captures on the GPU
 * may fail then. No other thread may be in a call on the handles. They must not be of a local
 * group. A handle on which NCCL has timed out (see Progress) is never freed. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_discard(symtuner_ar **handles, int n);

/*
 * symtuner_ar_register(handles, buffers, windows, n, bytes):
 * Let the peers reach buffers[i] .. buffers[i] + bytes of handles[i], for the zero-copy kernels.
 * Collective, same ${bytes} on all ranks. If ${windows} is NULL, the library registers the memory,
 * which must come from ncclMemAlloc (or from cudaMalloc, in a local group). Otherwise ${windows}
 * holds the windows that the application has already registered for exactly these buffers; the
 * application must deregister them itself. Pass all handles of a local group in one call. Buffers
 * begin at multiples of 16 bytes. A handle has room for 64 buffers. If the call fails on one rank,
 * it fails on all ranks and registers nothing. Do not call it between ncclGroupStart and
 * ncclGroupEnd. If no kernel could use the buffers (ranks share pinned host memory, or every call
 * goes to NCCL), the call succeeds without effect. So it does with ${windows} over several boxes.
 * A buffer may overlap a registered buffer, and may begin where it begins. But if the two do not
 * overlap in the same way on all ranks, no call on either of them is zero-copy from then on.
 * As with NCCL's own windows, a call must use registered memory on all ranks or on none. Send must
 * lie within one registration, and recv within another or the same one, each at the same offset on
 * all ranks. So a call with registered memory is in place on all ranks or on none. (A call without
 * registered memory may be in place on some ranks only.) In place, the shorter buffer of a
 * reduce-scatter or all-gather lies where this rank's part of the longer one is. Since 0.2.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_register(symtuner_ar **handles, void *const *buffers,
                                                  const ncclWindow_t *windows, int n, size_t bytes);

/* symtuner_ar_deregister(handles, buffers, n): on all ranks, undo the latest symtuner_ar_register
 * of these buffers. Collective: all ranks must call it. If the library itself has registered the
 * memory, first destroy all graphs with calls on that memory, on all ranks. If such a graph still
 * exists on a rank, the function fails on all ranks and undoes nothing. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_deregister(symtuner_ar **handles, void *const *buffers,
                                                    int n);

/* symtuner_ar_deregister_window(handle, window): undo symtuner_ar_register for one window of the
 * application, on this rank. Does not wait for the other ranks. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_deregister_window(symtuner_ar *handle,
                                                           ncclWindow_t window);

/* symtuner_ar_registered(handle, p, bytes): return 1 if peers may read and write the memory at ${p}
 * directly, because it was registered, else 0. Since 0.2. */
SYMTUNER_AR_API int symtuner_ar_registered(const symtuner_ar *handle, const void *p, size_t bytes);

/* symtuner_ar_reserve(handles, n, bytes): allocate the scratch (see above) that calls of up to
 * ${bytes} need with the kernels that the library would choose now. Then no such call waits for
 * scratch, and graphs may capture such calls. Collective, same ${bytes} on all ranks; SIZE_MAX
 * means all messages. Pass all handles of a local group in one call, while no other thread makes
 * calls. Do not call it while a stream of the handle is captured, nor between ncclGroupStart and
 * ncclGroupEnd. If a rank lacks the memory, the function fails on all ranks, and the handles stay
 * usable. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_reserve(symtuner_ar **handles, int n, size_t bytes);

/*
 * symtuner_ar_op_create_premul_sum(op_out, scalar, dtype, residence, handle):
 * As ncclRedOpCreatePreMulSum: make an operator for calls of type ${dtype} on ${handle}. The
 * operator multiplies each rank's numbers by that rank's scalar, and then adds up the products.
 * ncclScalarHostImmediate: the scalar is read now. ncclScalarDevice: ${scalar} points to memory
 * that the handle's GPU can read, aligned to the scalar's size. Each call reads the scalar when the
 * call runs on its stream; a captured call reads it at every replay. Not collective: scalars and
 * residences may differ between ranks. If one rank passes such an operator to a call, all ranks
 * must pass one. Each product is rounded to ${dtype} once, to the nearest (integers wrap, fp8
 * saturates). Then the products are added up and rounded as in any sum (see Promise above). NCCL
 * rounds products in the same way, but first rounds products of fp8 to f16. NCCL's sums have
 * another order, and may be rounded more often. On a handle made from a communicator, ${*op_out} is
 * an operator that NCCL has made. NCCL's functions accept it, too, and calls that go to NCCL use
 * it. Only kernels one_ll8, one_lamport, two_ll8, two_lamport and chunked can multiply by scalars;
 * no zero-copy kernel can. A local group of one rank has no kernel for such operators. The speed of
 * calls with such operators was not measured. Since 0.2.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_op_create_premul_sum(ncclRedOp_t *op_out, void *scalar,
                                                              ncclDataType_t dtype,
                                                              ncclScalarResidence_t residence,
                                                              symtuner_ar *handle);

/* symtuner_ar_op_destroy(op, handle): as ncclRedOpDestroy, for an operator of the function above.
 * The operator may be destroyed as soon as the last call with it has returned. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_op_destroy(ncclRedOp_t op, symtuner_ar *handle);

/*
 * symtuner_ar_all_reduce(send, recv, count, dtype, op, handle, stream):
 * As ncclAllReduce: recv[j] = op over all ranks' send[j], for ${count} >= 0 elements. The buffers
 * are in place (send == recv) or do not overlap. They are aligned to the element type; any further
 * alignment may differ between ranks. ${dtype} is any NCCL data type. ${op} is ncclSum, ncclProd,
 * ncclMax, ncclMin, ncclAvg, or an operator of symtuner_ar_op_create_premul_sum. On a handle made
 * from a communicator, ${op} may also be an operator made with NCCL; such calls go to
 * ncclAllReduce. The function does not wait for the result. Since 0.2.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_all_reduce(const void *send, void *recv, size_t count,
                                                    ncclDataType_t dtype, ncclRedOp_t op,
                                                    symtuner_ar *handle, cudaStream_t stream);

/*
 * symtuner_ar_all_reduce_at(sends, recvs, count, dtype, op, handle, stream):
 * As symtuner_ar_all_reduce, for callers that know all ranks' buffers. sends[r] and recvs[r] are
 * the buffers of rank r, as addresses that this handle's GPU can use (in a local group: plain
 * pointers). The call runs as if all buffers were registered, but registers none of them. All ranks
 * must pass lists of the same buffers. Some ranks may be in place and others not.
 * Zero-copy kernels need all recvs on 16-byte boundaries (kernel "pull": all sends, too). If they
 * are not, other kernels run. Since 0.2.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_all_reduce_at(const void *const *sends, void *const *recvs,
                                                       size_t count, ncclDataType_t dtype,
                                                       ncclRedOp_t op, symtuner_ar *handle,
                                                       cudaStream_t stream);

/*
 * symtuner_ar_reduce_scatter(send, recv, recv_count, dtype, op, handle, stream):
 * As ncclReduceScatter: ${send} holds a part of ${recv_count} elements for each rank, and recv[j] =
 * op over all ranks' send[rank * recv_count + j]. The result has the same bits as an all-reduce of
 * ${send}. The buffers are in place (recv == send + rank * recv_count) or do not overlap. Types,
 * operators and alignment are as in symtuner_ar_all_reduce. The function was tested on two H200s;
 * docs/reference/reduce-scatter.md says what was timed. Since 0.2.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_reduce_scatter(const void *send, void *recv,
                                                        size_t recv_count, ncclDataType_t dtype,
                                                        ncclRedOp_t op, symtuner_ar *handle,
                                                        cudaStream_t stream);

/*
 * symtuner_ar_all_gather(send, recv, send_count, dtype, handle, stream):
 * As ncclAllGather: recv[r * send_count + j] = rank r's send[j], bit for bit. The buffers are in
 * place (send == recv + rank * send_count) or do not overlap. The function was tested on two H200s;
 * docs/reference/reduce-scatter.md says what was timed. Since 0.2.
 */
SYMTUNER_AR_API ncclResult_t symtuner_ar_all_gather(const void *send, void *recv, size_t send_count,
                                                    ncclDataType_t dtype, symtuner_ar *handle,
                                                    cudaStream_t stream);

/* symtuner_ar_followers_wait(wait):
 * This is about kernels that follow a call of this library on its stream and are launched with
 * programmatic dependent launch (PDL). They can start before our kernel has ended.
 * ${wait} 1: promise that each such kernel waits for our kernel (griddepcontrol.wait,
 * cudaGridDependencySynchronize) before it touches what the call reads or writes. Then our kernels
 * may let the next start early. The symmetric kernels of NCCL 2.28.3 to 2.30.6 do not wait, even
 * when this library calls NCCL. With 2.28 they run only on buffers that ncclCommWindowRegister or
 * symtuner_ar_register has registered; with 2.29 and 2.30 NCCL_SYM_NOWIN_ENABLE and NCCL_SYM_KERNEL
 * let them run on other buffers, too.
 * ${wait} 0: withdraw the promise, for good. Later calls do not let the next kernel start early;
 * for earlier calls see symtuner_ar_separate. With NCCL 2.28.3 to 2.30.6 symtuner_ar_register
 * itself withdraws the promise.
 * Without a promise our kernels let the next kernel start early only with NCCL 2.30.7 and later.
 * SYMTUNER_AR_OVERLAP overrides all this. The promise is for all handles of the process, also for
 * later handles, and may differ between ranks. Threads: any. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_followers_wait(int wait);

/* symtuner_ar_separate(stream): after symtuner_ar_followers_wait(0), call this before each launch
 * of a kernel that does not wait. That kernel then starts when all earlier work of ${stream} has
 * ended, including calls of this library that let the next kernel start early. Does nothing if the
 * kernel could not start early anyway. ${stream} may be in a capture. Threads: any. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_separate(cudaStream_t stream);

enum symtuner_ar_coll {
    SYMTUNER_AR_ALL_REDUCE,
    SYMTUNER_AR_REDUCE_SCATTER,
    SYMTUNER_AR_ALL_GATHER,
};

/* How the library would run one call. The caller must set ${size} to sizeof. */
struct symtuner_ar_plan {
    size_t size;
    const char *kernel; /* a name that SYMTUNER_AR_KERNEL accepts; static storage             */
    int ctas;           /* thread blocks; 0 for "nccl"                                        */
    int threads;        /* threads per block                                                  */
    int zero_copy;      /* 1: peers write (or read) the caller's buffers directly             */
    int pieces;         /* number of launches: each runs one piece of the message             */
    char why[192];      /* what chose the kernel: a row and column (enum symtuner_ar_beside) of
                           the table, with the row's source; "rules: FILE:LINE"; what was forced;
                           or the start-up probe. If NCCL runs the call, it says why. If the
                           order of addition is not ours, the end says who chooses it         */
    int boxes;          /* how many boxes add up box by box, each with ${kernel}; 0: none     */
};

/* symtuner_ar_query(...): fill ${plan_out} for a call with these arguments, as if its scratch was
 * allocated and, with SYMTUNER_AR_IPC=auto, its buffers mapped. Launches nothing. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_query(const void *send, const void *recv, size_t count,
                                               ncclDataType_t dtype, ncclRedOp_t op,
                                               symtuner_ar *handle,
                                               struct symtuner_ar_plan *plan_out);

/* symtuner_ar_query_coll(coll, ...): as symtuner_ar_query, for any collective. ${count} is the
 * recv_count or send_count of the call. All-gather ignores ${op}. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_query_coll(int coll, const void *send, const void *recv,
                                                    size_t count, ncclDataType_t dtype,
                                                    ncclRedOp_t op, symtuner_ar *handle,
                                                    struct symtuner_ar_plan *plan_out);

/* symtuner_ar_decide(coll, ...): with SYMTUNER_AR_IPC=auto, let the ranks agree who gets the next
 * call, which has these arguments: NCCL (*nccl_out 1) or, as usual, this library (0). Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_decide(int coll, const void *send, const void *recv,
                                                size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                                                symtuner_ar *handle, int *nccl_out);

/* symtuner_ar_force(handle, kernel, ctas, threads):
 * Override the table and the rules for the next calls, as SYMTUNER_AR_KERNEL and SYMTUNER_AR_CTAS
 * do for a whole process. They choose what is NULL or 0 here. ${ctas} is at most 512, but no call
 * runs more blocks than Blocks above allows. ${threads} is at most 1024; most kernels run at most
 * 512. All ranks must call this with the same arguments, between the same two calls.
 * A kernel that cannot run a call (data type, operator, registration, links) makes that call fail
 * with ncclInvalidUsage. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_force(symtuner_ar *handle, const char *kernel, int ctas,
                                               int threads);

/* symtuner_ar_kernel_name(i): return name ${i} (from 0) that symtuner_ar_force accepts, or NULL. */
SYMTUNER_AR_API const char *symtuner_ar_kernel_name(int i);

/* symtuner_ar_describe(handle, text, length): write the transport, limits, rules and table that the
 * handle uses, as much as fits. Returns the length of the whole text, without the final zero. */
SYMTUNER_AR_API size_t symtuner_ar_describe(symtuner_ar *handle, char *text, size_t length);

/* symtuner_ar_boxes_asked(): return 1 if SYMTUNER_AR_NODES=1 or a rule with network-pieces lets
 * handles over several boxes add up box by box, else 0. Reads the rules each time. */
SYMTUNER_AR_API int symtuner_ar_boxes_asked(void);

/* symtuner_ar_status(handle): return ncclSuccess while the group is usable, and during exit(). Four
 * things make it unusable: a kernel gives up on a peer or NCCL times out (ncclRemoteError), the
 * handle is aborted, or a kernel finds a misuse. From then on the result is the error. The handle
 * then refuses further calls and must be destroyed on all ranks. Does not wait for the GPU.
 * If a rank dies, is aborted or stops calling, the current or next call of each other rank waits
 * for the lost rank. This call ends in ncclRemoteError, timeout_ms after its kernel began to wait.
 * If the lost rank had already sent its whole part of a call, that call is complete and right, and
 * the next call fails.
 * After a call that failed, recv is undefined, and peers may still use the buffers. A peer that
 * waits for a third rank may still write to a registered recv, or read send and recv, until its own
 * call ends, at the latest at its time limit. So keep these buffers and write nothing to them until
 * all ranks have an error or are gone. Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_status(symtuner_ar *handle);

/* symtuner_ar_abort(handle): refuse further calls, and end the kernels of this rank within 50 ms
 * (over several boxes 100 ms). Then wait at most 2 s for queued calls with copy engines (copy,
 * engines, tma_engines), but not for graphs. ncclCommAbort may then unmap the peers' memory; later
 * copies access unmapped memory. Threads: any; symtuner_ar_destroy waits for them. Peers are not
 * told: abort them, too, or they wait until their time limit. Over several boxes this also aborts
 * communicators that the library split from yours (with splitShare = 1 NCCL does so). Since 0.2. */
SYMTUNER_AR_API ncclResult_t symtuner_ar_abort(symtuner_ar *handle);

/* symtuner_ar_waits(handle): return a number that changes every few ms once one of our kernels (but
 * not engines or tma_engines) has waited for a peer for 10 ms. Any thread may ask. Since 0.2. */
SYMTUNER_AR_API uint32_t symtuner_ar_waits(const symtuner_ar *handle);

/* symtuner_ar_error(handle): return the last error of the handle as one sentence. If ${handle} is
 * NULL, return this thread's last error of a create, destroy or register, or of a call to which no
 * handle was passed. The result is never NULL, and valid until the next call on the handle. */
SYMTUNER_AR_API const char *symtuner_ar_error(const symtuner_ar *handle);

/* symtuner_ar_version(): return SYMTUNER_AR_VERSION of the library that is loaded. */
SYMTUNER_AR_API int symtuner_ar_version(void);

#ifdef __cplusplus
}
#endif

#endif

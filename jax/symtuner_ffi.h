/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtuner_ffi.h - libsymtuner_ffi.so: the collectives of libsymtuner_ar.so as XLA custom calls.
 *
 * The Python package symtuner (jax/symtuner) calls these functions by ctypes. Those that return an
 * int return 0, or -1 with one sentence in ${why}, unless their comments say otherwise.
 */
#ifndef SYMTUNER_FFI_H_
#define SYMTUNER_FFI_H_

#include <stddef.h>
#include <stdint.h>

#define SYMTUNER_FFI_API __attribute__((visibility("default")))

struct XLA_FFI_CallFrame;

/* The handler of our custom calls. A call has one operand and one result. Its attributes are "op"
 * (int32, an ncclRedOp_t), "ranks" (int32), "groups" (int64 array: rows of ${ranks} JAX device
 * ids), and "coll" (int32, an enum symtuner_ar_coll; without "coll" the call is an all-reduce). The
 * ranks of a reduce-scatter and of an all-gather are in the order of the row. */
SYMTUNER_FFI_API struct XLA_FFI_Error *symtuner_ffi_all_reduce(struct XLA_FFI_CallFrame *frame);

/* The handler for calls that XLA may record into command buffers (CUDA graphs). The kernels of
 * these calls never access XLA's buffers of other ranks. If a kernel gives up, the next run reports
 * the error. */
SYMTUNER_FFI_API struct XLA_FFI_Error *
symtuner_ffi_all_reduce_recordable(struct XLA_FFI_CallFrame *frame);

/* Load libsymtuner_ar.so from ${path}. */
SYMTUNER_FFI_API int symtuner_ffi_load(const char *path, char *why, size_t why_size);

/* Set the size from which calls use the buffers of other ranks directly: for calls of at least
 * ${bytes} the ranks of a local group exchange addresses before a run (jax/exchange.h). SIZE_MAX:
 * the ranks never exchange addresses. Call this before the first run. */
SYMTUNER_FFI_API void symtuner_ffi_zero_copy_from(size_t bytes);

/* Tell the library an address in memory that XLA allocated. New handles get it as config.memory
 * (include/symtuner_ar.h). This is needed with SYMTUNER_AR_IPC=1. Call it before the first group is
 * opened. */
SYMTUNER_FFI_API void symtuner_ffi_memory(const void *p);

/* Open a group whose devices are all in this process: ${ids}[i] is CUDA device ${ordinals}[i]. */
SYMTUNER_FFI_API int symtuner_ffi_open_local(const int64_t *ids, const int *ordinals, int ranks,
                                             uint32_t timeout_ms, char *why, size_t why_size);

/* Make the NCCL unique id: rank 0 calls this, and all ranks pass its 128 bytes to
 * symtuner_ffi_open_comm(). */
SYMTUNER_FFI_API int symtuner_ffi_unique_id(void *id, char *why, size_t why_size);

/* Prepare a group with one rank in this process, on an NCCL communicator of its own. All ranks must
 * call this; there is no time limit. The group is not open yet. If all ranks have got a ${ticket},
 * pass it to symtuner_ffi_admit(), otherwise to symtuner_ffi_give_up(). On failure *ticket is
 * unchanged. */
SYMTUNER_FFI_API int symtuner_ffi_open_comm(const int64_t *ids, int ranks, int me, int ordinal,
                                            const void *unique_id, uint32_t timeout_ms,
                                            void **ticket, char *why, size_t why_size);

/* Prepare a group as symtuner_ffi_open_comm() does, but on XLA's communicator, which the group gets
 * in the first run of a program. The calls that use such a group have the attribute "flat" (int64
 * array: the groups, with each device as its position in the program's list of devices). */
SYMTUNER_FFI_API int symtuner_ffi_open_xla(const int64_t *ids, int ranks, int me, int ordinal,
                                           uint32_t timeout_ms, void **ticket, char *why,
                                           size_t why_size);

/* Open a prepared group: from now on calls find it, and *ticket becomes NULL. On failure *ticket is
 * unchanged; pass it to symtuner_ffi_give_up(). */
SYMTUNER_FFI_API int symtuner_ffi_admit(void **ticket, char *why, size_t why_size);

/* Free a prepared group that is not opened. NULL: does nothing. This function may wait for other
 * ranks that do the same (symtuner_ar_destroy), so call it from a thread for which nothing
 * waits. */
SYMTUNER_FFI_API int symtuner_ffi_give_up(void *ticket, char *why, size_t why_size);

/* The handler of a call that does nothing. In the prepare stage it only checks whether the runtime
 * offers its communicators. symtuner_ffi_probed() returns the result: 1 if it does, 0 if not, -1
 * before the handler ran. */
SYMTUNER_FFI_API struct XLA_FFI_Error *symtuner_ffi_probe(struct XLA_FFI_CallFrame *frame);
SYMTUNER_FFI_API int symtuner_ffi_probed(void);

/* Watch this group for ranks whose process ends. ${pids}[i] is rank i's process. The watch does not
 * know of goodbyes (symtuner_ffi_goodbye) that came before this call. */
SYMTUNER_FFI_API int symtuner_ffi_watch(const int64_t *ids, int ranks, const int *pids, char *why,
                                        size_t why_size);

/* Wait until the calls of all groups across processes have ended, for at most ${limit_ms}. Returns
 * -1 if some have not. */
SYMTUNER_FFI_API int symtuner_ffi_settle(int limit_ms);

/* Tell the library that this process has begun to end. If the process then waits too long for a
 * dead rank in jax.distributed's shutdown, the library prints a line on stderr and calls _exit(71).
 * Too long means: the process still runs 15 s after the first call of this function, and 5 s after
 * that rank's death. The shutdown waits in vain for a rank that died without a goodbye. It also
 * waits in vain for a rank that died before the time given to symtuner_ffi_waiting(), even if that
 * rank said goodbye: it may have been killed before it reached jax.distributed's shutdown. */
SYMTUNER_FFI_API void symtuner_ffi_ending(void);

/* Tell the library that rank ${rank} has said goodbye: its process may live on, but will make no
 * more calls. This holds for all groups of these ids, also for those that this process has
 * closed. */
SYMTUNER_FFI_API int symtuner_ffi_goodbye(const int64_t *ids, int ranks, int rank, char *why,
                                          size_t why_size);

/* Tell the library that it will hear of no more goodbyes in the groups of these ids, and that it
 * has heard of all goodbyes up to ${until_ms} (ms of CLOCK_MONOTONIC). If a rank dies after that
 * time, the library assumes that the rank has said goodbye. */
SYMTUNER_FFI_API int symtuner_ffi_told(const int64_t *ids, int ranks, int64_t until_ms, char *why,
                                       size_t why_size);

/* Tell the library that this process, which has begun to end, still waited in jax.distributed for
 * all other processes at ${at_ms} (ms of CLOCK_MONOTONIC). So it waits in vain for every rank whose
 * process ended before that time, even if that rank said goodbye. */
SYMTUNER_FFI_API int symtuner_ffi_waiting(int64_t at_ms, char *why, size_t why_size);

/* Wait for running calls, at most as long as their time limit, and then destroy all open groups. A
 * group that is opened meanwhile stays open. Two threads must not call this at the same time. */
SYMTUNER_FFI_API int symtuner_ffi_close(char *why, size_t why_size);

/* Make running and later calls of all groups end with an error. Any thread may call it. */
SYMTUNER_FFI_API void symtuner_ffi_abort(void);

/* Write "kernel ctas threads zero_copy pieces why" to ${text}, for a call of ${count} elements on
 * the i-th open member. A member is one device of this process in one group. Returns -1 if there is
 * no such member, or if it cannot run the call. */
SYMTUNER_FFI_API int symtuner_ffi_plan(int i, size_t count, int dtype, int op, char *text,
                                       size_t size);

/* Write to ${text} what libsymtuner_ar.so knows about the group of the i-th open member: transport,
 * limits, selection table. Returns -1 if there is no such member, or if the member uses XLA's
 * communicator and has not run yet. */
SYMTUNER_FFI_API int symtuner_ffi_describe(int i, char *text, size_t size);

/* Write one line about the i-th open member to ${text}. Returns -1 if there is no such member. */
SYMTUNER_FFI_API int symtuner_ffi_member(int i, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtuner_ffi.h - libsymtuner_ffi.so: the all-reduce of libsymtuner_ar.so as an XLA custom call.
 *
 * The Python package symtuner (jax/symtuner) is the caller; it reaches these functions by ctypes.
 * Functions return 0, or -1 with one sentence in ${why}.
 */
#ifndef SYMTUNER_FFI_H_
#define SYMTUNER_FFI_H_

#include <stddef.h>
#include <stdint.h>

#define SYMTUNER_FFI_API __attribute__((visibility("default")))

struct XLA_FFI_CallFrame;

/* The handler: one buffer in, one buffer out; attributes "op" (int32, NCCL's number), "ranks"
 * (int32) and "groups" (int64 array, rows of ${ranks} JAX device ids). */
SYMTUNER_FFI_API struct XLA_FFI_Error *symtuner_ffi_all_reduce(struct XLA_FFI_CallFrame *frame);

/* The same for calls that XLA may record into command buffers (CUDA graphs). They never use XLA's
 * buffers directly, and a kernel of theirs that gave up is an error of the next run. */
SYMTUNER_FFI_API struct XLA_FFI_Error *
symtuner_ffi_all_reduce_recordable(struct XLA_FFI_CallFrame *frame);

/* Load libsymtuner_ar.so from ${path}. */
SYMTUNER_FFI_API int symtuner_ffi_load(const char *path, char *why, size_t why_size);

/* Calls of at least ${bytes} let the ranks of a local group meet before a run, so that the kernels
 * may use XLA's buffers directly; SIZE_MAX: never. Ask before the first run. */
SYMTUNER_FFI_API void symtuner_ffi_zero_copy_from(size_t bytes);

/* A group whose devices are all in this process: ${ids}[i] is CUDA device ${ordinals}[i]. */
SYMTUNER_FFI_API int symtuner_ffi_open_local(const int64_t *ids, const int *ordinals, int ranks,
                                             uint32_t timeout_ms, char *why, size_t why_size);

/* 128 bytes that rank 0 makes and all ranks of symtuner_ffi_open_comm need. */
SYMTUNER_FFI_API int symtuner_ffi_unique_id(void *id, char *why, size_t why_size);

/* A group with one rank in this process, on an NCCL communicator of its own. Collective, and
 * without a time limit. The group is not open yet: ${ticket} goes to symtuner_ffi_admit() when all
 * ranks have one, else to symtuner_ffi_give_up(). It is left alone on failure. */
SYMTUNER_FFI_API int symtuner_ffi_open_comm(const int64_t *ids, int ranks, int me, int ordinal,
                                            const void *unique_id, uint32_t timeout_ms,
                                            void **ticket, char *why, size_t why_size);

/* The same on XLA's communicator, which the first run of a program brings: programs with the
 * attribute "flat" (int64 array: the groups as places in the program's list of devices) use it. */
SYMTUNER_FFI_API int symtuner_ffi_open_xla(const int64_t *ids, int ranks, int me, int ordinal,
                                           uint32_t timeout_ms, void **ticket, char *why,
                                           size_t why_size);

/* Calls find the group from now on, and *ticket is NULL. On failure it is still to be given up. */
SYMTUNER_FFI_API int symtuner_ffi_admit(void **ticket, char *why, size_t why_size);

/* Give back what the opening made; NULL: it made nothing. May wait for other ranks that do the same
 * (symtuner_ar_destroy), so no thread that is needed may call it. */
SYMTUNER_FFI_API int symtuner_ffi_give_up(void *ticket, char *why, size_t why_size);

/* A handler for the stages prepare and execute that does nothing, and what it saw: 1 when the
 * runtime offers its communicators, 0 when not, -1 before it ran. */
SYMTUNER_FFI_API struct XLA_FFI_Error *symtuner_ffi_probe(struct XLA_FFI_CallFrame *frame);
SYMTUNER_FFI_API int symtuner_ffi_probed(void);

/* Notice when the process of another rank of that group ends: ${pids}[i] is rank i's. */
SYMTUNER_FFI_API int symtuner_ffi_watch(const int64_t *ids, int ranks, const int *pids, char *why,
                                        size_t why_size);

/* Wait until the calls of all groups across processes are done; -1 when ${limit_ms} is over before.
 */
SYMTUNER_FFI_API int symtuner_ffi_settle(int limit_ms);

/* This process has begun to end. It ends by itself, with status 71 and a line on stderr, when it is
 * still there 15 s after the first of these calls and 5 s after a rank was lost that it misses: one
 * whose process ended without a goodbye, before this call or after it, or ended, with a goodbye or
 * without, before the time that symtuner_ffi_waiting() names. For jax.distributed's shutdown waits
 * just as well for a rank that was killed after its goodbye, but before it came there. */
SYMTUNER_FFI_API void symtuner_ffi_ending(void);

/* Rank ${rank} has said that it leaves; its process may live on, but will make no more calls. For
 * all groups of these ids, also those that are closed here. */
SYMTUNER_FFI_API int symtuner_ffi_goodbye(const int64_t *ids, int ranks, int rank, char *why,
                                          size_t why_size);

/* All goodbyes that were said in these groups until ${until_ms} (CLOCK_MONOTONIC) are known here;
 * later ones will not be. So a rank that is lost later is not missed for want of a goodbye. */
SYMTUNER_FFI_API int symtuner_ffi_told(const int64_t *ids, int ranks, int64_t until_ms, char *why,
                                       size_t why_size);

/* At ${at_ms} (CLOCK_MONOTONIC) this process, which has begun to end, still waited for all others
 * in jax.distributed: it misses the ranks whose processes had ended before, also those that had
 * said goodbye. */
SYMTUNER_FFI_API int symtuner_ffi_waiting(int64_t at_ms, char *why, size_t why_size);

/* Destroy all groups that are open. Waits for running calls, no longer than their time limit; a
 * group that is opened meanwhile stays. Not two at the same time. */
SYMTUNER_FFI_API int symtuner_ffi_close(char *why, size_t why_size);

/* Make running and later calls of all groups leave with an error; any thread. */
SYMTUNER_FFI_API void symtuner_ffi_abort(void);

/* "kernel ctas threads zero_copy pieces why" for a call on member ${i}, as text. */
SYMTUNER_FFI_API int symtuner_ffi_plan(int i, size_t count, int dtype, int op, char *text,
                                       size_t size);

/* What libsymtuner_ar.so has found out about the group of member ${i}: transport, limits, selection
 * table. -1 past the end, and before the first run on XLA's communicator. */
SYMTUNER_FFI_API int symtuner_ffi_describe(int i, char *text, size_t size);

/* One line on member ${i}; -1 past the end. */
SYMTUNER_FFI_API int symtuner_ffi_seat(int i, char *text, size_t size);

#endif

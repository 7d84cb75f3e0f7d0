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

/* The handler. It takes one buffer and gives one buffer. Attributes: "op" (int32, an ncclRedOp_t),
 * "ranks" (int32) and "groups" (int64 array: rows of ${ranks} JAX device ids). */
SYMTUNER_FFI_API struct XLA_FFI_Error *symtuner_ffi_all_reduce(struct XLA_FFI_CallFrame *frame);

/* The same for calls that XLA may record into command buffers (CUDA graphs). They never use XLA's
 * buffers directly, and if one of their kernels gives up, the next run reports the error. */
SYMTUNER_FFI_API struct XLA_FFI_Error *
symtuner_ffi_all_reduce_recordable(struct XLA_FFI_CallFrame *frame);

/* Load libsymtuner_ar.so from ${path}. */
SYMTUNER_FFI_API int symtuner_ffi_load(const char *path, char *why, size_t why_size);

/* For calls of at least ${bytes} the ranks of a local group meet before a run (jax/exchange.h), so
 * that the kernels can use XLA's buffers directly. SIZE_MAX: never. Call it before the first
 * run. */
SYMTUNER_FFI_API void symtuner_ffi_zero_copy_from(size_t bytes);

/* A group whose devices are all in this process: ${ids}[i] is CUDA device ${ordinals}[i]. */
SYMTUNER_FFI_API int symtuner_ffi_open_local(const int64_t *ids, const int *ordinals, int ranks,
                                             uint32_t timeout_ms, char *why, size_t why_size);

/* Make the 128 bytes that all ranks pass to symtuner_ffi_open_comm(). Rank 0 calls this. */
SYMTUNER_FFI_API int symtuner_ffi_unique_id(void *id, char *why, size_t why_size);

/* A group with one rank in this process, on an NCCL communicator of its own. Collective, without a
 * time limit. The group is not open yet: pass ${ticket} to symtuner_ffi_admit() when all ranks have
 * one, otherwise to symtuner_ffi_give_up(). On failure ${ticket} is not written. */
SYMTUNER_FFI_API int symtuner_ffi_open_comm(const int64_t *ids, int ranks, int me, int ordinal,
                                            const void *unique_id, uint32_t timeout_ms,
                                            void **ticket, char *why, size_t why_size);

/* The same on XLA's communicator, which the first run of a program brings. Programs with the
 * attribute "flat" (int64 array: the groups as places in the program's list of devices) use it. */
SYMTUNER_FFI_API int symtuner_ffi_open_xla(const int64_t *ids, int ranks, int me, int ordinal,
                                           uint32_t timeout_ms, void **ticket, char *why,
                                           size_t why_size);

/* Open the group: calls find it from now on, and *ticket becomes NULL. On failure *ticket stays and
 * must still be given up. */
SYMTUNER_FFI_API int symtuner_ffi_admit(void **ticket, char *why, size_t why_size);

/* Free what the opening made; NULL: nothing. May wait for other ranks that do the same
 * (symtuner_ar_destroy), so call it from a thread that nothing else depends on. */
SYMTUNER_FFI_API int symtuner_ffi_give_up(void *ticket, char *why, size_t why_size);

/* A handler for the stages prepare and execute that does nothing but look. symtuner_ffi_probed()
 * says what it saw: 1 if the runtime offers its communicators, 0 if not, -1 before it ran. */
SYMTUNER_FFI_API struct XLA_FFI_Error *symtuner_ffi_probe(struct XLA_FFI_CallFrame *frame);
SYMTUNER_FFI_API int symtuner_ffi_probed(void);

/* Notice when the process of another rank of this group ends. ${pids}[i] is rank i's process. */
SYMTUNER_FFI_API int symtuner_ffi_watch(const int64_t *ids, int ranks, const int *pids, char *why,
                                        size_t why_size);

/* Wait until the calls of all groups across processes are done, at most ${limit_ms}; then -1. */
SYMTUNER_FFI_API int symtuner_ffi_settle(int limit_ms);

/* Tell that this process has begun to end, and start the exit watchdog. It calls _exit(71), with a
 * line on stderr, if the process is still there 15 s after the first of these calls and 5 s after a
 * rank died that jax.distributed's shutdown waits for. Such a rank died without a goodbye; or it
 * died, with or without a goodbye, before the time given to symtuner_ffi_waiting(): it may have
 * been killed after its goodbye, but before it reached jax.distributed's shutdown. */
SYMTUNER_FFI_API void symtuner_ffi_ending(void);

/* Tell that rank ${rank} has said goodbye: its process may live on, but will make no more calls.
 * This counts for all groups of these ids, also for those that are closed here. */
SYMTUNER_FFI_API int symtuner_ffi_goodbye(const int64_t *ids, int ranks, int rank, char *why,
                                          size_t why_size);

/* Tell that we know all goodbyes in these groups up to ${until_ms} (CLOCK_MONOTONIC) and will hear
 * no later ones. So a rank that dies later is not taken for one without a goodbye. */
SYMTUNER_FFI_API int symtuner_ffi_told(const int64_t *ids, int ranks, int64_t until_ms, char *why,
                                       size_t why_size);

/* Tell that this process, which has begun to end, still waited in jax.distributed for all others at
 * ${at_ms} (CLOCK_MONOTONIC). So it waits in vain for every rank whose process ended before that,
 * even after a goodbye. */
SYMTUNER_FFI_API int symtuner_ffi_waiting(int64_t at_ms, char *why, size_t why_size);

/* Destroy all open groups, after waiting for running calls (at most their time limit). A group that
 * is opened meanwhile stays. Two threads must not call this at the same time. */
SYMTUNER_FFI_API int symtuner_ffi_close(char *why, size_t why_size);

/* Make running and later calls of all groups end with an error. Any thread may call it. */
SYMTUNER_FFI_API void symtuner_ffi_abort(void);

/* Write "kernel ctas threads zero_copy pieces why" for a call on open member ${i} of the table. */
SYMTUNER_FFI_API int symtuner_ffi_plan(int i, size_t count, int dtype, int op, char *text,
                                       size_t size);

/* Write what libsymtuner_ar.so knows about the group of member ${i}: transport, limits, selection
 * table. Returns -1 past the last member, and before the first run on XLA's communicator. */
SYMTUNER_FFI_API int symtuner_ffi_describe(int i, char *text, size_t size);

/* Write one line about member ${i}. Returns -1 past the last member. */
SYMTUNER_FFI_API int symtuner_ffi_seat(int i, char *text, size_t size);

#endif

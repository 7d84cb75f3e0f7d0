/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jax.h - what the drop-in does for libsymtuner_ffi.so, if both are in one process.
 *
 * libsymtuner_ffi.so runs collectives of JAX programs on our kernels. It makes a handle itself for
 * each group of ranks that a collective of JAX has ("JAX's groups"), and calls NCCL past the
 * drop-in (symbols.c). It finds these functions by dlsym.
 */
#ifndef ST_ENTRY_JAX_H_
#define ST_ENTRY_JAX_H_

struct st_tally_slot;

/*
 * Kernels of JAX's groups and of the program's communicators must fit on a GPU side by side
 * (settings.c). XLA runs the calls of all groups of a GPU one after another, so all of them
 * together take the place of one communicator.
 *
 * symtuner_nccl_keep_place(device):
 * From now on, and on all GPUs, keep one of the places of SYMTUNER_MAX_COMMS for JAX. Returns 1 if
 * the GPU ${device} has that place free. Returns 0 if communicators had taken all places before; it
 * may return 1 once one of them has ended. If ${device} is below 0, looks at no GPU and returns 1.
 */
__attribute__((visibility("default"))) int symtuner_nccl_keep_place(int device);

/*
 * symtuner_nccl_limit(device):
 * Return the limit for the blocks of a call of JAX's groups on the GPU ${device}, in the form of
 * config.max_ctas (symtuner_ar.h). Call this after symtuner_nccl_keep_place. If JAX's groups and
 * communicators both have handles on a GPU, those that came second must leave room for NCCL
 * (st_settings_further). So this returns a limit if a communicator was there first, and 0 (no
 * limit) if JAX kept its place first. Ranks of a group may get different results; the library takes
 * the smallest limit.
 */
__attribute__((visibility("default"))) int symtuner_nccl_limit(int device);

/* Return this process's slot in the file that SYMTUNER_RUN_FILE names (dropin/tally.h). If it has
 * none, claim one for rank ${rank} of a group of ${ranks}. Returns NULL if there is no such file or
 * no free slot, or if ${version} is not our ST_TALLY_VERSION. */
__attribute__((visibility("default"))) struct st_tally_slot *
symtuner_nccl_slot(int version, int rank, int ranks);

#endif

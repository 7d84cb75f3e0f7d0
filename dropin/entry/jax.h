/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jax.h - what the drop-in does for libsymtuner_ffi.so, if both are in one process.
 *
 * libsymtuner_ffi.so runs collectives of JAX programs on our kernels. For each group of ranks that
 * runs collectives of JAX ("JAX's groups") it makes a handle itself. It calls NCCL directly, not
 * through the drop-in (symbols.c). It finds the functions of this file by dlsym.
 */
#ifndef ST_ENTRY_JAX_H_
#define ST_ENTRY_JAX_H_

struct st_tally_slot;

/*
 * Kernels of JAX's groups and of the program's communicators must fit on a GPU side by side
 * (settings.c). XLA runs the calls of all groups of a GPU one after another, so all groups together
 * count as one communicator.
 *
 * symtuner_nccl_keep_place(device):
 * SYMTUNER_MAX_COMMS says how many communicators of a GPU may use our kernels. From now on, and on
 * all GPUs, let one communicator less do so, and leave its place to JAX. Returns 1 if that place is
 * free on GPU ${device}. Returns 0 while communicators that came earlier take up all places. If
 * ${device} is below 0, looks at no GPU and returns 1.
 */
__attribute__((visibility("default"))) int symtuner_nccl_keep_place(int device);

/*
 * symtuner_nccl_limit(device):
 * Return how many thread blocks a call of JAX's groups may have on GPU ${device}, as a value for
 * config.max_ctas (symtuner_ar.h). Call this after symtuner_nccl_keep_place. If a GPU has handles
 * of both JAX's groups and communicators, those that came second must leave room for NCCL
 * (st_settings_further). So this returns a limit if a communicator had a handle first, and 0 (no
 * limit) if JAX reserved its place first. Ranks of a group may get different results; the library
 * takes the smallest limit.
 */
__attribute__((visibility("default"))) int symtuner_nccl_limit(int device);

/* Return this process's slot in the file that SYMTUNER_RUN_FILE names (dropin/tally.h). If it has
 * none, claim one for rank ${rank} of a group of ${ranks}. Returns NULL if there is no such file or
 * no free slot, or if ${version} is not our ST_TALLY_VERSION. */
__attribute__((visibility("default"))) struct st_tally_slot *
symtuner_nccl_slot(int version, int rank, int ranks);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.h - one communicator as the tuner interface sees it. plugin/abi/tuner.c translates
 * NCCL's arguments and calls these four functions.
 *
 * Errors     if out of memory, st_tuner_open gives a NULL context; the other functions accept it
 *            and leave everything to NCCL. Only SYMTUNER_STRICT=1 makes an init fail.
 * Threads    st_tuner_decide may run on several threads at once.
 */
#ifndef ST_TUNER_H_
#define ST_TUNER_H_

#include "plugin/next/tuner.h"

struct st_tuner;

nccl_abi_result st_tuner_open(const struct st_tuner_init *init, void **ctx_out);
nccl_abi_result st_tuner_decide(void *ctx, int func, size_t bytes, int pipe_ops, float **table,
                                int n_algo, int n_proto, int reg_buff, int *n_channels);
nccl_abi_result st_tuner_chunk(void *ctx, int func, size_t bytes, int algo, int proto,
                               int n_channels, size_t *chunk_size);
nccl_abi_result st_tuner_close(void *ctx);

#endif

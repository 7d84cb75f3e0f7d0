/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.h - our tuner for one communicator. plugin/abi/tuner.c translates NCCL's arguments and
 * calls the functions below.
 *
 * Errors     if memory runs out, st_tuner_open gives NCCL a NULL context. The other functions
 *            accept a NULL context and change nothing. With SYMTUNER_STRICT=1 st_tuner_open returns
 *            an error if the rules are wrong; nothing else makes it fail.
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

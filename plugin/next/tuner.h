/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.h - one communicator in the tuner behind ours (plugin/next/open.h). We call that tuner in
 * the version of the interface that it speaks.
 *
 * We call that tuner first, with NCCL's own arguments; our rules then change the cost table that it
 * has written. If no rule covers the call, NCCL gets that tuner's answer bit for bit.
 *
 * Errors     if that tuner's init fails, we warn, and the communicator goes on without that tuner.
 *            If it fails when asked about a call, NCCL gets the error, as it would without us. If
 *            we hid the error on one rank, that rank could take another algorithm than the others.
 * Ownership  st_next_tuner_close frees the struct.
 * Threads    st_next_tuner_ask may run on several threads at once.
 */
#ifndef ST_NEXT_TUNER_H_
#define ST_NEXT_TUNER_H_

#include "nccl_abi/tuner.h"

/* What NCCL passes to init. Before v5 ${domains} and ${constants} are NULL. */
struct st_tuner_init {
    int abi; /* version of the interface, and of the layout of ${constants} */
    uint64_t comm_id;
    size_t ranks, nodes;
    nccl_abi_logger logger;
    struct nccl_abi_nvl_domains *domains;
    void *constants;
};

struct st_next_tuner;

/* Load the tuner that will be behind ours, and return whether there is one. ${chosen} is the value
 * of SYMTUNER_NEXT_TUNER. The plugin calls this before NCCL has loaded a NET library, so a tuner in
 * that library is not found. */
bool st_next_tuner_there(const char *chosen);

/* Open a communicator in the tuner behind ours. Returns NULL if there is no such tuner or its init
 * failed. Unless ${quiet}, log once per process which tuner is behind ours. */
struct st_next_tuner *st_next_tuner_open(const struct st_tuner_init *init, const char *chosen,
                                         bool quiet);

nccl_abi_result st_next_tuner_ask(const struct st_next_tuner *next, int func, size_t bytes,
                                  int pipe_ops, float **table, int n_algo, int n_proto,
                                  int reg_buff, int *n_channels);
nccl_abi_result st_next_tuner_chunk(const struct st_next_tuner *next, int func, size_t bytes,
                                    int algo, int proto, int n_channels, size_t *chunk_size);
void st_next_tuner_close(struct st_next_tuner *next); /* ${next} may be NULL */

#endif

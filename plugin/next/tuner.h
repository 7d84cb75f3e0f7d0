/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.h - the tuner behind ours: one communicator of it, spoken to in its own version.
 *
 * It is asked first, with NCCL's own arguments, and what it leaves in the cost table is what our
 * rules then start from. Where no rule covers the call, its answer reaches NCCL bit for bit.
 *
 * Errors     an init that fails is a warning, and the communicator goes on without it. NCCL gets
 *            the error of a later call, as it would without us: swallowing it on one rank could
 *            leave ranks with different algorithms.
 * Ownership  st_next_tuner_close frees. Threads: as NCCL calls, several at once per communicator.
 */
#ifndef ST_NEXT_TUNER_H_
#define ST_NEXT_TUNER_H_

#include "nccl_abi/tuner.h"

/* What NCCL passes to init; ${domains} and ${constants} are NULL before v5. */
struct st_tuner_init {
    int abi; /* version of the interface, and of the layout of ${constants} */
    uint64_t comm_id;
    size_t ranks, nodes;
    nccl_abi_logger logger;
    struct nccl_abi_nvl_domains *domains;
    void *constants;
};

struct st_next_tuner;

/* Will a tuner be chained? Loads it; ${chosen} is SYMTUNER_NEXT_TUNER. Asked early, when NCCL has
 * no NET library yet, so it does not look there. */
bool st_next_tuner_there(const char *chosen);

/* NULL: nothing to chain, or its init failed. Logs once per process what is chained, unless
 * ${quiet}. */
struct st_next_tuner *st_next_tuner_open(const struct st_tuner_init *init, const char *chosen,
                                         bool quiet);

nccl_abi_result st_next_tuner_ask(const struct st_next_tuner *next, int func, size_t bytes,
                                  int pipe_ops, float **table, int n_algo, int n_proto,
                                  int reg_buff, int *n_channels);
nccl_abi_result st_next_tuner_chunk(const struct st_next_tuner *next, int func, size_t bytes,
                                    int algo, int proto, int n_channels, size_t *chunk_size);
void st_next_tuner_close(struct st_next_tuner *next); /* NULL is allowed */

#endif

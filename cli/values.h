/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - reads values of options that several commands have.
 *
 * Every function returns false, with the reason and the cure in ${error}, if ${value} is wrong.
 * Units: bytes. Ownership: nothing is kept. Threads: any; pure.
 */
#ifndef ST_VALUES_H_
#define ST_VALUES_H_

#include <stdint.h>

#include "cli/options.h"
#include "symtuner_why.h"

/* For help texts: the types that symtuner_dtype_parse knows. test/cli/options.sh tries them all. */
#define ST_TYPES_HELP                                                                              \
    "types: i8 u8 i32 u32 i64 u64 f16 f32 f64 bf16 f8e4m3 f8e5m2, or in the words of jax, torch\n" \
    "and numpy: float32, bfloat16, half, fp16, float8_e4m3fn, torch.float16, ...\n"

bool st_read_coll(const char *value, enum symtuner_coll *out, char error[ST_OPTION_ERROR]);

/* "allreduce,allgather" or "all" as a bit for each collective. */
bool st_read_colls(const char *value, unsigned *out, char error[ST_OPTION_ERROR]);

bool st_read_dtype(const char *value, int *out, char error[ST_OPTION_ERROR]);
bool st_read_op(const char *value, int *out, char error[ST_OPTION_ERROR]);

/* "2.28.9" as 22809. For a file the error names --library. */
bool st_read_release(const char *value, int *out, char error[ST_OPTION_ERROR]);

/* "1KiB..1GiB"; a side that is left out stays as it is. */
bool st_read_range(const char *value, uint64_t *low, uint64_t *high, char error[ST_OPTION_ERROR]);

/* "2,4,8" for --${name}: at most ${room} numbers from 1 to ${most}. */
bool st_read_numbers(const char *name, const char *value, int most, int room, int *out, int *n_out,
                     char error[ST_OPTION_ERROR]);

/* 21 costs in microseconds from tree/ll to pat/simple. */
bool st_read_table(const char *value, float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS],
                   char error[ST_OPTION_ERROR]);

/* "sym" or "none/window": how NCCL knows the send buffer and the receive buffer. */
bool st_read_buffers(const char *value, enum symtuner_reg *send, enum symtuner_reg *recv,
                     char error[ST_OPTION_ERROR]);

/* Whether a size is one rank's part, which a program passes, or the whole call, NCCL's nBytes,
 * which rules and ledgers mean. They differ only for AllGather and ReduceScatter. */
enum st_whose { ST_WHOSE_UNSAID, ST_WHOSE_RANK, ST_WHOSE_CALL };

/* "64KiB", or "16384el" for elements; either may end in "/rank" or "/call". */
struct st_size {
    uint64_t number; /* bytes, or elements */
    bool elements;
    enum st_whose whose;
};
bool st_read_size(const char *value, struct st_size *out, char error[ST_OPTION_ERROR]);

/* Do ${ranks} ranks fit on ${nodes} nodes of ${gpus} GPUs each (0: not known)? */
bool st_ranks_fit(int ranks, int nodes, int gpus, char error[ST_OPTION_ERROR]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - reads the values of options and words that several commands share.
 *
 * Every function returns true, or false if the value is wrong, with the reason and the cure in
 * ${error}.
 * Units: bytes. Ownership: nothing is kept. Threads: any; pure.
 */
#ifndef ST_VALUES_H_
#define ST_VALUES_H_

#include <stdint.h>

#include "cli/options.h"
#include "symtuner_why.h"

/* Help text: the types that symtuner_dtype_parse knows. test/cli/options.sh tries them all. */
#define ST_TYPES_HELP                                                                              \
    "types: i8 u8 i32 u32 i64 u64 f16 f32 f64 bf16 f8e4m3 f8e5m2, or in the words of jax, torch\n" \
    "and numpy: float32, bfloat16, half, fp16, float8_e4m3fn, torch.float16, ...\n"

/* ---- readers for rows of the kind ST_OPTION_READ --------------------------------------------- */

/* Read "allreduce,allgather" or "all" into an unsigned, which gets bit 1 << coll for each
 * collective. */
st_option_reader st_read_colls;

/* st_read_dtype reads a type, st_read_op an operator. Each stores it in an int or an enum. */
st_option_reader st_read_dtype, st_read_op;

/* Read a release such as "2.28.9", which becomes the int 22809. If the value looks like a file, the
 * error points to --library. */
st_option_reader st_read_release;

/* Read the name of a GPU into a struct symtuner_machine. */
st_option_reader st_read_gpu;

/* ---- other readers --------------------------------------------------------------------------- */

bool st_read_coll(const char *value, enum symtuner_coll *out, char error[ST_OPTION_ERROR]);

/* Read a range of sizes such as "1KiB..1GiB". If the value has no lower or no upper size, as in
 * "1KiB..", ${low} or ${high} stays unchanged. */
bool st_read_range(const char *value, uint64_t *low, uint64_t *high, char error[ST_OPTION_ERROR]);

/* Read a list such as "2,4,8", the value of option --${name}, into ${out}, and the count of its
 * numbers into ${n_out}. The list has at most ${room} numbers, each from 1 to ${most}. */
bool st_read_numbers(const char *name, const char *value, int most, int room, int *out, int *n_out,
                     char error[ST_OPTION_ERROR]);

/* Read a cost table: 21 costs in microseconds, separated by commas, in NCCL's order, from tree/ll
 * to pat/simple. */
bool st_read_table(const char *value, float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS],
                   char error[ST_OPTION_ERROR]);

/* Read how the buffers are registered with NCCL: one word for both buffers, such as "sym", or one
 * for each as SEND/RECEIVE, such as "none/window". */
bool st_read_buffers(const char *value, enum symtuner_reg *send, enum symtuner_reg *recv,
                     char error[ST_OPTION_ERROR]);

/* What a size covers. RANK: the part of one rank, which is what a program passes to NCCL. CALL: the
 * whole call, NCCL's nBytes, which is what rules and ledgers have. The two sizes differ only for
 * AllGather and ReduceScatter. */
enum st_whose { ST_WHOSE_UNSAID, ST_WHOSE_RANK, ST_WHOSE_CALL };

/* A size as the user writes it: "64KiB", or "16384el" for elements. "/rank" or "/call" may
 * follow. */
struct st_size {
    uint64_t number; /* how many elements if ${elements}, else bytes */
    bool elements;
    enum st_whose whose; /* UNSAID: neither "/rank" nor "/call" was given */
};
bool st_read_size(const char *value, struct st_size *out, char error[ST_OPTION_ERROR]);

/* Check that each of the ${nodes} nodes gets equally many of the ${ranks} ranks, and has a GPU for
 * each of its ranks. ${gpus} is the number of GPUs of a node, 0 if not known. */
bool st_ranks_fit(int ranks, int nodes, int gpus, char error[ST_OPTION_ERROR]);

#endif

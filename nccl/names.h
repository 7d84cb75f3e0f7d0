/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - translates words into numbers and back, and finds the word nearest to a wrong one.
 *
 * Pure: tables only. Threads: any. Errors: -1 or NULL for "unknown".
 */
#ifndef ST_NAMES_H_
#define ST_NAMES_H_

#include <stdbool.h>
#include <stddef.h>

struct st_words {
    const char *const *word; /* word[n] is the word for number n; NULL: n has no word */
    int count;
};

extern const struct st_words st_colls, st_algos, st_protos;

/* st_dtype_words are NCCL's data types. st_op_words are the operators that rules may name.
 * st_all_op_words are the same operators and premulsum, which stands for every operator that an
 * application creates. */
extern const struct st_words st_dtype_words, st_op_words, st_all_op_words;

/* How a buffer is registered with NCCL: the words of enum symtuner_reg. */
extern const struct st_words st_reg_words;

/* The kernels of libsymtuner_ar.so, in the order of its enum ar_family;
 * test/kernels/choose/check_rules.c compares the two. */
extern const struct st_words st_kernel_words;

/* The collectives of libsymtuner_ar.so: the words of enum symtuner_ar_coll, in its order. Files
 * that do not include CUDA's headers use enum st_kernel_coll, which has the same values. */
extern const struct st_words st_kernel_coll_words;
enum st_kernel_coll { ST_KERNEL_ALL_REDUCE, ST_KERNEL_REDUCE_SCATTER, ST_KERNEL_ALL_GATHER };

/* What else runs on the GPU beside the kernels of libsymtuner_ar.so: the words of enum
 * symtuner_ar_beside. */
extern const struct st_words st_beside_words;

/* A message size in bytes. For longer messages the table of libsymtuner_ar.so chooses a kernel with
 * few blocks, or NCCL, because compute kernels that run at the same time may need the
 * multiprocessors. The limit has no effect if the application says that no other kernels run. */
enum { ST_BESIDE_LIMIT = 4 << 20 };

/* Are the ${len} bytes at ${a} and ${b} equal, without regard to case? Only the letters A to Z have
 * case. strncasecmp depends on the locale of the program: in Turkish I and i are different
 * letters. */
bool st_word_equal(const char *a, const char *b, size_t len);

/* Find the ${len} bytes at ${text} in ${words}, without regard to case. Returns the index, or -1 if
 * they are not one of the words. */
int st_word_find(const struct st_words *words, const char *text, size_t len);

/* Is ${word} in a list such as "steer|observe|off"? ${compare} is strncmp, or strncasecmp to ignore
 * case. */
bool st_word_listed(const char *list, const char *word,
                    int (*compare)(const char *, const char *, size_t));

/* Return how many edits turn ${a} into ${b}; an edit adds, removes or replaces a letter, or swaps
 * two neighbours. Case is ignored. Returns 32 if ${a} or ${b} has more than 32 letters. */
int st_word_distance(const char *a, size_t na, const char *b, size_t nb);

/* NCCL cuts the name of a tuner, profiler or env plugin after this many bytes. */
enum { ST_NCCL_NAME_MAX = 254 };

/* Return the word that ${text} was probably meant to be; NULL if no word is near enough. */
const char *st_word_nearest(const struct st_words *words, const char *text, size_t len);

#endif

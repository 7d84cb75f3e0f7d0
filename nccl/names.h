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
    const char *const *word; /* index is the number; a NULL entry is not a word */
    int count;
};

extern const struct st_words st_colls, st_algos, st_protos;

/* NCCL's data types; the operators that rules may name; and all operators, which adds premulsum for
 * those that an application makes. */
extern const struct st_words st_dtype_words, st_op_words, st_all_op_words;

/* How NCCL knows a buffer: enum symtuner_reg. */
extern const struct st_words st_reg_words;

/* The kernels of libsymtuner_ar.so in the order of its enum ar_family, which
 * test/kernels/choose/check_rules.c compares. */
extern const struct st_words st_kernel_words;

/* The environment variables of libsymtuner_ar.so, in full. Case counts. */
extern const struct st_words st_kernel_variables;

/* The number of the word of ${len} bytes at ${text}, ignoring case; -1 when it is none. */
int st_word_find(const struct st_words *words, const char *text, size_t len);

/* Whether ${word} is one of a list such as "steer|observe|off". ${compare}: strncmp, or strncasecmp
 * where case does not count. */
bool st_word_listed(const char *list, const char *word,
                    int (*compare)(const char *, const char *, size_t));

/* How many edits turn ${a} into ${b}, each a letter more, less or other, or two neighbours swapped;
 * case does not count. At least 32 if one of them has more than 32 letters. */
int st_word_distance(const char *a, size_t na, const char *b, size_t nb);

/* The word nearest to ${text}, or NULL when none is near enough to be meant. */
const char *st_word_nearest(const struct st_words *words, const char *text, size_t len);

#endif

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

/* NCCL's data types; the operators that rules may name; and these operators plus premulsum, which
 * stands for every operator that an application makes. */
extern const struct st_words st_dtype_words, st_op_words, st_all_op_words;

/* How a buffer is registered with NCCL: the words of enum symtuner_reg. */
extern const struct st_words st_reg_words;

/* The kernels of libsymtuner_ar.so, in the order of its enum ar_family;
 * test/kernels/choose/check_rules.c compares the two. */
extern const struct st_words st_kernel_words;

/* What else runs on the GPU beside the kernels of libsymtuner_ar.so: the words of enum
 * symtuner_ar_beside. */
extern const struct st_words st_beside_words;

/* In bytes. If it is not known that the kernels of libsymtuner_ar.so run alone, and NCCL is there,
 * the library's table leaves messages above this size to NCCL. */
enum { ST_BESIDE_LIMIT = 4 << 20 };

/* The environment variables of libsymtuner_ar.so, in full. Case counts. */
extern const struct st_words st_kernel_variables;

/* Return the index in ${words} of the ${len} bytes at ${text}, ignoring case; -1 if they are not
 * one of the words. */
int st_word_find(const struct st_words *words, const char *text, size_t len);

/* Is ${word} one of a list such as "steer|observe|off"? ${compare}: strncmp, or strncasecmp to
 * ignore case. */
bool st_word_listed(const char *list, const char *word,
                    int (*compare)(const char *, const char *, size_t));

/* Return how many edits turn ${a} into ${b}; an edit adds, removes or replaces a letter, or swaps
 * two neighbours. Case is ignored. Returns 32 if ${a} or ${b} has more than 32 letters. */
int st_word_distance(const char *a, size_t na, const char *b, size_t nb);

/* Return the word nearest to ${text}; NULL if none is so near that it was probably meant. */
const char *st_word_nearest(const struct st_words *words, const char *text, size_t len);

#endif

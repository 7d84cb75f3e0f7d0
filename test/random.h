/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h - random numbers that repeat: the seed is printed when a property fails.
 *
 * SYMTUNER_TEST_SEED and SYMTUNER_TEST_ROUNDS are not the plugin's variables; tests read TEST_SEED
 * and TEST_ROUNDS so that the plugin's own check for unknown SYMTUNER_* names stays quiet.
 */
#ifndef TEST_RANDOM_H_
#define TEST_RANDOM_H_

#include <stdint.h>
#include <stdlib.h>

struct t_random {
    uint64_t state;
};

static inline uint64_t t_seed(void)
{
    const char *text = getenv("TEST_SEED");

    return text ? strtoull(text, NULL, 0) | 1 : 0x9e3779b97f4a7c15ull;
}

/* How often a property is tried: ${usual} times, or TEST_ROUNDS (valgrind needs fewer). */
static inline long t_rounds(long usual)
{
    const char *text = getenv("TEST_ROUNDS");

    return text ? strtol(text, NULL, 0) : usual;
}

static inline uint64_t t_next(struct t_random *random) /* xorshift64* */
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * 0x2545f4914f6cdd1dull;
}

/* 0 .. n - 1 */
static inline int t_below(struct t_random *random, int n)
{
    return (int)(t_next(random) >> 33) % n;
}

/* A size with a uniformly distributed exponent, so that small and huge sizes are equally likely. */
static inline uint64_t t_size(struct t_random *random)
{
    return t_next(random) >> t_below(random, 64);
}

#endif

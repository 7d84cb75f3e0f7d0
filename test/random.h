/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h - random numbers that can be repeated, because a test that fails prints the seed.
 *
 * The variables are named TEST_SEED and TEST_ROUNDS, without SYMTUNER_, because the plugin warns
 * about unknown variables SYMTUNER_*.
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

/* Return how often to try a property: ${usual} times, or the value of TEST_ROUNDS if it is set.
 * Valgrind needs fewer rounds. */
static inline long t_rounds(long usual)
{
    const char *text = getenv("TEST_ROUNDS");

    return text ? strtol(text, NULL, 0) : usual;
}

/* The generator is xorshift64*. */
static inline uint64_t t_next(struct t_random *random)
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * 0x2545f4914f6cdd1dull;
}

/* Return a random number from 0 to n - 1. */
static inline int t_below(struct t_random *random, int n)
{
    return (int)(t_next(random) >> 33) % n;
}

/* Return a size whose exponent is uniformly distributed, so that small and huge sizes are equally
 * likely. */
static inline uint64_t t_size(struct t_random *random)
{
    return t_next(random) >> t_below(random, 64);
}

#endif

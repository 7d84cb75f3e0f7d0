/* SPDX-License-Identifier: Apache-2.0 */
/* call_values.h - makes the ranks' inputs to a random call, and checks its outputs. */
#ifndef ST_TEST_CALL_VALUES_H_
#define ST_TEST_CALL_VALUES_H_

#include <stddef.h>

struct call {
    int coll; /* enum ar_coll; in reduce-scatter and all-gather ${count} is the count of one part */
    const char *kernel;
    int dtype, op, ctas, threads;
    size_t count, shift;
    int in_place, registered, salt;
    /* The buffers of each rank are aligned in a way of their own, and only the calls of some ranks
     * are in place. */
    int apart;
};

/* Write element ${i} of rank ${rank}'s input into the message at ${p}. */
void values_put(const struct call *c, char *p, int rank, size_t i);

/* Write the scalar by which AR_PREMUL multiplies the input of rank ${rank} to ${p}. */
void values_put_scalar(const struct call *c, char *p, int rank);

/* Return whether the element at ${p} is the result (the sum, product, ...) of element ${i} of the
 * inputs of ${ranks} ranks. */
int values_right(const struct call *c, int ranks, const char *p, size_t i);

/* Return whether the element at ${p} is element ${i} of rank ${rank}'s input, bit by bit. */
int values_same(const struct call *c, const char *p, int rank, size_t i);

#endif

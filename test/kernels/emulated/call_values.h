/* SPDX-License-Identifier: Apache-2.0 */
/* call_values.h - what the ranks of a random call put in, and what must come out. */
#ifndef ST_TEST_CALL_VALUES_H_
#define ST_TEST_CALL_VALUES_H_

#include <stddef.h>

struct call {
    const char *kernel;
    int dtype, op, ctas, threads;
    size_t count, shift;
    int in_place, registered, salt;
    int apart; /* each rank's buffers are aligned in their own way, and perhaps in place alone */
};

/* Element ${i} of rank ${rank}'s input, into the message at ${p}. */
void values_put(const struct call *c, char *p, int rank, size_t i);

/* Is element ${i} of the message at ${recv} the result for ${ranks} ranks? */
int values_right(const struct call *c, int ranks, const char *recv, size_t i);

#endif

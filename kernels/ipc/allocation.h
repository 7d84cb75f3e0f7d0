/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.h - which allocation of a GPU's memory holds a buffer. */
#ifndef AR_ALLOCATION_H_
#define AR_ALLOCATION_H_

#include <stdbool.h>
#include <stddef.h>

struct ar_allocation {
    unsigned long long id; /* never given again in this process, unlike the address */
    char *base;
    size_t bytes;
};

/* Find the allocation that holds ${bytes} at ${p}, in the memory of ${device}. Returns false if
 * there is none, or if the driver cannot tell. */
bool ar_allocation_find(const void *p, size_t bytes, int device, struct ar_allocation *found);

#endif

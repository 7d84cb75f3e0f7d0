/* SPDX-License-Identifier: Apache-2.0 */
/* created.h - takes GPU memory by cuMemCreate, as XLA does for its pool. An error ends the
 * program. */
#ifndef ST_GPU_CREATED_H_
#define ST_GPU_CREATED_H_

#include <stddef.h>

enum { CREATED_STEP = 2 << 20 }; /* all sizes must be multiples of it */

/* Reserve ${bytes} of addresses. */
char *created_reserve(size_t bytes);

/* Take ${bytes} of memory of GPU ${device}, which other processes can map by a file descriptor, and
 * map it at ${at}. Returns ${at}. created_free frees the memory, but keeps the addresses
 * reserved. */
char *created_map(char *at, size_t bytes, int device);
void created_free(char *at, size_t bytes);

/* Return what the driver says about the memory at ${p}, as one line without a newline. */
const char *created_facts(const void *p);

/* Start a kernel that runs until created_spin_end. */
void created_spin(void);
void created_spin_end(void);

#endif

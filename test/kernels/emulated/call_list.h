/* SPDX-License-Identifier: Apache-2.0 */
/* call_list.h - makes lists of random calls, which all ranks make one after the other. */
#ifndef ST_TEST_CALL_LIST_H_
#define ST_TEST_CALL_LIST_H_

#include <stdbool.h>

#include "test/kernels/emulated/call_values.h"

#define MAX_BYTES 9000 /* the largest size of a buffer */

/* What the calls of a list have in common. If no member is set, they have nothing in common. */
struct list_kind {
    bool every_way;     /* buffers begin at every byte at which they may begin */
    bool every_sum;     /* each kernel and each float type has its turn */
    bool every_product; /* all calls are PreMulSum */
    bool three_colls;   /* also reduce-scatters and all-gathers; otherwise only all-reduces */
    bool unregistered;  /* the messages have whole words and lie in unregistered buffers */
};

/* The kernels of all-reduce. The first LIST_ANYWHERE take buffers at any address. */
enum { LIST_ANYWHERE = 9, LIST_KERNELS = 14 };
extern const char *const list_kernels[LIST_KERNELS];

/* Return a random number below ${below}. */
unsigned list_draw(unsigned *state, unsigned below);

/* Fill ${list} with random calls of ${ranks} ranks, each with a kernel that can run it. If ${only}
 * is not NULL, all calls are on the kernel of that name. */
void list_make(struct call *list, int calls, const struct list_kind *kind, unsigned seed, int ranks,
               const char *only);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * side.h - streams of the library, on which a part of a call runs beside the caller's stream.
 *
 * A stream that waits for an event of a capture joins the capture, and stays in it until the
 * capture ends. Until then no call outside of that capture can use the stream. So the library may
 * need several streams for the same work, and each call takes one that it can use.
 */
#ifndef AR_SIDE_H_
#define AR_SIDE_H_

#include "kernels/group/handle.h"

struct ar_side {
    struct ar_side *next;
    cudaStream_t stream;
};

/* Set *out to a stream of *list that a call in the capture ${capture} can use; 0: a call outside of
 * captures. If there is none, make one on the current GPU, and add it to *list. */
ncclResult_t ar_side_find(symtuner_ar *h, struct ar_side **list, unsigned long long capture,
                          cudaStream_t *out);

/* Destroy all streams of ${list}. */
void ar_side_free(struct ar_side *list);

#endif

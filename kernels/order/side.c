/* SPDX-License-Identifier: Apache-2.0 */
/* side.c - streams of the library, on which a part of a call runs beside the caller's stream. */
#include "kernels/order/side.h"

#include <stdlib.h>

#include "kernels/group/error.h"
#include "kernels/order/capture.h"

/* Return whether a call in ${capture} can use the stream ${side}. */
static bool is_usable(cudaStream_t side, unsigned long long capture)
{
    struct ar_capture in = {0};

    if (ar_capture_look(side, &in) == cudaSuccess)
        return !in.broken && (in.id == 0 || in.id == capture);
    cudaGetLastError();
    return false;
}

ncclResult_t ar_side_find(symtuner_ar *h, struct ar_side **list, unsigned long long capture,
                          cudaStream_t *out)
{
    struct ar_side **end = list, *side;
    enum cudaStreamCaptureMode mode;
    cudaError_t error;

    for (; *end != NULL; end = &(*end)->next)
        if (is_usable((*end)->stream, capture)) {
            *out = (*end)->stream;
            return ncclSuccess;
        }
    side = calloc(1, sizeof *side);
    if (side == NULL)
        return ar_fail(h, ncclSystemError, "out of memory");
    mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    error = cudaStreamCreateWithFlags(&side->stream, cudaStreamNonBlocking);
    ar_capture_mode(mode);
    if (error != cudaSuccess) {
        free(side);
        return ar_fail_cuda(h, error, "make a stream beside the caller's");
    }
    *end = side;
    *out = side->stream;
    return ncclSuccess;
}

void ar_side_free(struct ar_side *list)
{
    for (struct ar_side *side = list, *next; side != NULL; side = next) {
        next = side->next;
        cudaStreamDestroy(side->stream);
        free(side);
    }
}

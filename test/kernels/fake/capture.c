/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - what the fake CUDA (cuda.h) knows of captures besides graphs. */
#include <cuda_runtime_api.h>

#include "test/kernels/fake/cuda.h"

static _Thread_local enum cudaStreamCaptureMode capture_mode;

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = fake.capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode old = capture_mode;

    capture_mode = *mode;
    *mode = old;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return cudaMemset(p, value, bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* capture_info.h - cudaStreamGetCaptureInfo, whose name and parameters differ between CUDA 12 and 13. */
#ifndef ST_TEST_FAKE_CAPTURE_INFO_H_
#define ST_TEST_FAKE_CAPTURE_INFO_H_

#include <cuda_runtime_api.h>

/* What both call; each fake CUDA has its own. ${graph} may be NULL. */
cudaError_t fake_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                              unsigned long long *id, cudaGraph_t *graph);

#endif

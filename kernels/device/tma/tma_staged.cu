/* SPDX-License-Identifier: Apache-2.0 */
/* tma_staged.cu - compiles the all-reduce of tma_staged.cuh. */
#include "kernels/device/tma/tma_staged.cuh"

extern "C" const struct ar_kernel_row ar_kernels_tma_staged = {{
    AR_TMA_STAGED_FAST(ar::sum_f32, AR_ALL_REDUCE),
    AR_TMA_STAGED_FAST(ar::sum_16bit<ar::half_codec>, AR_ALL_REDUCE),
    AR_TMA_STAGED_FAST(ar::sum_16bit<ar::bf16_codec>, AR_ALL_REDUCE),
    AR_TMA_STAGED_SMALL(ar::native, AR_ALL_REDUCE),
    AR_TMA_STAGED_SMALL(ar::wide, AR_ALL_REDUCE),
}};

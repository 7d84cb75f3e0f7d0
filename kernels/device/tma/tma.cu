/* SPDX-License-Identifier: Apache-2.0 */
/* tma.cu - compiles the all-reduce of tma.cuh. */
#include "kernels/device/tma/tma.cuh"

extern "C" const struct ar_kernel_row ar_kernels_tma = {{
    AR_TMA_FAST(ar::sum_f32, AR_ALL_REDUCE),
    AR_TMA_FAST(ar::sum_16bit<ar::half_codec>, AR_ALL_REDUCE),
    AR_TMA_FAST(ar::sum_16bit<ar::bf16_codec>, AR_ALL_REDUCE),
    AR_TMA_SMALL(ar::native, AR_ALL_REDUCE),
    AR_TMA_SMALL(ar::wide, AR_ALL_REDUCE),
}};

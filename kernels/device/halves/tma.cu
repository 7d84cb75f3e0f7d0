/* SPDX-License-Identifier: Apache-2.0 */
/* tma.cu - the reduce-scatter and the all-gather of tma.cuh. The host selects them only for parts
 * of whole words that begin at multiples of 16 bytes in the registered buffers. The all-reduce of
 * kernels/engines/reduce.c begins with the same reduce-scatter. */
#include "kernels/device/tma/tma.cuh"

#define SCATTER                                                                                    \
    {                                                                                              \
        {                                                                                          \
            AR_TMA_FAST(ar::sum_f32, AR_REDUCE_SCATTER),                                           \
                AR_TMA_FAST(ar::sum_16bit<ar::half_codec>, AR_REDUCE_SCATTER),                     \
                AR_TMA_FAST(ar::sum_16bit<ar::bf16_codec>, AR_REDUCE_SCATTER),                     \
                AR_TMA_SMALL(ar::native, AR_REDUCE_SCATTER),                                       \
                AR_TMA_SMALL(ar::wide, AR_REDUCE_SCATTER),                                         \
        }                                                                                          \
    }

extern "C" const struct ar_kernel_row ar_scatter_tma = SCATTER;
extern "C" const struct ar_kernel_row ar_kernels_tma_engines = SCATTER;

extern "C" const struct ar_kernel_row ar_gather_tma = {{
    AR_TMA_SMALL(ar::native, AR_ALL_GATHER),
}};

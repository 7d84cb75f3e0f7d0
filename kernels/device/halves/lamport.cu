/* SPDX-License-Identifier: Apache-2.0 */
/* lamport.cu - reduce-scatter in form LAMPORT (words of 16 bytes of data), for f32, f16 and bf16.
 * There is no all-gather, because this form changes the bits of some NaNs. */
#include "kernels/device/halves/words.cuh"

extern "C" const struct ar_kernel_row ar_scatter_one_lamport = {{
    AR_SCATTER_FAST(ar::form_lamport, ar::sum_f32),
    AR_SCATTER_FAST(ar::form_lamport, ar::sum_16bit<ar::half_codec>),
    AR_SCATTER_FAST(ar::form_lamport, ar::sum_16bit<ar::bf16_codec>),
    {},
    {},
    AR_SCATTER_SMALL(ar::form_lamport, ar::premul<ar::sum_f32>),
    AR_SCATTER_SMALL(ar::form_lamport, ar::premul<ar::sum_16bit<ar::half_codec>>),
    AR_SCATTER_SMALL(ar::form_lamport, ar::premul<ar::sum_16bit<ar::bf16_codec>>),
}};

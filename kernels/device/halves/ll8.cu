/* SPDX-License-Identifier: Apache-2.0 */
/* ll8.cu - reduce-scatter and all-gather in form LL8 (a flag of 4 bytes after every 4 bytes of
 * data), for any type. */
#include "kernels/device/halves/words.cuh"

extern "C" const struct ar_kernel_row ar_scatter_one_ll8 = {{
    AR_SCATTER_FAST(ar::form_ll8, ar::sum_f32),
    AR_SCATTER_FAST(ar::form_ll8, ar::sum_16bit<ar::half_codec>),
    AR_SCATTER_FAST(ar::form_ll8, ar::sum_16bit<ar::bf16_codec>),
    AR_SCATTER_SMALL(ar::form_ll8, ar::native),
    AR_SCATTER_SMALL(ar::form_ll8, ar::wide),
    AR_SCATTER_SMALL(ar::form_ll8, ar::premul<ar::sum_f32>),
    AR_SCATTER_SMALL(ar::form_ll8, ar::premul<ar::sum_16bit<ar::half_codec>>),
    AR_SCATTER_SMALL(ar::form_ll8, ar::premul<ar::sum_16bit<ar::bf16_codec>>),
    AR_SCATTER_SMALL(ar::form_ll8, ar::premul<ar::native>),
    AR_SCATTER_SMALL(ar::form_ll8, ar::premul<ar::wide>),
}};

extern "C" const struct ar_kernel_row ar_gather_one_ll8 = {{AR_GATHER(ar::form_ll8)}};

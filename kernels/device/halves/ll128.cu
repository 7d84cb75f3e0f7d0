/* SPDX-License-Identifier: Apache-2.0 */
/* ll128.cu - reduce-scatter and all-gather in form LL128 (a flag in each 128-byte line), for NVLink
 * and any type. */
#include "kernels/device/halves/words.cuh"

extern "C" const struct ar_kernel_row ar_scatter_one_ll128 = {{
    AR_SCATTER_FAST(ar::form_ll128, ar::sum_f32),
    AR_SCATTER_FAST(ar::form_ll128, ar::sum_16bit<ar::half_codec>),
    AR_SCATTER_FAST(ar::form_ll128, ar::sum_16bit<ar::bf16_codec>),
    AR_SCATTER_SMALL(ar::form_ll128, ar::native),
    AR_SCATTER_SMALL(ar::form_ll128, ar::wide),
}};

extern "C" const struct ar_kernel_row ar_gather_one_ll128 = {{AR_GATHER(ar::form_ll128)}};

/* SPDX-License-Identifier: Apache-2.0 */
/* two_ll128.cu - two-shot kernels in form LL128 (a flag in each 128-byte line), for NVLink and any
 * type. */
#include "kernels/device/twoshot.cuh"

extern "C" const struct ar_kernel_row ar_kernels_two_ll128 = {{
    AR_TWOSHOT_FAST(ar::form_ll128, ar::sum_f32),
    AR_TWOSHOT_FAST(ar::form_ll128, ar::sum_16bit<ar::half_codec>),
    AR_TWOSHOT_FAST(ar::form_ll128, ar::sum_16bit<ar::bf16_codec>),
    AR_TWOSHOT_FAST(ar::form_ll128, ar::native),
    AR_TWOSHOT_SMALL(ar::form_ll128, ar::wide),
}};

/* SPDX-License-Identifier: Apache-2.0 */
/* one_ll128.cu - one-shot kernels in form LL128 (a flag in each 128-byte line), for NVLink and any
 * type. */
#include "kernels/device/oneshot.cuh"

extern "C" const struct ar_kernel_row ar_kernels_one_ll128 = {{
    AR_ONESHOT_FAST(ar::form_ll128, ar::sum_f32),
    AR_ONESHOT_FAST(ar::form_ll128, ar::sum_16bit<ar::half_codec>),
    AR_ONESHOT_FAST(ar::form_ll128, ar::sum_16bit<ar::bf16_codec>),
    AR_ONESHOT_FAST(ar::form_ll128, ar::native),
    AR_ONESHOT_SMALL(ar::form_ll128, ar::wide),
}};

/* SPDX-License-Identifier: Apache-2.0 */
/* two_ll8.cu - two-shot kernels in form LL8 (a flag of 4 bytes after every 4 bytes of data), for
 * the smallest messages of any type. */
#include "kernels/device/twoshot.cuh"

extern "C" const struct ar_kernel_row ar_kernels_two_ll8 = {{
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::sum_f32),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::sum_16bit<ar::half_codec>),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::sum_16bit<ar::bf16_codec>),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::native),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::wide),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::premul<ar::sum_f32>),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::premul<ar::sum_16bit<ar::half_codec>>),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::premul<ar::sum_16bit<ar::bf16_codec>>),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::premul<ar::native>),
    AR_TWOSHOT_SMALL(ar::form_ll8, ar::premul<ar::wide>),
}};

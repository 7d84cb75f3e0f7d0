/* SPDX-License-Identifier: Apache-2.0 */
/* one_lamport.cu - one-shot kernels in form LAMPORT (words of 16 bytes of data), for f32, f16 and
 * bf16. */
#include "kernels/device/oneshot.cuh"

extern "C" const struct ar_kernel_row ar_kernels_one_lamport = {{
    AR_ONESHOT_FAST(ar::form_lamport, ar::sum_f32),
    AR_ONESHOT_FAST(ar::form_lamport, ar::sum_16bit<ar::half_codec>),
    AR_ONESHOT_FAST(ar::form_lamport, ar::sum_16bit<ar::bf16_codec>),
    {},
    {},
    AR_ONESHOT_SMALL(ar::form_lamport, ar::premul<ar::sum_f32>),
    AR_ONESHOT_SMALL(ar::form_lamport, ar::premul<ar::sum_16bit<ar::half_codec>>),
    AR_ONESHOT_SMALL(ar::form_lamport, ar::premul<ar::sum_16bit<ar::bf16_codec>>),
}};

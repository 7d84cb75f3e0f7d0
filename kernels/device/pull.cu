/* SPDX-License-Identifier: Apache-2.0 */
/* pull.cu - the kernels of pull.cuh that load and store without multicast, for registered buffers
 * and any type. */
#include "kernels/device/pull.cuh"

#define AR_PULL(R, one)                                                                            \
    {                                                                                              \
        (const void *)&ar::pull<ar::spread<R>, one>                                                \
    }

extern "C" const struct ar_kernel_row ar_kernels_pull = {{
    AR_PULL(ar::sum_f32, false),
    AR_PULL(ar::sum_16bit<ar::half_codec>, false),
    AR_PULL(ar::sum_16bit<ar::bf16_codec>, false),
    AR_PULL(ar::native, false),
    AR_PULL(ar::wide, false),
}};

extern "C" const struct ar_kernel_row ar_kernels_pull_one = {{
    AR_PULL(ar::sum_f32, true),
    AR_PULL(ar::sum_16bit<ar::half_codec>, true),
    AR_PULL(ar::sum_16bit<ar::bf16_codec>, true),
    AR_PULL(ar::native, true),
    AR_PULL(ar::wide, true),
}};

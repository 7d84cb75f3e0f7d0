/* SPDX-License-Identifier: Apache-2.0 */
/* pull.cu - the two-shot with barriers over unicast pointers: registered buffers, any type. */
#include "kernels/device/pull.cuh"

#define ST_PULL(R, one)                                                                            \
    {                                                                                              \
        (const void *)&st::pull<st::spread<R>, one>                                                \
    }

extern "C" const struct st_kernel_row st_kernels_pull = {{
    ST_PULL(st::sum_f32, false),
    ST_PULL(st::sum_16bit<st::half_codec>, false),
    ST_PULL(st::sum_16bit<st::bf16_codec>, false),
    ST_PULL(st::native, false),
    ST_PULL(st::wide, false),
}};

extern "C" const struct st_kernel_row st_kernels_pull_one = {{
    ST_PULL(st::sum_f32, true),
    ST_PULL(st::sum_16bit<st::half_codec>, true),
    ST_PULL(st::sum_16bit<st::bf16_codec>, true),
    ST_PULL(st::native, true),
    ST_PULL(st::wide, true),
}};

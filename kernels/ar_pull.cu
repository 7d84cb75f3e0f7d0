/* SPDX-License-Identifier: Apache-2.0 */
/* ar_pull.cu - the two-shot with barriers over unicast pointers: registered buffers, any type. */
#include "ar_pull.cuh"

#define ST_PULL(R)                                                                                  \
    {                                                                                               \
        nullptr, nullptr, (const void *)&st::pull<st::spread<R>>                                    \
    }

extern "C" const struct st_kernel_row st_kernels_pull = {{
    ST_PULL(st::sum_f32),
    ST_PULL(st::sum_16bit<st::half_codec>),
    ST_PULL(st::sum_16bit<st::bf16_codec>),
    ST_PULL(st::native),
    ST_PULL(st::wide),
}};

/* SPDX-License-Identifier: Apache-2.0 */
/* one_ll8.cu - one-shot kernels with 4 bytes of data beside 4 of epoch: the smallest messages,
 * any type. */
#include "kernels/device/oneshot.cuh"

extern "C" const struct st_kernel_row st_kernels_one_ll8 = {{
    ST_ONESHOT_FAST(st::form_ll8, st::sum_f32),
    ST_ONESHOT_FAST(st::form_ll8, st::sum_16bit<st::half_codec>),
    ST_ONESHOT_FAST(st::form_ll8, st::sum_16bit<st::bf16_codec>),
    ST_ONESHOT_FAST(st::form_ll8, st::native),
    ST_ONESHOT_SMALL(st::form_ll8, st::wide),
}};

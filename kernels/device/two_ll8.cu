/* SPDX-License-Identifier: Apache-2.0 */
/* two_ll8.cu - two-shot kernels with 4 bytes of data beside 4 of epoch: the smallest messages,
 * any type. */
#include "kernels/device/twoshot.cuh"

extern "C" const struct st_kernel_row st_kernels_two_ll8 = {{
    ST_TWOSHOT_SMALL(st::form_ll8, st::sum_f32),
    ST_TWOSHOT_SMALL(st::form_ll8, st::sum_16bit<st::half_codec>),
    ST_TWOSHOT_SMALL(st::form_ll8, st::sum_16bit<st::bf16_codec>),
    ST_TWOSHOT_SMALL(st::form_ll8, st::native),
    ST_TWOSHOT_SMALL(st::form_ll8, st::wide),
}};

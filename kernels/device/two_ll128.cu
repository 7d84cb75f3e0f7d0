/* SPDX-License-Identifier: Apache-2.0 */
/* two_ll128.cu - two-shot kernels with one flag per 128-byte line: NVLink, any type. */
#include "kernels/device/twoshot.cuh"

extern "C" const struct st_kernel_row st_kernels_two_ll128 = {{
    ST_TWOSHOT_FAST(st::form_ll128, st::sum_f32),
    ST_TWOSHOT_FAST(st::form_ll128, st::sum_16bit<st::half_codec>),
    ST_TWOSHOT_FAST(st::form_ll128, st::sum_16bit<st::bf16_codec>),
    ST_TWOSHOT_FAST(st::form_ll128, st::native),
    ST_TWOSHOT_SMALL(st::form_ll128, st::wide),
}};

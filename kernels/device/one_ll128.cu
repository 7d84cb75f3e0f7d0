/* SPDX-License-Identifier: Apache-2.0 */
/* one_ll128.cu - one-shot kernels with one flag per 128-byte line: NVLink, any type. */
#include "kernels/device/oneshot.cuh"

extern "C" const struct st_kernel_row st_kernels_one_ll128 = {{
    ST_ONESHOT_FAST(st::form_ll128, st::sum_f32),
    ST_ONESHOT_FAST(st::form_ll128, st::sum_16bit<st::half_codec>),
    ST_ONESHOT_FAST(st::form_ll128, st::sum_16bit<st::bf16_codec>),
    ST_ONESHOT_FAST(st::form_ll128, st::native),
    ST_ONESHOT_SMALL(st::form_ll128, st::wide),
}};

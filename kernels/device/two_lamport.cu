/* SPDX-License-Identifier: Apache-2.0 */
/* two_lamport.cu - two-shot kernels with full-width data words: f32, f16, bf16. */
#include "kernels/device/twoshot.cuh"

extern "C" const struct st_kernel_row st_kernels_two_lamport = {{
    ST_TWOSHOT_FAST(st::form_lamport, st::sum_f32),
    ST_TWOSHOT_FAST(st::form_lamport, st::sum_16bit<st::half_codec>),
    ST_TWOSHOT_FAST(st::form_lamport, st::sum_16bit<st::bf16_codec>),
}};

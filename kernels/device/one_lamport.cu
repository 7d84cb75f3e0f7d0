/* SPDX-License-Identifier: Apache-2.0 */
/* one_lamport.cu - one-shot kernels with full-width data words: f32, f16, bf16. */
#include "kernels/device/oneshot.cuh"

extern "C" const struct st_kernel_row st_kernels_one_lamport = {{
    ST_ONESHOT_FAST(st::form_lamport, st::sum_f32),
    ST_ONESHOT_FAST(st::form_lamport, st::sum_16bit<st::half_codec>),
    ST_ONESHOT_FAST(st::form_lamport, st::sum_16bit<st::bf16_codec>),
}};

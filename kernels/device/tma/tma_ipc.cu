/* SPDX-License-Identifier: Apache-2.0 */
/* tma_ipc.cu - compiles the all-reduce of tma_ipc.cuh. */
#include "kernels/device/tma/tma_ipc.cuh"

extern "C" const struct ar_kernel_row ar_kernels_tma_ipc = {{
    AR_TMA_IPC_FAST(ar::sum_f32, AR_ALL_REDUCE),
    AR_TMA_IPC_FAST(ar::sum_16bit<ar::half_codec>, AR_ALL_REDUCE),
    AR_TMA_IPC_FAST(ar::sum_16bit<ar::bf16_codec>, AR_ALL_REDUCE),
    AR_TMA_IPC_SMALL(ar::native, AR_ALL_REDUCE),
    AR_TMA_IPC_SMALL(ar::wide, AR_ALL_REDUCE),
}};

/* SPDX-License-Identifier: Apache-2.0 */
/* tma_ipc.cu - the reduce-scatter and the all-gather of tma_ipc.cuh. */
#include "kernels/device/tma/tma_ipc.cuh"

extern "C" const struct ar_kernel_row ar_scatter_tma_ipc = {{
    AR_TMA_IPC_FAST(ar::sum_f32, AR_REDUCE_SCATTER),
    AR_TMA_IPC_FAST(ar::sum_16bit<ar::half_codec>, AR_REDUCE_SCATTER),
    AR_TMA_IPC_FAST(ar::sum_16bit<ar::bf16_codec>, AR_REDUCE_SCATTER),
    AR_TMA_IPC_SMALL(ar::native, AR_REDUCE_SCATTER),
    AR_TMA_IPC_SMALL(ar::wide, AR_REDUCE_SCATTER),
}};

extern "C" const struct ar_kernel_row ar_gather_tma_ipc = {{
    AR_TMA_IPC_SMALL(ar::native, AR_ALL_GATHER),
}};

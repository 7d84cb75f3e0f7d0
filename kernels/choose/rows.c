/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - the built-in table (rows.h). The last column says where the row's numbers come from. */
#include "kernels/choose/rows.h"

#include "kernels/choose/families.h"

#define KiB    (1ull << 10)
#define MiB    (1ull << 20)
#define NO_END UINT64_MAX

/* bench/ar_sweep.c timed every number of blocks and threads. That program is only in git's history
 * (git show c985556:bench/ar_sweep.c). Today `symtuner tune` searches for the best numbers. */
#define SWEEP    "bench/ar_sweep on 4 H200, NVLink4, bf16, 2026-11-21"
#define SHAPE    "grid of the bf16 sweep for this form, not swept with this type"
#define RULE     "unmeasured: extrapolated from 4 ranks"
#define PCIE     "unmeasured: fewer blocks and no LL128, after published PCIe numbers"
#define HOSTSEEN "2 and 4 ranks against NCCL_P2P_DISABLE=1 on H200, 2026-11-21; grid not swept"
#define HOSTMEM  "unmeasured: without a communicator there is no NCCL to call"
#define NVLS                                                                                       \
    "unmeasured: NCCL uses multicast, for which 480 GB/s are published; we measured 389"
#define STAGED   "recv not registered: our kernels copy once more than NCCL's ring"

/* The times are from bench/results/notes.md, "Beside GEMMs". */
#define GEMMS    "beside GEMMs 200 x 16 MiB took 73.7 ms, NCCL 52.1: 2 H200, 2026-11-22"
#define AS_GEMMS "not measured beside GEMMs; as for all-reduce on 2 H200"

/* The measurements are in bench/results/2026-11-28-h200x2, those of reduce-scatters and all-gathers
 * in 2026-11-28-h200x2b. They were made with SYMTUNER_AR_OVERLAP=2. Beside GEMMs, all-reduces with
 * 64 blocks of 1024 threads take 0.5 to 0.6 of the time of all-reduces with 128 blocks. The reason
 * may be that the next call can start early if a call has 64 blocks, but not if it has 128
 * (keep_budget() in kernels/host/pieces.c). */
#define BLOCKS64 "alone and beside GEMMs, for 1 to 16 MiB: 2 H200, bf16, 2026-11-28"
#define SHORT    "alone, 4 to 16 KiB: 2 H200, bf16, 2026-11-28"
#define NEAR64   "not measured: as for 256 KiB and 1 MiB"

/* The measurements are in bench/results/2026-11-28-h200x4. */
#define FOUR    "alone and beside GEMMs, against NCCL with 16 CTAs: 3, 4 H200, bf16, 2026-11-28"
#define AS_FOUR "alone and beside GEMMs: 4 H200, bf16, 2026-11-28; 3 ranks not measured"

/* The measurements are in bench/results/2026-11-23-h200x2, for bf16 and 16 to 256 MiB. */
#define FEW "beside GEMMs and alone against NCCL with 16 CTAs: 2 H200, bf16, 2026-11-23"

/* The times are from bench/results/2026-11-24-h200x2. The numbers of blocks and threads are those
 * of kernel tma. */
#define IPC "unregistered buffers against NCCL: 2 H200, bf16, 2026-11-24"

#define HALVES "not measured: from the rows of all-reduce"

/* A row that names copy applies only to groups with a communicator, not to local groups (whose
 * ranks are all in one process, without NCCL). The kernels copy and engines copy memory between
 * GPUs. If graphs of two GPUs of one process have such copies, and the memory is from cudaMalloc,
 * CUDA lets each graph wait for the other one. So the ranks wait for each other until their time
 * limit. NCCL maps memory from cuMemCreate; graphs that copy such memory do not wait
 * (bench/results/2026-11-28-h200x2c). */
#define NO_COPY "in graphs of a local group copy may hang: 2 H200, 2026-11-28"

/* The measurements are in bench/results/2026-11-24-h100x2. The sizes there are those of the whole
 * message, all ranks' parts together. */
#define ALONE "alone against NCCL with 32 CTAs: 2 H100, bf16, 2026-11-24"

/* Combinations of the conditions in enum ar_row_need. */
#define SUMS_BESIDE     (SUMS | BESIDE)
#define LONG_BESIDE     (LENGTHY | BESIDE)
#define LONG_SUMS       (LONG_BESIDE | SUMS | POINT_TO_POINT)
#define LONG_GATHERS    (LONG_SUMS | GATHERS)
#define LONG_SCATTERS   (LONG_SUMS | SCATTERS)
#define LONG_BY_TMA     (LONG_SUMS | BY_TMA)
#define LONG_BY_IPC     (LONG_SUMS | BY_IPC)
#define ALL_BY_IPC      (SUMS | POINT_TO_POINT | BY_IPC)
#define GATHERS_BY_TMA  (LONG_GATHERS | BY_TMA)
#define SCATTERS_BY_TMA (LONG_SCATTERS | BY_TMA)
#define SCATTERS_BESIDE (SCATTERS | SUMS | BESIDE)

const struct ar_row ar_rows[] = {
    {AR_LINKS_NVLINK, 2, 2, LONG_BY_TMA, NO_END, AR_TMA, 8, AR_TMA_THREADS, 0, FEW},
    {AR_LINKS_NVLINK, 2, 2, LONG_SUMS, 12 * MiB, AR_TWO_LAMPORT, 64, 1024, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 2, 2, LONG_BY_IPC, 256 * MiB, AR_TMA_IPC, 8, AR_TMA_THREADS, 0, IPC},
    {AR_LINKS_NVLINK, 2, 2, LONG_BESIDE, NO_END, AR_NCCL, 0, 0, 0, GEMMS},
    {AR_LINKS_NVLINK, 3, 4, LONG_BY_TMA, NO_END, AR_TMA, 8, AR_TMA_THREADS, 0, FOUR},
    {AR_LINKS_NVLINK, 3, 4, LONG_SUMS, 12 * MiB, AR_TWO_LAMPORT, 64, 512, 0, FOUR},
    {AR_LINKS_NVLINK, 3, 16, LONG_BESIDE, NO_END, AR_NCCL, 0, 0, 0, AS_GEMMS},
    {AR_LINKS_PCIE, 2, 16, LONG_BESIDE, NO_END, AR_NCCL, 0, 0, 0, AS_GEMMS},
    /* Rows for NVLink and two ranks. With two ranks, one-shot moves no more data than two-shot. No
     * row has more than 128 blocks, so a few multiprocessors stay free for other kernels. If a call
     * needed all multiprocessors, a single busy one would keep a block of ours from starting, and
     * all ranks would wait for that block. */
    {AR_LINKS_NVLINK, 2, 2, ANY, 2 * KiB, AR_ONE_LL8, 16, 128, 0, SWEEP},
    {AR_LINKS_NVLINK, 2, 2, GENERIC, 16 * KiB, AR_ONE_LL8, 16, 128, 0, SHAPE},
    {AR_LINKS_NVLINK, 2, 2, GENERIC, 64 * KiB, AR_ONE_LL128, 64, 128, 0, SHAPE},
    {AR_LINKS_NVLINK, 2, 2, GENERIC, 128 * KiB, AR_ONE_LL128, 96, 128, 0, SHAPE},
    {AR_LINKS_NVLINK, 2, 2, GENERIC, 256 * KiB, AR_ONE_LL128, 96, 256, 0, SHAPE},
    {AR_LINKS_NVLINK, 2, 2, GENERIC, 512 * KiB, AR_ONE_LL128, 96, 512, 0, SHAPE},
    {AR_LINKS_NVLINK, 2, 2, GENERIC, 1 * MiB, AR_ONE_LL128, 96, 768, 0, SHAPE},
    {AR_LINKS_NVLINK, 2, 2, ANY, 16 * KiB, AR_ONE_LAMPORT, 16, 128, 0, SHORT},
    {AR_LINKS_NVLINK, 2, 2, ANY, 64 * KiB, AR_ONE_LAMPORT, 64, 64, 0, SWEEP},
    {AR_LINKS_NVLINK, 2, 2, ANY, 128 * KiB, AR_ONE_LAMPORT, 64, 128, 0, SWEEP},
    {AR_LINKS_NVLINK, 2, 2, ANY, 256 * KiB, AR_ONE_LAMPORT, 64, 256, 0, SWEEP},
    {AR_LINKS_NVLINK, 2, 2, ANY, 512 * KiB, AR_ONE_LAMPORT, 64, 512, 0, NEAR64},
    {AR_LINKS_NVLINK, 2, 2, ANY, 1 * MiB, AR_ONE_LAMPORT, 64, 1024, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 2, 2, SUMS_BESIDE, 2 * MiB, AR_ONE_LAMPORT, 64, 1024, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 2, 2, SUMS_BESIDE, 4 * MiB, AR_TWO_LAMPORT, 64, 1024, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 2, 2, ANY, 4 * MiB, AR_ONE_LAMPORT, 128, 1024, 0, SWEEP},
    {AR_LINKS_NVLINK, 2, 2, ANY, 12 * MiB, AR_TWO_LAMPORT, 128, 1024, 0, SWEEP},
    {AR_LINKS_NVLINK, 2, 2, ALL_BY_IPC, 256 * MiB, AR_TMA_IPC, 8, AR_TMA_THREADS, 0, IPC},
    {AR_LINKS_NVLINK, 2, 2, ANY, 160 * MiB, AR_CHUNKED, 128, 512, 1, SWEEP},
    {AR_LINKS_NVLINK, 2, 2, UNMAPPED, NO_END, AR_NCCL, 0, 0, 0, STAGED},
    {AR_LINKS_NVLINK, 2, 2, ANY, NO_END, AR_COPY, 64, 512, 0, SWEEP},
    /* Rows for NVLink and three or four ranks. */
    {AR_LINKS_NVLINK, 3, 4, GENERIC, 8 * KiB, AR_ONE_LL8, 16, 128, 0, SHAPE},
    {AR_LINKS_NVLINK, 3, 4, GENERIC, 32 * KiB, AR_ONE_LL128, 64, 64, 0, SHAPE},
    {AR_LINKS_NVLINK, 3, 4, GENERIC, 128 * KiB, AR_ONE_LL128, 96, 128, 0, SHAPE},
    {AR_LINKS_NVLINK, 3, 4, GENERIC, 384 * KiB, AR_ONE_LL128, 96, 256, 0, SHAPE},
    {AR_LINKS_NVLINK, 3, 4, GENERIC, 512 * KiB, AR_TWO_LL128, 96, 128, 0, SHAPE},
    {AR_LINKS_NVLINK, 3, 4, GENERIC, 1 * MiB, AR_TWO_LL128, 96, 256, 0, SHAPE},
    {AR_LINKS_NVLINK, 3, 4, ANY, 64 * KiB, AR_ONE_LAMPORT, 64, 64, 0, SWEEP},
    {AR_LINKS_NVLINK, 3, 4, ANY, 160 * KiB, AR_ONE_LAMPORT, 64, 128, 0, SWEEP},
    {AR_LINKS_NVLINK, 3, 4, ANY, 256 * KiB, AR_TWO_LAMPORT, 64, 64, 0, SWEEP},
    {AR_LINKS_NVLINK, 3, 4, ANY, 512 * KiB, AR_TWO_LAMPORT, 128, 64, 0, SWEEP},
    {AR_LINKS_NVLINK, 3, 4, ANY, 1 * MiB, AR_TWO_LAMPORT, 64, 256, 0, SWEEP},
    {AR_LINKS_NVLINK, 3, 4, SUMS_BESIDE, 4 * MiB, AR_TWO_LAMPORT, 64, 512, 0, FOUR},
    {AR_LINKS_NVLINK, 3, 4, ANY, 2 * MiB, AR_TWO_LAMPORT, 128, 256, 0, SWEEP},
    {AR_LINKS_NVLINK, 3, 4, ANY, 12 * MiB, AR_TWO_LAMPORT, 128, 512, 0, SWEEP},
    {AR_LINKS_NVLINK, 3, 4, ANY, 32 * MiB, AR_CHUNKED, 128, 512, 1, SWEEP},
    {AR_LINKS_NVLINK, 4, 4, MULTICAST, NO_END, AR_NCCL, 0, 0, 0, NVLS},
    {AR_LINKS_NVLINK, 3, 4, ANY, 64 * MiB, AR_CHUNKED, 128, 512, 1, SWEEP},
    {AR_LINKS_NVLINK, 3, 4, UNMAPPED, NO_END, AR_NCCL, 0, 0, 0, STAGED},
    {AR_LINKS_NVLINK, 3, 4, ANY, 256 * MiB, AR_CHUNKED, 128, 512, 1, AS_FOUR},
    {AR_LINKS_NVLINK, 3, 4, ANY, NO_END, AR_COPY, 64, 512, 0, SWEEP},
    /* Rows for NVLink and five to sixteen ranks. */
    {AR_LINKS_NVLINK, 5, 16, GENERIC, 8 * KiB, AR_ONE_LL8, 16, 128, 0, RULE},
    {AR_LINKS_NVLINK, 5, 16, ANY, 48 * KiB, AR_ONE_LAMPORT, 64, 64, 0, RULE},
    {AR_LINKS_NVLINK, 5, 16, ANY, 512 * KiB, AR_TWO_LAMPORT, 64, 128, 0, RULE},
    {AR_LINKS_NVLINK, 5, 16, SUMS_BESIDE, 4 * MiB, AR_TWO_LAMPORT, 64, 512, 0, RULE},
    {AR_LINKS_NVLINK, 5, 16, ANY, 8 * MiB, AR_TWO_LAMPORT, 128, 256, 0, RULE},
    {AR_LINKS_NVLINK, 5, 16, ANY, 32 * MiB, AR_CHUNKED, 128, 512, 1, RULE},
    {AR_LINKS_NVLINK, 5, 16, MULTICAST, NO_END, AR_NCCL, 0, 0, 0, NVLS},
    {AR_LINKS_NVLINK, 5, 16, ANY, 64 * MiB, AR_CHUNKED, 128, 512, 1, RULE},
    {AR_LINKS_NVLINK, 5, 16, UNMAPPED, NO_END, AR_NCCL, 0, 0, 0, STAGED},
    {AR_LINKS_NVLINK, 5, 16, ANY, NO_END, AR_COPY, 64, 512, 0, RULE},
    /* The next row is for local groups. */
    {AR_LINKS_NVLINK, 2, 16, ANY, NO_END, AR_CHUNKED, 128, 512, 1, NO_COPY},
    /* Rows for PCIe peer access. They have few blocks. None of them names LL128, because over
     * PCIe a line may arrive in parts. */
    {AR_LINKS_PCIE, 2, 2, ANY, 4 * KiB, AR_ONE_LL8, 4, 128, 0, PCIE},
    {AR_LINKS_PCIE, 2, 2, ANY, 4 * MiB, AR_ONE_LAMPORT, 16, 128, 0, PCIE},
    {AR_LINKS_PCIE, 3, 16, ANY, 4 * KiB, AR_ONE_LL8, 4, 128, 0, PCIE},
    {AR_LINKS_PCIE, 3, 16, ANY, 16 * KiB, AR_ONE_LAMPORT, 4, 256, 0, PCIE},
    {AR_LINKS_PCIE, 3, 16, ANY, 4 * MiB, AR_TWO_LAMPORT, 16, 256, 0, PCIE},
    {AR_LINKS_PCIE, 2, 16, ANY, 16 * MiB, AR_CHUNKED, 16, 512, 1, PCIE},
    {AR_LINKS_PCIE, 2, 16, ANY, NO_END, AR_COPY, 32, 512, 0, PCIE},
    /* The next row is for local groups. */
    {AR_LINKS_PCIE, 2, 16, ANY, NO_END, AR_CHUNKED, 16, 512, 1, NO_COPY},
    /* Rows for scratch in pinned host memory. */
    {AR_LINKS_HOST, 2, 16, ANY, 4 * KiB, AR_ONE_LL8, 8, 128, 0, HOSTSEEN},
    {AR_LINKS_HOST, 2, 2, ANY, 2 * MiB, AR_ONE_LAMPORT, 32, 256, 0, HOSTSEEN},
    {AR_LINKS_HOST, 3, 16, ANY, 16 * KiB, AR_ONE_LAMPORT, 16, 256, 0, HOSTSEEN},
    {AR_LINKS_HOST, 3, 16, ANY, 2 * MiB, AR_TWO_LAMPORT, 32, 256, 0, HOSTSEEN},
    /* The next row applies only if there is a communicator. */
    {AR_LINKS_HOST, 2, 16, ANY, NO_END, AR_NCCL, 0, 0, 0, HOSTSEEN},
    {AR_LINKS_HOST, 2, 2, ANY, NO_END, AR_ONE_LAMPORT, 32, 256, 0, HOSTMEM},
    {AR_LINKS_HOST, 3, 16, ANY, NO_END, AR_TWO_LAMPORT, 32, 256, 0, HOSTMEM},
};

/* The rows of reduce-scatter and all-gather. A rank sends one part of the message to each peer,
 * just as in a one-shot all-reduce of a message as long as one part. So each row that was not
 * measured has the blocks and threads of that all-reduce. Rows with GENERIC also apply to
 * all-gathers of any type. */
const struct ar_row ar_rows_of_halves[] = {
    {AR_LINKS_NVLINK, 2, 2, LONG_BY_TMA, 64 * MiB, AR_TMA, 16, AR_TMA_THREADS, 0, FEW},
    {AR_LINKS_NVLINK, 2, 2, LONG_BY_IPC, 64 * MiB, AR_TMA_IPC, 16, AR_TMA_THREADS, 0, IPC},
    {AR_LINKS_NVLINK, 2, 2, LONG_GATHERS, 8 * MiB, AR_ONE_LL128, 64, 512, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 2, 2, LONG_SCATTERS, 8 * MiB, AR_ONE_LAMPORT, 64, 1024, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 3, 4, GATHERS_BY_TMA, 32 * MiB, AR_TMA, 16, AR_TMA_THREADS, 0, AS_FOUR},
    {AR_LINKS_NVLINK, 3, 4, SCATTERS_BY_TMA, 64 * MiB, AR_TMA, 16, AR_TMA_THREADS, 0, AS_FOUR},
    {AR_LINKS_NVLINK, 3, 4, LONG_GATHERS, 4 * MiB, AR_ONE_LL128, 64, 256, 0, AS_FOUR},
    {AR_LINKS_NVLINK, 3, 4, LONG_SCATTERS, 4 * MiB, AR_ONE_LAMPORT, 64, 512, 0, AS_FOUR},
    {AR_LINKS_NVLINK, 2, 16, LONG_BESIDE, NO_END, AR_NCCL, 0, 0, 0, AS_GEMMS},
    {AR_LINKS_PCIE, 2, 16, LONG_BESIDE, NO_END, AR_NCCL, 0, 0, 0, AS_GEMMS},
    {AR_LINKS_HOST, 2, 16, LONG_BESIDE, NO_END, AR_NCCL, 0, 0, 0, AS_GEMMS},
    {AR_LINKS_NVLINK, 2, 2, ANY, 16 * KiB, AR_ONE_LL8, 16, 128, 0, HALVES},
    {AR_LINKS_NVLINK, 3, 16, ANY, 8 * KiB, AR_ONE_LL8, 16, 128, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 16, GENERIC, 64 * KiB, AR_ONE_LL128, 64, 128, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 2, GATHERS, 1 * MiB, AR_ONE_LL128, 64, 512, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 2, 2, GATHERS | BESIDE, 2 * MiB, AR_ONE_LL128, 64, 512, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 3, 4, GATHERS | BESIDE, 2 * MiB, AR_ONE_LL128, 64, 256, 0, AS_FOUR},
    {AR_LINKS_NVLINK, 5, 16, GATHERS | BESIDE, 2 * MiB, AR_ONE_LL128, 64, 256, 0, RULE},
    {AR_LINKS_NVLINK, 2, 16, GENERIC, 128 * KiB, AR_ONE_LL128, 96, 128, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 16, GENERIC, 512 * KiB, AR_ONE_LL128, 96, 256, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 2, GATHERS, 4 * MiB, AR_ONE_LL128, 96, 512, 0, ALONE},
    {AR_LINKS_NVLINK, 2, 16, GENERIC, 1 * MiB, AR_ONE_LL128, 96, 512, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 16, ANY, 64 * KiB, AR_ONE_LAMPORT, 64, 64, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 16, ANY, 128 * KiB, AR_ONE_LAMPORT, 64, 128, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 2, SCATTERS, 256 * KiB, AR_ONE_LAMPORT, 64, 256, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 2, 2, SCATTERS, 512 * KiB, AR_ONE_LAMPORT, 64, 512, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 2, 2, SCATTERS, 2 * MiB, AR_ONE_LAMPORT, 64, 1024, 0, BLOCKS64},
    {AR_LINKS_NVLINK, 3, 16, ANY, 256 * KiB, AR_ONE_LAMPORT, 64, 256, 0, HALVES},
    {AR_LINKS_NVLINK, 3, 4, SCATTERS_BESIDE, 2 * MiB, AR_ONE_LAMPORT, 64, 512, 0, AS_FOUR},
    {AR_LINKS_NVLINK, 5, 16, SCATTERS_BESIDE, 2 * MiB, AR_ONE_LAMPORT, 64, 512, 0, RULE},
    {AR_LINKS_NVLINK, 3, 16, ANY, 512 * KiB, AR_ONE_LAMPORT, 128, 256, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 2, SCATTERS, 8 * MiB, AR_ONE_LAMPORT, 128, 512, 0, ALONE},
    {AR_LINKS_NVLINK, 3, 16, ANY, 2 * MiB, AR_ONE_LAMPORT, 128, 512, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 2, ALL_BY_IPC, 64 * MiB, AR_TMA_IPC, 16, AR_TMA_THREADS, 0, IPC},
    {AR_LINKS_NVLINK, 2, 16, UNMAPPED, 64 * MiB, AR_CHUNKED, 128, 512, 1, HALVES},
    {AR_LINKS_NVLINK, 2, 16, UNMAPPED, NO_END, AR_NCCL, 0, 0, 0, HALVES},
    {AR_LINKS_NVLINK, 2, 2, GATHERS, 64 * MiB, AR_PULL, 128, 512, 0, ALONE},
    {AR_LINKS_NVLINK, 2, 2, SCATTERS | BY_TMA, NO_END, AR_TMA, 24, AR_TMA_THREADS, 0, ALONE},
    {AR_LINKS_NVLINK, 2, 2, ANY, NO_END, AR_PULL, 128, 512, 0, HALVES},
    {AR_LINKS_NVLINK, 3, 16, ANY, 64 * MiB, AR_PULL, 128, 512, 0, HALVES},
    {AR_LINKS_NVLINK, 3, 16, GATHERS, NO_END, AR_COPY, 1, 32, 0, HALVES},
    {AR_LINKS_NVLINK, 3, 16, ANY, NO_END, AR_PULL, 128, 512, 0, HALVES},
    {AR_LINKS_PCIE, 2, 16, ANY, 4 * KiB, AR_ONE_LL8, 4, 128, 0, HALVES},
    {AR_LINKS_PCIE, 2, 16, GATHERS, 32 * KiB, AR_ONE_LL8, 16, 128, 0, HALVES},
    {AR_LINKS_PCIE, 2, 16, ANY, 2 * MiB, AR_ONE_LAMPORT, 16, 128, 0, HALVES},
    {AR_LINKS_PCIE, 2, 16, GATHERS, NO_END, AR_COPY, 1, 32, 0, HALVES},
    {AR_LINKS_PCIE, 2, 16, ANY, NO_END, AR_CHUNKED, 16, 512, 1, HALVES},
    {AR_LINKS_HOST, 2, 16, ANY, 4 * KiB, AR_ONE_LL8, 8, 128, 0, HALVES},
    {AR_LINKS_HOST, 2, 16, GATHERS, 32 * KiB, AR_ONE_LL8, 32, 128, 0, HALVES},
    {AR_LINKS_HOST, 2, 16, ANY, 1 * MiB, AR_ONE_LAMPORT, 32, 256, 0, HALVES},
    /* The next row applies only if there is a communicator. */
    {AR_LINKS_HOST, 2, 16, ANY, NO_END, AR_NCCL, 0, 0, 0, HOSTSEEN},
    {AR_LINKS_HOST, 2, 16, ANY, NO_END, AR_ONE_LAMPORT, 32, 256, 0, HOSTMEM},
};

const size_t ar_rows_count = sizeof ar_rows / sizeof *ar_rows;
const size_t ar_rows_of_halves_count = sizeof ar_rows_of_halves / sizeof *ar_rows_of_halves;

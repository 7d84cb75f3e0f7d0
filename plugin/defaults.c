/* SPDX-License-Identifier: Apache-2.0 */
/*
 * defaults.c - the built-in rules: measured boxes and releases only, each with its provenance.
 *
 * A box, release or multicast setting that no [process] section names gets NCCL's own choice. To
 * add one: measure with bench/nccl_ab.py, commit the raw rows, name them here.
 */
#include "plugin/process.h"

/* Of 16, 32 and 64 CTAs only 32 is nowhere more than 3 % behind NCCL's own 7 to 10. */
#define H200_WITHOUT_MULTICAST(release)                                                            \
    "[process]\n"                                                                                  \
    "gpu       = NVIDIA H200\n"                                                                    \
    "links     = nvlink\n"                                                                         \
    "multicast = no\n"                                                                             \
    "nccl      = " release "\n"                                                                    \
    "sym-ctas  = 32\n"

const char st_defaults_text[] =
    "# symtuner rules 1\n"
    "# all-reduce, all-gather and reduce-scatter, bf16, 1 KiB to 256 MiB, 2 and 4 ranks of\n"
    "# H200 SXM (NV18), driver 580.159.04: bench/results/2026-11-21-h200x4/nccl-*-ctas.csv\n"
    H200_WITHOUT_MULTICAST("2.28.9")
    H200_WITHOUT_MULTICAST("2.29.7")
    H200_WITHOUT_MULTICAST("2.30.7")
    H200_WITHOUT_MULTICAST("2.31.2")
    H200_WITHOUT_MULTICAST("2.32.3");

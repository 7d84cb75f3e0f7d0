/* SPDX-License-Identifier: Apache-2.0 */
/*
 * defaults.c - the built-in rules: measured boxes only, each with its provenance.
 *
 * A box, release or multicast setting that no [process] section names gets NCCL's own choice. To
 * add one: measure with bench/, commit the results, name them here.
 */
#include "plugin/process.h"

const char st_defaults_text[] =
    "# symtuner rules 1\n"
    "# 2026-11-21, bench/nccl_ab.py, 4 rounds of 3, H200 SXM x2 and x4 (NV18), driver 580.159.04,\n"
    "# multicast off: of 16, 32 and 64 CTAs only 32 is nowhere more than 3 % behind NCCL's own 7 to 9\n"
    "[process]\n"
    "gpu       = NVIDIA H200\n"
    "links     = nvlink\n"
    "multicast = no\n"
    "nccl      = 2.28.3..2.28.9\n"
    "sym-ctas  = 32\n";

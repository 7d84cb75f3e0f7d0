/* SPDX-License-Identifier: Apache-2.0 */
/*
 * defaults.c - the built-in CTA count for symmetric kernels, and the boxes and releases for which
 * it is used. The count was measured on exactly these boxes and releases, for collectives that run
 * alone and for collectives that run beside other kernels.
 *
 * We answer with the count when NCCL asks for the value of NCCL_MIN_CTAS. NCCL lowers the count to
 * the smallest of these limits: maxCTAs of the communicator, maxCTAs of the call (from 2.31 on), or
 * NCCL's limit for multicast kernels. NCCL reads the count once per process, before it makes the
 * first communicator. So the count cannot depend on a communicator or a call. It depends only on
 * the box and the release, and rules cannot change it. To add a row, measure collectives alone and
 * beside GEMMs (bench/beside.py), commit the results, and name them in ${text} below.
 */
#include "plugin/process.h"

#include <string.h>

/* NCCL launches its kernels in clusters of 4 CTAs. If 4 does not divide the number of CTAs, NCCL
 * uses clusters of one CTA, which is 4 to 18 % slower. */
#define CTAS 16
enum { CLUSTER = 4 };
_Static_assert(CTAS % CLUSTER == 0, "whole clusters");

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

/* The measured boxes, all with H200s over NVLink without multicast.
 * X(release as a number, release as text, number of GPUs) */
#define MEASURED(X)                                                                                \
    X(22809, "2.28.9", 2)                                                                          \
    X(22907, "2.29.7", 2)                                                                          \
    X(23007, "2.30.7", 2)                                                                          \
    X(23102, "2.31.2", 2)                                                                          \
    X(23203, "2.32.3", 2)

#define GPU "NVIDIA H200"

static const struct {
    int nccl, gpus;
} measured[] = {
#define ROW(code, release, gpus) {code, gpus},
    MEASURED(ROW)
#undef ROW
};

static const char text[] =
    "# Built in: NCCL is told NCCL_MIN_CTAS=" TEXT(CTAS) ", so that symmetric kernels get at least "
    TEXT(CTAS) "\n"
    "# CTAs, on exactly these boxes and releases, and nowhere else:\n"
#define LINE(code, release, gpus)                                                                  \
    "#   " #gpus " x " GPU ", NVLink, no multicast, NCCL " release "\n"
    MEASURED(LINE)
#undef LINE
    "# This needs NCCL_ENV_PLUGIN=libsymtuner.so. symtuner gives no count if one of these is set:\n"
    "# NCCL_SYM_CTAS, NCCL_MIN_CTAS, NCCL_MAX_CTAS, an NCCL_CTA_POLICY that is not the default,\n"
    "# NCCL_ENQUEUE_REARCH_ENABLE=1, SYMTUNER_DEFAULTS=0. Measured 2026-11-22, driver 580.159.04,\n"
    "# against NCCL's own count of 7 to 10: 1.2 times as fast alone, 1.06 times as fast beside\n"
    "# GEMMs (bench/results/2026-11-22-h200x2b).\n";

/* Was this box measured with this release? If ${box} is false: was any box with this GPU measured
 * with this release? */
static bool is_measured(int nccl, const struct symtuner_machine *machine, bool box)
{
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (measured[i].nccl == nccl && strcmp(machine->gpu, GPU) == 0 &&
            (!box || (measured[i].gpus == machine->gpus && machine->nvlink == 1 &&
                      machine->multicast == 0)))
            return true;
    return false;
}

bool st_default_gpu(int nccl, const struct symtuner_machine *machine)
{
    return is_measured(nccl, machine, false);
}

int st_default_ctas(int nccl, const struct symtuner_machine *machine)
{
    return is_measured(nccl, machine, true) ? CTAS : 0;
}

const char *symtuner_defaults_text(void)
{
    return text;
}

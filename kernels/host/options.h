/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the environment variables of libsymtuner_ar.so, which are read for each new group. */
#ifndef AR_OPTIONS_H_
#define AR_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/choose/select.h"

struct ar_options {
    struct ar_force force;
    int transport;          /* enum symtuner_ar_transport */
    int links;              /* enum ar_links; -1: ask CUDA or NVML */
    uint32_t timeout_ms;    /* 0: not set */
    uint32_t stall_us;      /* longest pause in kernels; in test builds only */
    int max_ctas;           /* limit of the blocks on one GPU; 0: not set */
    int beside;             /* enum ar_beside; -1: not set */
    int lag;                /* chunked: how many tiles to send ahead; 0: as rows.c says */
    int overlap;            /* enum ar_start; -1: as early as is safe */
    int nodes;              /* 1: ranks on several boxes add up box by box */
    int share_gpu;          /* 1: our kernels run even if ranks share a GPU */
    int ipc;                /* enum ar_ipc_mode */
    bool alone;             /* the program itself says that nothing runs beside its calls */
    bool mixing;            /* graphs and other calls wait for each other (order/mixing.h) */
    int probe;              /* 0: never probe; 1: always; -1: if the links are PCIe */
    const char *probe_file; /* file that keeps the probe's figures, or NULL; points into environ */
};

/* Read all variables into ${options}. Returns 0, or -1 if a value is wrong. Then ${why} names the
 * variable, its value and what to write instead. Prints a warning on stderr for each variable
 * SYMTUNER_AR_* that we do not know. */
int ar_options_read(struct ar_options *options, char *why, size_t why_size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the environment variables of libsymtuner_ar.so, read once per create. */
#ifndef AR_OPTIONS_H_
#define AR_OPTIONS_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/choose/select.h"

struct ar_options {
    struct ar_force force;
    int transport;          /* 0 auto, 1 peer, 2 host                     */
    int links;              /* -1: ask CUDA or NVML; else enum ar_links   */
    uint32_t timeout_ms;    /* 0: not set                                 */
    uint32_t stall_us;      /* test builds only                           */
    int max_ctas;           /* 0: not set                                 */
    int beside;             /* -1: not set; else enum ar_beside           */
    int lag;                /* tiles, for chunked; 0: as the table says   */
    int overlap;            /* enum ar_start; -1: as far as is safe     */
    int nodes;              /* 1: over several boxes, add up box by box   */
    int ipc;                /* 1: map the peers' unregistered buffers     */
    int probe;              /* 0 never, 1 always, -1 when links are PCIe  */
    const char *probe_file; /* NULL: keep no figures; points into the environment */
};

/* Read all variables into ${options}. Returns 0, or -1 for a wrong value: then ${why} names the
 * variable, its value and what to write instead. Warns of an unknown SYMTUNER_AR_* on stderr. */
int ar_options_read(struct ar_options *options, char *why, size_t why_size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* wanted.c - decides whether this process maps its peers' buffers (ar_ipc_wanted, ipc.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ipc/allocation.h"
#include "kernels/ipc/ipc.h"

int ar_ipc_wanted(int asked, const void *memory)
{
    /* If one of these variables contains the word, do not map. Most of these settings make the
     * program allocate memory that other processes cannot map. XLA's allocator "platform" makes an
     * allocation for each buffer, and a rank can show only AR_IPC_ALLOCATIONS of them to its peers.
     * strcasestr, because JAX accepts the words in upper and lower case. */
    static const struct {
        const char *variable, *word, *who;
    } unfit[] = {
        {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "torch"},
        {"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", "torch"},
        {"PYTORCH_ALLOC_CONF", "expandable_segments:True", "torch"},
        {"PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync", "torch"},
        {"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", "JAX"},
        {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform", "JAX"},
        {"XLA_PYTHON_CLIENT_ALLOCATOR", "vmm", "JAX"},
    };

    for (size_t i = 0; i < sizeof unfit / sizeof unfit[0] && asked != AR_IPC_OFF; i++) {
        const char *value = getenv(unfit[i].variable);
        char text[AR_WHY];

        if (value == NULL || strcasestr(value, unfit[i].word) == NULL)
            continue;
        snprintf(text, sizeof text,
                 "SYMTUNER_AR_IPC=1 has no effect: other processes cannot map memory that %s "
                 "takes with %s=%s, or not for long",
                 unfit[i].who, unfit[i].variable, unfit[i].word);
        if (asked == AR_IPC_ON)
            ar_rules_warn(text);
        asked = AR_IPC_OFF;
    }
    if (asked == AR_IPC_OFF || memory == NULL || ar_allocation_can_map(memory))
        return asked;
    if (asked == AR_IPC_ON)
        ar_rules_warn(
            "SYMTUNER_AR_IPC=1 has no effect: other processes cannot map the memory of "
            "this program; docs/reference/unregistered.md says how JAX takes other memory");
    return AR_IPC_OFF;
}

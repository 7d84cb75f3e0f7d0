/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl/held.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *st_held_by_user(st_get *get, const void *from)
{
    static const char *const own[] = {"NCCL_SYM_CTAS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (get(from, own[i]))
            return own[i];
    return NULL;
}

const char *st_held_default(st_get *get, const void *from)
{
    const char *own = st_held_by_user(get, from), *policy = get(from, "NCCL_CTA_POLICY");
    const char *mixed = get(from, "NCCL_ENQUEUE_REARCH_ENABLE");

    if (own)
        return own;
    if (policy && *policy && strcmp(policy, "0") != 0 && strcasecmp(policy, "DEFAULT") != 0)
        return "NCCL_CTA_POLICY"; /* the user asks for few CTAs, or for none (copy engine) */
    /* If NCCL_ENQUEUE_REARCH_ENABLE is set, NCCL compares the prices of symmetric and general
     * kernels, and each CTA adds 2.5 % to a symmetric kernel's price. So more CTAs could make NCCL
     * choose general kernels. */
    if (mixed && strtol(mixed, NULL, 0) != 0)
        return "NCCL_ENQUEUE_REARCH_ENABLE";
    return NULL;
}

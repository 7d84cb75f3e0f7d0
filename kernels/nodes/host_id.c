/* SPDX-License-Identifier: Apache-2.0 */
/* host_id.c - finds out which box this process is on, as NCCL sees it. */
#include "kernels/nodes/host_id.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/choose/probe.h"

static uint64_t host_id(void)
{
    /* A host id in nccl.conf is found here as well, because NCCL copies the variables of that file
     * to the environment. */
    const char *told = getenv("NCCL_HOSTID");
    char name[256] = "", boot[64] = "";
    FILE *f;

    if (told != NULL)
        return ar_probe_key(0, told);
    gethostname(name, sizeof name - 1);
    f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f != NULL && fgets(boot, sizeof boot, f) == NULL)
        boot[0] = 0;
    if (f != NULL)
        fclose(f);
    return ar_probe_key(ar_probe_key(0, name), boot);
}

struct ar_box_card ar_box_card(bool asked, int handles, bool splits)
{
    return (struct ar_box_card){.host = host_id(),
                                .asked = asked,
                                .handles = (uint32_t)handles,
                                .unable = splits ? 0 : AR_BOX_NO_SPLIT};
}

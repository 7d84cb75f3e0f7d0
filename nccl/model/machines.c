/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl/model/machines.h"

#include <string.h>

/* The columns are the members of struct st_machine. On l40sx4 ${peer_raw} and ${peer_nccl} differ:
 * the driver allows peer access between all pairs of GPUs, but NCCL does not use its P2P transport
 * between all pairs. */
static const struct st_machine machines[] = {
    {"h200x2", "2 x H200, NVLink", "NVIDIA H200", 90, 2, 1, 1, 1, 1},
    {"h200x4", "4 x H200, NVSwitch", "NVIDIA H200", 90, 4, 1, 1, 1, 1},
    {"h200x8", "8 x H200, NVSwitch", "NVIDIA H200", 90, 8, 1, 1, 1, 1},
    {"b200x8", "8 x B200, NVSwitch", "NVIDIA B200", 100, 8, 1, 1, 1, 1},
    {"a100pciex2", "2 x A100 PCIe, no NVLink", "NVIDIA A100 80GB PCIe", 80, 2, 0, 1, 1, 0},
    {"l40sx4", "4 x L40S, PCIe, two switches", "NVIDIA L40S", 89, 4, 0, 1, 0, 0},
    {"rtxpro6000x2", "2 x RTX PRO 6000, PCIe, one socket",
     "NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 2, 0, 1, 1, 0},
    {"rtxpro6000x2-nop2p", "the same, peer access off in the driver",
     "NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 2, 0, 0, 0, 0},
    {"rtxpro6000x4", "4 x RTX PRO 6000, PCIe, one socket",
     "NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 4, 0, 1, 1, 0},
};

enum { MACHINES = sizeof machines / sizeof *machines };

const struct st_machine *st_machine_get(int index)
{
    return index >= 0 && index < MACHINES ? &machines[index] : NULL;
}

const struct st_machine *st_machine_named(const char *name)
{
    for (int i = 0; i < MACHINES; i++)
        if (strcmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}

const struct st_machine *st_machine_of_gpu(const char *gpu)
{
    for (int i = 0; i < MACHINES; i++)
        if (strcmp(machines[i].gpu, gpu) == 0)
            return &machines[i];
    return NULL;
}

void st_machine_apply(const struct st_machine *machine, struct symtuner_call *call)
{
    call->arch = machine->arch;
    call->ranks = machine->gpus;
    call->nvlink = machine->nvlink;
    call->peer_raw = machine->peer_raw;
    call->peer_nccl = machine->peer_nccl;
    call->multicast = machine->multicast;
}

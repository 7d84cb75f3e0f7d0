/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines.h - known machines, with the properties on which NCCL's choice of a kernel depends.
 *
 * Pure: rows are constants. Threads: any. Errors: NULL if there is no such machine.
 */
#ifndef ST_MODEL_MACHINES_H_
#define ST_MODEL_MACHINES_H_

#include "symtuner_why.h"

struct st_machine {
    const char *name; /* such as "h200x8"                                           */
    const char *text; /* a description such as "8 x H200, NVSwitch"                 */
    const char *gpu;  /* the GPU's name as NVML reports it; rules use the name      */
    int arch;         /* 10 x compute capability: 90 is sm_90                       */
    int gpus;
    int nvlink;       /* 1: all pairs of GPUs have NVLink                           */
    int peer_raw;     /* 1: the driver allows peer access between all pairs         */
    int peer_nccl;    /* 1: NCCL's own P2P transport works between all pairs        */
    int multicast;    /* 1: NVLink multicast works                                  */
};

/* Return the machine in row ${index}, or NULL past the last. */
const struct st_machine *st_machine_get(int index);

/* Return the machine with this ${name}, or NULL. */
const struct st_machine *st_machine_named(const char *name);

/* Return the first machine whose ${gpu} has this name, or NULL. */
const struct st_machine *st_machine_of_gpu(const char *gpu);

/* Set the members of ${call} that describe the machine. Set the call's number of ranks to the
 * machine's number of GPUs. */
void st_machine_apply(const struct st_machine *machine, struct symtuner_call *call);

#endif

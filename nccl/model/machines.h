/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines.h - known machines: their properties on which NCCL's choice of a kernel depends.
 *
 * Pure: rows are constants. Threads: any. Errors: NULL if there is no such machine.
 */
#ifndef ST_MODEL_MACHINES_H_
#define ST_MODEL_MACHINES_H_

#include "symtuner_why.h"

struct st_machine {
    const char *name; /* "h200x8"                                         */
    const char *text; /* a description: "8 x H200, NVSwitch"              */
    const char *gpu;  /* as NVML calls it; rules use this name            */
    int arch;         /* 10 x compute capability                          */
    int gpus;
    int nvlink;       /* between all pairs                                */
    int peer_raw;     /* the driver's peer access between all pairs       */
    int peer_nccl;    /* NCCL's own P2P transport between all pairs       */
    int multicast;
};

/* Return the machine in row ${index}, or NULL past the last. */
const struct st_machine *st_machine_get(int index);

const struct st_machine *st_machine_named(const char *name);

/* Return the first machine with that GPU. */
const struct st_machine *st_machine_of_gpu(const char *gpu);

/* Give ${call} that machine's links, peer access and multicast, and its number of ranks. */
void st_machine_apply(const struct st_machine *machine, struct symtuner_call *call);

#endif

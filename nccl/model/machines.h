/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines.h - machines by name, as far as NCCL's choice of a kernel depends on them.
 *
 * Pure: rows are constants. Threads: any. Errors: NULL, no such machine.
 */
#ifndef ST_MODEL_MACHINES_H_
#define ST_MODEL_MACHINES_H_

#include "symtuner_why.h"

struct st_machine {
    const char *name; /* "h200x8"                                         */
    const char *text; /* the same for a reader                            */
    const char *gpu;  /* as NVML calls it; rules use this name            */
    int arch;         /* 10 x compute capability                          */
    int gpus;
    int nvlink;       /* between all pairs                                */
    int peer_raw;     /* the driver's peer access between all pairs       */
    int peer_nccl;    /* NCCL's own P2P transport; 2.27 asks for this one */
    int multicast;
};

/* The machine in row ${index}, or NULL past the last. */
const struct st_machine *st_machine_get(int index);

const struct st_machine *st_machine_named(const char *name);

/* The first machine with that GPU. */
const struct st_machine *st_machine_of_gpu(const char *gpu);

/* Give ${call} that machine's links, peer access and multicast, and its number of ranks. */
void st_machine_apply(const struct st_machine *machine, struct symtuner_call *call);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines.h - machines by name, and NCCL settings by NAME=VALUE, applied to a call.
 *
 * Ownership: rows are constants; a setting's text must live as long as the call. Errors: a text in
 * ${error} that names the offending word, and -1.
 */
#ifndef ST_MACHINES_H_
#define ST_MACHINES_H_

#include <stddef.h>

#include "cli/options.h"
#include "symtuner_why.h"

struct st_machine {
    const char *name; /* "h200x8" */
    const char *text;
    const char *gpu; /* as NVML calls it, which is what rules ask for */
    int arch, gpus;
    int nvlink, peer_raw, peer_nccl, multicast;
};

/* The ${index}-th machine, or NULL past the last. */
const struct st_machine *st_machine_get(int index);

/* The machine of that name, or NULL. */
const struct st_machine *st_machine_named(const char *name);

/* The first machine with that GPU, as NVML calls it, or NULL. */
const struct st_machine *st_machine_of_gpu(const char *gpu);

/* What --machine said to a command that asks rules (NULL: nothing, and this box counts): a name of
 * the list, a description as in SYMTUNER_MACHINE, which stands for this process from then on, or
 * "list".
 * ${gpus_out}: how many GPUs it has, 0 when that is not known. -1: go on; else the exit status. */
int st_machine_start(const char *command, const char *word, struct symtuner_machine *machine_out,
                     int *gpus_out);

/* error = "unknown machine ..." with what there is; false. */
bool st_machine_unknown(const char *value, char error[ST_OPTION_ERROR]);

/* Prints the list; the exit status. */
int st_machine_list(void);

/* symtuner_machine_find, and a line on stderr when SYMTUNER_MACHINE says nothing that it knows. */
int st_machine_here(struct symtuner_machine *machine_out);

/* Give ${call} that machine's links, peer access and multicast, and its number of ranks. */
void st_machine_apply(const struct st_machine *machine, struct symtuner_call *call);

/* Apply "NCCL_SYM_CTAS=16" to ${call}. 0, or -1 with the reason in ${error}. */
int st_setting_apply(struct symtuner_call *call, const char *setting, char *error, size_t size);

/* The names that st_setting_apply knows, one by one; NULL past the last. */
const char *st_setting_name(int index);

#endif

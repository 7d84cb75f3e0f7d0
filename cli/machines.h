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

#include "symtuner_why.h"

struct st_machine {
    const char *name; /* "h200x8" */
    const char *text;
    int arch, gpus;
    int nvlink, peer_raw, peer_nccl, multicast;
};

/* The ${index}-th machine, or NULL past the last. */
const struct st_machine *st_machine_get(int index);

/* The machine of that name, or NULL. */
const struct st_machine *st_machine_named(const char *name);

/* symtuner_machine_find, and a line on stderr when SYMTUNER_MACHINE says nothing that it knows. */
int st_machine_here(struct symtuner_machine *machine_out);

/* Give ${call} that machine's links, peer access and multicast, and its number of ranks. */
void st_machine_apply(const struct st_machine *machine, struct symtuner_call *call);

/* Apply "NCCL_SYM_CTAS=16" to ${call}. 0, or -1 with the reason in ${error}. */
int st_setting_apply(struct symtuner_call *call, const char *setting, char *error, size_t size);

/* The names that st_setting_apply knows, one by one; NULL past the last. */
const char *st_setting_name(int index);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - NCCL's environment variables that change its choice of a kernel, NAME=VALUE.
 *
 * Pure. Threads: any. Errors: -1, and a text in ${error} that names the wrong word.
 */
#ifndef ST_MODEL_SETTINGS_H_
#define ST_MODEL_SETTINGS_H_

#include <stddef.h>

#include "symtuner_why.h"

/* Apply "NCCL_SYM_CTAS=16" to ${call}, which keeps a pointer into ${setting}. 0, or -1. */
int st_setting_apply(struct symtuner_call *call, const char *setting, char *error, size_t size);

/* The name of setting ${index}, or NULL past the last. */
const char *st_setting_name(int index);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - applies settings (NAME=VALUE) of the NCCL variables on which NCCL's choice of a
 * kernel depends.
 *
 * Pure. Threads: any. Errors: 1 or -1, with a text in ${error} that names the wrong word.
 */
#ifndef ST_MODEL_SETTINGS_H_
#define ST_MODEL_SETTINGS_H_

#include <stddef.h>

#include "symtuner_why.h"

/* Apply a setting such as "NCCL_SYM_CTAS=16" to ${call}. Returns 0; -1 if the setting is wrong; 1
 * if the value should be a number and is not, but was applied as NCCL reads it. ${call} may keep a
 * pointer into ${setting}. */
int st_setting_apply(struct symtuner_call *call, const char *setting, char *error, size_t size);

/* Return the name of variable ${index}, or NULL past the last. */
const char *st_setting_name(int index);

#endif

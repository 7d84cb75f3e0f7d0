/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - applies settings (NAME=VALUE) of those NCCL variables that change its choice of a
 * kernel.
 *
 * Pure. Threads: any. Errors: -1, with a text in ${error} that names the wrong word.
 */
#ifndef ST_MODEL_SETTINGS_H_
#define ST_MODEL_SETTINGS_H_

#include <stddef.h>

#include "symtuner_why.h"

/* Apply a setting such as "NCCL_SYM_CTAS=16" to ${call}, which keeps a pointer into ${setting}.
 * Returns 0, or -1 if the setting is wrong. */
int st_setting_apply(struct symtuner_call *call, const char *setting, char *error, size_t size);

/* Return the name of variable ${index}, or NULL past the last. */
const char *st_setting_name(int index);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h - loads rules from all places that a user can name. The plugin, the kernel library and
 * the command use it. */
#ifndef ST_SOURCES_H_
#define ST_SOURCES_H_

#include "symtuner.h"

/* Like symtuner_rules_load, for a file that was named on a command line. The file may also be a
 * pipe: then wait up to a second until a writer has opened the pipe, and without limit for the
 * writer's data. */
enum symtuner_status st_rules_load_any(const char *path, symtuner_rules **rules_out, char *error,
                                       size_t error_size);

/*
 * st_rules_sources(line, path, csv, rules_out, error, error_size):
 * Load the rules of SYMTUNER_RULE (${line}), SYMTUNER_RULES (${path}) and NCCL_TUNER_CONFIG_FILE
 * (${csv}), in this order. Each may be NULL or "". If one of them is wrong, none is loaded, because
 * a part of the user's rules may be worse than no rules. If all are NULL or "", ${*rules_out} is
 * NULL.
 */
enum symtuner_status st_rules_sources(const char *line, const char *path, const char *csv,
                                      symtuner_rules **rules_out, char *error, size_t error_size);

#endif

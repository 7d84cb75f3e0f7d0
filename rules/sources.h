/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h - load rules from all their sources; for plugin, kernels and command. */
#ifndef ST_SOURCES_H_
#define ST_SOURCES_H_

#include "symtuner.h"

/* symtuner_rules_load for a file named on a command line: a pipe is allowed, too. Waits up to a
 * second for a writer to open it, and without limit for what the writer sends. */
enum symtuner_status st_rules_load_any(const char *path, symtuner_rules **rules_out, char *error,
                                       size_t error_size);

/*
 * st_rules_sources(line, path, csv, rules_out, error, error_size):
 * The rules of SYMTUNER_RULE, SYMTUNER_RULES and NCCL_TUNER_CONFIG_FILE, in this order; each may be
 * NULL or "". After an error nothing is loaded: half a policy is worse than none. The rules are
 * NULL if no source is named.
 */
enum symtuner_status st_rules_sources(const char *line, const char *path, const char *csv,
                                      symtuner_rules **rules_out, char *error, size_t error_size);

#endif

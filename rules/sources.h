/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h - loads rules from all their sources; used by plugin, kernel library and command. */
#ifndef ST_SOURCES_H_
#define ST_SOURCES_H_

#include "symtuner.h"

/* Do what symtuner_rules_load does, but for a file named on a command line, which may also be a
 * pipe. Waits up to a second for a writer to open the pipe, and without limit for its data. */
enum symtuner_status st_rules_load_any(const char *path, symtuner_rules **rules_out, char *error,
                                       size_t error_size);

/*
 * st_rules_sources(line, path, csv, rules_out, error, error_size):
 * Load the rules of SYMTUNER_RULE (${line}), SYMTUNER_RULES (${path}) and NCCL_TUNER_CONFIG_FILE
 * (${csv}), in this order; each may be NULL or "". If one of them is wrong, none is loaded: half a
 * policy is worse than none. ${*rules_out} is NULL if no source is named.
 */
enum symtuner_status st_rules_sources(const char *line, const char *path, const char *csv,
                                      symtuner_rules **rules_out, char *error, size_t error_size);

#endif

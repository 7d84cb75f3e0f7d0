/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h - where rules come from, for plugin, kernels and command alike. */
#ifndef ST_SOURCES_H_
#define ST_SOURCES_H_

#include "symtuner.h"

/* symtuner_rules_load for a file that a person named on a command line: a pipe will do as well. Its
 * writer has a second to come, and all the time to write. */
enum symtuner_status st_rules_load_any(const char *path, symtuner_rules **rules_out, char *error,
                                       size_t error_size);

/*
 * st_rules_sources(line, path, csv, rules_out, error, error_size):
 * The rules of SYMTUNER_RULE, SYMTUNER_RULES and NCCL_TUNER_CONFIG_FILE, in this order; each may be
 * NULL or "". The first error stops everything: half a policy is worse than none. NULL when no
 * source is named.
 */
enum symtuner_status st_rules_sources(const char *line, const char *path, const char *csv,
                                      symtuner_rules **rules_out, char *error, size_t error_size);

#endif

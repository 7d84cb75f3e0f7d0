/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h - where rules come from, for plugin, kernels and command alike. */
#ifndef ST_SOURCES_H_
#define ST_SOURCES_H_

#include "symtuner.h"

/* symtuner_rules_load for a file that a person named on a command line: a pipe will do as well, and
 * is waited for. */
enum symtuner_status st_rules_load_any(const char *path, symtuner_rules **rules_out, char *error,
                                       size_t error_size);

#endif

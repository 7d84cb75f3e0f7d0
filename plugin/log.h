/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - messages through NCCL's own logger.
 *
 * WARN: the user must act, at most once per cause and process. INFO: two lines per communicator.
 * Nothing is ever logged per call. A NULL logger is legal. Hazard: NCCL's logger takes a mutex that
 * NCCL may hold while it asks the env interface, so nothing under get_env may log.
 */
#ifndef ST_LOG_H_
#define ST_LOG_H_

#include "nccl_abi/base.h"
#include "plugin/options.h"

void st_log_use(nccl_abi_logger logger); /* the last logger given wins; NULL changes nothing */
void st_log_level(enum st_log level);    /* SYMTUNER_LOG */

void st_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void st_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

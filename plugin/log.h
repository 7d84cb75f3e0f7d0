/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - messages through NCCL's own logger.
 *
 * A warning means that the user must act. Each cause leads to at most one warning per process, with
 * one exception: each ledger that cannot be written leads to a warning. With NCCL_DEBUG=INFO a
 * communicator gets one line when it begins and one when it ends. Nothing is ever logged per call.
 * If NCCL has given us no logger, or if its logger would drop a warning, the warning goes to
 * stderr.
 * Hazard: NCCL's logger takes a mutex that NCCL may hold while it asks our env interface for a
 * variable. So nothing that st_env_get calls may log.
 */
#ifndef ST_LOG_H_
#define ST_LOG_H_

#include "nccl_abi/base.h"
#include "plugin/options.h"

void st_log_use(nccl_abi_logger logger); /* a later logger replaces an earlier one; NULL does not */
void st_log_level(enum st_log level);    /* ${level} is the value of SYMTUNER_LOG */

void st_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void st_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic(nccl_abi_logger) nccl_log;
static atomic_int most = NCCL_ABI_LOG_INFO;

void st_log_use(nccl_abi_logger logger)
{
    if (logger)
        atomic_store(&nccl_log, logger);
}

void st_log_level(enum st_log level)
{
    static const int highest[] = {
        [ST_LOG_INFO] = NCCL_ABI_LOG_INFO, [ST_LOG_WARN] = NCCL_ABI_LOG_WARN, [ST_LOG_OFF] = 0};

    atomic_store(&most, highest[level]);
}

static void say(int level, const char *format, va_list args)
{
    nccl_abi_logger logger = atomic_load(&nccl_log);
    char text[1024];

    if (level > atomic_load(&most))
        return;
    vsnprintf(text, sizeof text, format, args);
    if (logger)
        logger(level, NCCL_ABI_SUB_INIT | NCCL_ABI_SUB_TUNING, "symtuner", 0, "symtuner: %s", text);
    /* Without NCCL_DEBUG, NCCL prints no warning at all: a job would never learn of its typo. */
    if (level == NCCL_ABI_LOG_WARN && (!logger || !getenv("NCCL_DEBUG")))
        fprintf(stderr, "symtuner: warning: %s\n", text);
}

void st_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(NCCL_ABI_LOG_WARN, format, args);
    va_end(args);
}

void st_info(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(NCCL_ABI_LOG_INFO, format, args);
    va_end(args);
}

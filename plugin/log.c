/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/names.h"

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

/* Will NCCL's logger print a warning that belongs to all subsystems? The logger drops a message if
 * NCCL_DEBUG is below the message's level, or if all subsystems of the message are off (NCCL's
 * debug.cc, 2.27.3 to 2.30.7). */
static bool nccl_prints_warnings(void)
{
    static const char *const level[] = {"WARN", "INFO", "ABORT", "TRACE"};
    static const char *const subsystem[] = {
        "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "CALL", "PROXY",
        "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS", "ALLOC_HOST", "DESTROY", "ALL"};
    static const struct st_words levels = {level, sizeof level / sizeof *level},
                                 subsystems = {subsystem, sizeof subsystem / sizeof *subsystem};
    const char *debug = getenv("NCCL_DEBUG"), *list = getenv("NCCL_DEBUG_SUBSYS");
    bool all_but = list && *list == '^', on = !list || all_but;

    if (!debug || st_word_find(&levels, debug, strlen(debug)) < 0)
        return false;
    for (list = list ? list + all_but : ""; *list; list += *list == ',') {
        size_t n = strcspn(list, ",");
        int found = st_word_find(&subsystems, list, n);

        if (!all_but && found >= 0)
            on = true;
        if (all_but && found == subsystems.count - 1)
            on = false; /* after ^, ALL switches every subsystem off */
        list += n;
    }
    return on;
}

static void say(int level, const char *format, va_list args)
{
    nccl_abi_logger logger = atomic_load(&nccl_log);
    char text[1024];

    if (level > atomic_load(&most))
        return;
    vsnprintf(text, sizeof text, format, args);
    if (logger) /* NCCL's own warnings belong to all subsystems, so ours do, too */
        logger(level,
               level == NCCL_ABI_LOG_WARN ? ~0ul : NCCL_ABI_SUB_INIT | NCCL_ABI_SUB_TUNING,
               "symtuner", 0, "symtuner: %s", text);
    if (level == NCCL_ABI_LOG_WARN && (!logger || !nccl_prints_warnings()))
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

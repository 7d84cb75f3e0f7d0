/* SPDX-License-Identifier: Apache-2.0 */
/* messages.h - a logger that keeps its messages, for tests that read them. */
#ifndef TEST_MESSAGES_H_
#define TEST_MESSAGES_H_

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nccl_abi/base.h"

static struct {
    int warnings, infos;
    char text[8192];
} messages __attribute__((unused));

__attribute__((unused)) static void keep_message(int level, unsigned long flags, const char *file,
                                                 int line, const char *format, ...)
{
    size_t used = strlen(messages.text);
    va_list args;

    (void)flags, (void)file, (void)line;
    messages.warnings += level == NCCL_ABI_LOG_WARN;
    messages.infos += level == NCCL_ABI_LOG_INFO;
    va_start(args, format);
    vsnprintf(messages.text + used, sizeof messages.text - used, format, args);
    va_end(args);
}

#endif

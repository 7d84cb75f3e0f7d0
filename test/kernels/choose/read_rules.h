/* SPDX-License-Identifier: Apache-2.0 */
/* read_rules.h - reads [kernels] rules as a process on four H200s reads them. */
#ifndef ST_TEST_AR_READ_RULES_H_
#define ST_TEST_AR_READ_RULES_H_

#include <stdlib.h>

#include "kernels/choose/rules.h"

static char note[AR_RULES_NOTE]; /* what ar_rules_read says about the rules */

/* Set up the environment without rules. */
static inline void clean(void)
{
    static const char *const names[] = {"SYMTUNER_RULE", "SYMTUNER_RULES", "SYMTUNER_MODE"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", 1);
    setenv("SYMTUNER_LOG", "off", 1);
}

static inline symtuner_rules *rules_of(const char *line)
{
    setenv("SYMTUNER_RULE", line, 1);
    return ar_rules_read(22809, 4, note);
}

static inline const char *why_of(const symtuner_rules *rules, const struct ar_ask *ask,
                                 const struct ar_choice *c)
{
    static char why[160];

    ar_rules_why(rules, ask, c, why, sizeof why);
    return why;
}

#endif

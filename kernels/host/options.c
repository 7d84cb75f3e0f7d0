/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - reads the library's environment variables. A value that is not understood is an
 * error, never a default. */
#include "kernels/host/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/choose/rules.h"
#include "nccl/names.h"
#include "nccl/param.h"
#include "nccl/variables.h"

extern char **environ;

_Static_assert((int)ST_VARIABLE_CTAS == (int)AR_MAX_CTAS,
               "nccl/variables.c allows what kernels can have");

/* Warn about variables SYMTUNER_AR_* that we do not know. Their names are probably misspelt. */
static void name_strangers(void)
{
    const struct st_words *words = &st_kernel_variables;
    char text[200];

    for (char **entry = environ; entry && *entry; entry++) {
        size_t n = strcspn(*entry, "=");
        const char *near;

        if (strncmp(*entry, "SYMTUNER_AR_", 12) != 0 || st_word_find(words, *entry, n) >= 0)
            continue;
        near = st_word_nearest(words, *entry, n);
        snprintf(text, sizeof text, "%.90s: there is no such variable%s%s%s", *entry,
                 near ? "; did you mean " : "; docs/kernels.md lists them", near ? near : "",
                 near ? "?" : "");
        ar_rules_warn(text);
    }
}

/* If the variable ${name} is set, set *value to its number, or to the index of its word. Returns 0,
 * or -1 if the value is wrong. */
static int take(const char *name, int *value, char *why, size_t why_size)
{
    const struct st_variable *variable = st_variable_find(name, strlen(name));
    const char *text = getenv(name);
    char legal[ST_VARIABLE_LEGAL];

    if (text == NULL || st_variable_value(variable, text, value))
        return 0;
    st_variable_legal(variable, legal);
    snprintf(why, why_size, "%s=\"%s\" is %s %s", name, text,
             variable->words ? "unknown; write" : "not", legal);
    return -1;
}

/* Return whether graphs and other calls must wait for each other (order/mixing.h). NCCL's own
 * variable says so; it is 1 by default. */
static bool mixes(void)
{
    return st_param(getenv("NCCL_GRAPH_MIXING_SUPPORT"), 1) != 0;
}

int ar_options_read(struct ar_options *options, char *why, size_t why_size)
{
    int timeout = 0, stall = 0;

    name_strangers();
    memset(options, 0, sizeof *options);
    options->force.family = options->links = options->overlap = options->beside = -1;
    options->probe = -1;
    if (take("SYMTUNER_AR_KERNEL", &options->force.family, why, why_size) ||
        take("SYMTUNER_AR_TRANSPORT", &options->transport, why, why_size) ||
        take("SYMTUNER_AR_LINKS", &options->links, why, why_size) ||
        take("SYMTUNER_AR_CTAS", &options->force.ctas, why, why_size) ||
        take("SYMTUNER_AR_MAX_CTAS", &options->max_ctas, why, why_size) ||
        take("SYMTUNER_AR_BESIDE", &options->beside, why, why_size) ||
        take("SYMTUNER_AR_OVERLAP", &options->overlap, why, why_size) ||
        take("SYMTUNER_AR_PROBE", &options->probe, why, why_size) ||
        take("SYMTUNER_AR_NODES", &options->nodes, why, why_size) ||
        take("SYMTUNER_AR_SHARE_GPU", &options->share_gpu, why, why_size) ||
        take("SYMTUNER_AR_IPC", &options->ipc, why, why_size) ||
        take("SYMTUNER_AR_LAG", &options->lag, why, why_size) ||
        take("SYMTUNER_AR_TIMEOUT_MS", &timeout, why, why_size) ||
        take("SYMTUNER_AR_TEST_STALL_US", &stall, why, why_size))
        return -1;
    options->timeout_ms = (uint32_t)timeout;
    options->stall_us = (uint32_t)stall;
    options->mixing = mixes();
    options->probe_file = getenv("SYMTUNER_AR_PROBE_FILE");
    if (options->probe_file != NULL && *options->probe_file == 0)
        options->probe_file = NULL;
    return 0;
}

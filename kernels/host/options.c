/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - reads the library's environment variables. A value that is not understood is an
 * error, never a default. */
#include "kernels/host/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/choose/rules.h"
#include "nccl/names.h"

extern char **environ;

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

static int read_number(const char *name, uint64_t lowest, uint64_t highest, uint64_t *value,
                       char *why, size_t why_size)
{
    const char *text = getenv(name);
    char *end;
    unsigned long long v;

    if (text == NULL || *text == 0)
        return 0;
    errno = 0;
    v = strtoull(text, &end, 10);
    /* strtoull would also accept spaces and signs */
    if (errno != 0 || *end != 0 || *text < '0' || *text > '9' || v < lowest || v > highest) {
        snprintf(why, why_size, "%s=\"%s\" is not a number from %llu to %llu", name, text,
                 (unsigned long long)lowest, (unsigned long long)highest);
        return -1;
    }
    *value = v;
    return 0;
}

/* If the variable ${name} is set, set *value to the index of its value in ${words}. */
static int read_word(const char *name, const char *const *words, int n, int *value, char *why,
                     size_t why_size)
{
    const char *text = getenv(name);
    size_t at;

    if (text == NULL || *text == 0)
        return 0;
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], text) == 0) {
            *value = i;
            return 0;
        }
    at = (size_t)snprintf(why, why_size, "%s=\"%s\" is unknown; write one of", name, text);
    for (int i = 0; i < n && at < why_size; i++)
        at += (size_t)snprintf(why + at, why_size - at, " %s", words[i]);
    return -1;
}

/* Return whether graphs and other calls must wait for each other (order/mixing.h). NCCL's own
 * variable says so; it is 1 by default. Read its value as NCCL does (misc/param.cc): text that is
 * no number counts as 0, and a number that does not fit into 64 bits counts as the default. */
static bool mixes(void)
{
    const char *text = getenv("NCCL_GRAPH_MIXING_SUPPORT");
    long long value;

    if (text == NULL || *text == 0)
        return true;
    errno = 0;
    value = strtoll(text, NULL, 0);
    return errno != 0 || value != 0;
}

int ar_options_read(struct ar_options *options, char *why, size_t why_size)
{
    static const char *const transports[] = {"auto", "peer", "host"};
    static const char *const links[] = {"nvlink", "pcie"};
    const char *kernels[AR_FAMILIES];
    static const char *const overlaps[AR_STARTS] = {"0", "1", "2"};
    static const char *const ipcs[] = {"0", "1", "auto"}; /* in the order of enum ar_ipc_mode */
    uint64_t ctas = 0, timeout = 0, stall = 0, lag = 0, probe = 2, most = 0, nodes = 0, share = 0;

    name_strangers();
    memset(options, 0, sizeof *options);
    options->force.family = options->links = options->overlap = options->beside = -1;
    for (int f = 0; f < AR_FAMILIES; f++)
        kernels[f] = ar_family_name(f);
    if (read_word("SYMTUNER_AR_KERNEL", kernels, AR_FAMILIES, &options->force.family, why,
                  why_size) ||
        read_word("SYMTUNER_AR_TRANSPORT", transports, 3, &options->transport, why, why_size) ||
        read_word("SYMTUNER_AR_LINKS", links, 2, &options->links, why, why_size) ||
        read_number("SYMTUNER_AR_CTAS", 1, AR_MAX_CTAS, &ctas, why, why_size) ||
        read_number("SYMTUNER_AR_MAX_CTAS", 1, AR_MAX_CTAS, &most, why, why_size) ||
        read_word("SYMTUNER_AR_BESIDE", st_beside_words.word, st_beside_words.count,
                  &options->beside, why, why_size) ||
        read_word("SYMTUNER_AR_OVERLAP", overlaps, AR_STARTS, &options->overlap, why, why_size) ||
        read_number("SYMTUNER_AR_PROBE", 0, 1, &probe, why, why_size) ||
        read_number("SYMTUNER_AR_NODES", 0, 1, &nodes, why, why_size) ||
        read_number("SYMTUNER_AR_SHARE_GPU", 0, 1, &share, why, why_size) ||
        read_word("SYMTUNER_AR_IPC", ipcs, 3, &options->ipc, why, why_size) ||
        read_number("SYMTUNER_AR_LAG", 1, 8, &lag, why, why_size) ||
        read_number("SYMTUNER_AR_TIMEOUT_MS", 1, 86400000, &timeout, why, why_size) ||
        read_number("SYMTUNER_AR_TEST_STALL_US", 0, 100000, &stall, why, why_size))
        return -1;
    options->force.ctas = (int)ctas;
    options->max_ctas = (int)most;
    options->timeout_ms = (uint32_t)timeout;
    options->stall_us = (uint32_t)stall;
    options->lag = (int)lag;
    options->nodes = (int)nodes;
    options->share_gpu = (int)share;
    options->mixing = mixes();
    options->probe = probe == 2 ? -1 : (int)probe;
    options->probe_file = getenv("SYMTUNER_AR_PROBE_FILE");
    if (options->probe_file != NULL && *options->probe_file == 0)
        options->probe_file = NULL;
    return 0;
}

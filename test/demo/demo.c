/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demo.c - `make demo`: shows what NCCL decides without and with libsymtuner.so.
 *
 * usage: demo LIBRARY RECORDS RULES [LEDGER]     part 2 writes its ledger into the file LEDGER
 *
 * The demo does not compute what NCCL would do, but reads it from RECORDS: what NCCL decided alone,
 * and which symmetric kernels it ran with other CTA counts. Where the plugin changes a recorded
 * cost table, the demo picks an entry of the table as that NCCL release does. Each part runs in a
 * process of its own, because the plugin and NCCL read their settings only once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/demo/host.h"

enum { RECORDS_MAX = 1000, WIDTH = 98 };
static struct record records[RECORDS_MAX];
static int count;
static const char *library, *rules, *whole_rules, *keep;

/* ---- text ------------------------------------------------------------------------------------ */

/* Print ${text}, with lines broken at blanks. The first line begins with ${first}, the others with
 * ${next}. */
static void print_folded(const char *first, const char *next, const char *text)
{
    const char *indent = first;

    while (*text) {
        size_t room = WIDTH - strlen(indent), n = strlen(text);

        if (n > room)
            for (n = room; n > 0 && text[n] != ' ';)
                n--;
        if (n == 0)
            n = room;
        printf("%s%.*s\n", indent, (int)n, text);
        text += n;
        text += strspn(text, " ");
        indent = next;
    }
}

/* Print a line that the plugin logs. All ranks are in this process and log the same lines, so print
 * each only once. */
static void print_log(const char *line)
{
    static char last[2048];

    if (strcmp(last, line) != 0)
        print_folded("  log: ", "       ", line);
    snprintf(last, sizeof last, "%s", line);
}

static void be_silent(const char *line)
{
    (void)line;
}

static const char *size_text(uint64_t bytes)
{
    static char text[24];
    int unit = bytes >= 1 << 20 && bytes % (1 << 20) == 0 ? 2 : bytes >= 1024 && bytes % 1024 == 0;

    snprintf(text, sizeof text, "%llu %s", (unsigned long long)bytes >> 10 * unit,
             unit == 2 ? "MiB" : unit ? "KiB" : "B");
    return text;
}

static void describe(const struct outcome *outcome, char *text, size_t size)
{
    char channels[24] = "";

    if (outcome->channels)
        snprintf(channels, sizeof channels, "%3d %s", outcome->channels,
                 outcome->symmetric ? "CTAs" : "channels");
    else if (outcome->symmetric)
        strcpy(channels, "(not recorded)");
    if (outcome->symmetric)
        snprintf(text, size, "%-21s %s", outcome->kernel, channels);
    else
        snprintf(text, size, "%s/%-*s%s", algo_name[outcome->algo],
                 17 - (int)strlen(algo_name[outcome->algo]), proto_name[outcome->proto], channels);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static struct outcome as_recorded(const struct record *call)
{
    return (struct outcome){call->symmetric, call->kernel, call->algo, call->proto, call->channels};
}

static int compare(struct host *host, const struct record *call, char *before, char *after,
                   size_t size)
{
    struct outcome alone = as_recorded(call), with;

    if (host_call(host, records, count, call, &with) != 0)
        return -1;
    describe(&alone, before, size);
    describe(&with, after, size);
    if (strcmp(before, after) == 0)
        snprintf(after, size, "the same");
    return 0;
}

/* Show all recorded calls of one release, one type, one number of ranks and one way to register
 * buffers. Leave out symmetric kernels that were not also recorded with the setting ${other}; ""
 * leaves out none. */
static int print_calls(struct host *host, const char *release, const char *dtype, bool windows,
                       int ranks, const char *other)
{
    char before[64], after[64];

    printf("\n  %-14s%-9s%8s   %-32s%s\n", "call", "", "bytes", "NCCL alone", "with symtuner");
    for (int i = 0; i < count; i++) {
        const struct record *call = &records[i];

        if (strcmp(call->release, release) != 0 || strcmp(call->dtype, dtype) != 0 ||
            call->windows != windows || call->env[0] || call->ranks != ranks ||
            (call->symmetric && !record_with(records, count, call, other)))
            continue;
        if (compare(host, call, before, after, sizeof before) != 0)
            return 1;
        printf("  %-14s%-4s%-5s%8s   %-32s%s\n", call->coll, call->dtype, call->op,
               size_text(call->bytes), before, after);
    }
    return 0;
}

static int part_default(void)
{
    struct host *host;
    int bad;

    setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=2", 1);
    host = host_open(library, "2.28.9", true, 2, print_log);
    if (!host)
        return 1;
    printf("  loaded: %s\n", host_interfaces(host));
    bad = print_calls(host, "2.28.9", "f32", true, 2, "NCCL_MIN_CTAS=16");
    host_close(host);
    return bad;
}

/* Return the release's largest AllReduce of 8 ranks that was recorded both with NCCL's own CTA
 * count and with 16 CTAs. */
static const struct record *large_symmetric(const char *release)
{
    const struct record *best = NULL;

    for (int i = 0; i < count; i++)
        if (records[i].symmetric && strcmp(records[i].release, release) == 0 &&
            strcmp(records[i].coll, "AllReduce") == 0 && !records[i].env[0] &&
            records[i].ranks == 8 &&
            record_with(records, count, &records[i], "NCCL_SYM_CTAS=16") &&
            (!best || records[i].bytes > best->bytes))
            best = &records[i];
    return best;
}

/* Print the ledger's lines about changed answers and about symmetric kernels. */
static int print_ledger(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[512];

    printf("\n  SYMTUNER_LEDGER then holds, among others (8 ranks counted):\n");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strstr(line, "verdict=general") ||
            (strncmp(line, "ran", 3) == 0 && !strstr(line, "symmetric=0")))
            print_folded("  ", "    ", line);
    }
    if (!file)
        fprintf(stderr, "demo: %s: %m\n", path);
    else
        fclose(file);
    if (!keep)
        unlink(path);
    return file == NULL;
}

static int part_rules(void)
{
    const struct record *symmetric = large_symmetric("2.28.9");
    struct outcome unshown;
    char temporary[] = "/tmp/symtuner-demo-XXXXXX";
    const char *ledger = keep ? keep : temporary;
    int bad, fd = keep ? -1 : mkstemp(temporary);
    struct host *host;

    if (fd < 0 && !keep) {
        fprintf(stderr, "demo: %s: %m\n", temporary);
        return 1;
    }
    close(fd);
    setenv("SYMTUNER_LEDGER", ledger, 1);
    setenv("SYMTUNER_RULES", whole_rules, 1);
    host = host_open(library, "2.28.9", true, 8, print_log);
    if (!host)
        return 1;
    printf("  loaded: %s\n", host_interfaces(host));
    bad = print_calls(host, "2.28.9", "f32", false, 8, "") ||
          print_calls(host, "2.28.9", "i32", true, 8, "") ||
          /* NCCL asks no tuner about this symmetric call, but the ledger must have it */
          (symmetric && host_call(host, records, count, symmetric, &unshown) != 0);
    host_close(host);
    return print_ledger(ledger) || bad;
}

static const char *release;

static int part_release(void)
{
    const struct record *call = large_symmetric(release);
    char before[64], after[64];
    bool by_env = strcmp(release, "2.27.7") != 0; /* 2.27 has no env interface */
    struct host *host;
    int bad;

    setenv("SYMTUNER_RULES", whole_rules, 1);
    host = call ? host_open(library, release, by_env, 8, be_silent) : NULL;
    if (!host)
        return 1;
    bad = compare(host, call, before, after, sizeof before);
    if (!bad)
        printf("  %-8s%-34s%8s  %s -> %s\n", release, host_interfaces(host),
               size_text(call->bytes), before, after + strcspn(after, " "));
    host_close(host);
    return bad != 0;
}

/* Run a part in a child process, which has an environment of its own. */
static int run(int (*part)(void))
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        extern char **environ;

        for (char **entry = environ; *entry;)
            if (strncmp(*entry, "NCCL_", 5) == 0 || strncmp(*entry, "SYMTUNER_", 9) == 0) {
                char name[128];

                snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
                unsetenv(name);
                entry = environ;
            } else {
                entry++;
            }
        /* this program prints what the plugin logs; with INFO, the plugin leaves its warnings to
         * NCCL's log and does not write them to stderr, too */
        setenv("NCCL_DEBUG", "INFO", 1);
        setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=8", 1);
        status = part();
        fflush(stdout);
        _exit(status);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    if (WIFSIGNALED(status))
        fprintf(stderr, "demo: a part ended by signal %d\n", WTERMSIG(status));
    return status != 0;
}

int main(int argc, char **argv)
{
    static const char *const releases[] = {"2.27.7", "2.28.9", "2.29.3", "2.29.7", "2.30.7"};
    int bad = 0;

    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: demo LIBRARY RECORDS RULES [LEDGER]\n");
        return 2;
    }
    library = argv[1];
    count = record_read(argv[2], records, RECORDS_MAX);
    rules = argv[3];
    whole_rules = realpath(rules, NULL); /* ranks may have different working directories */
    if (!whole_rules) {
        fprintf(stderr, "demo: %s: %m\n", rules);
        return 1;
    }
    keep = argv[4];
    if (count <= 0)
        return 1;
    print_folded("", "",
                 "symtuner demo, without a GPU: this program loads libsymtuner.so as NCCL does and "
                 "plays recorded calls. Boxes: H200s, NVLink without multicast, all ranks in one "
                 "process. Kernels, cost tables and CTA counts are what NCCL's own host code was "
                 "recorded to choose (test/data/README.md). No time is measured here.");
    printf("\n1. NCCL 2.28.9 on 2 GPUs, only NCCL_ENV_PLUGIN=libsymtuner.so, no rules, buffers in "
           "symmetric windows\n");
    bad |= run(part_default);
    printf("\n2. NCCL 2.28.9 on 8 GPUs, only NCCL_ENV_PLUGIN=libsymtuner.so, rules of %s\n", rules);
    bad |= run(part_rules);
    printf("\n3. Each recorded release with the same rules: AllReduce f32, both buffers in "
           "symmetric windows\n\n  %-8s%-34s%8s  %s\n", "NCCL", "interfaces loaded", "bytes",
           "kernel, CTAs alone -> with symtuner");
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        release = releases[i];
        bad |= run(part_release);
    }
    if (bad)
        fprintf(stderr, "demo: FAILED, see above\n");
    return bad;
}

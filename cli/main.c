/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - finds the subcommand that the first argument names, and runs it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "nccl/names.h"
#include "symtuner.h"

static const struct {
    const char *name;
    st_command *run;
    const char *what;
} commands[] = {
    {"agree", st_cmd_agree, "compare the ledgers of all ranks: the first difference, or \"agree\""},
    {"bench", st_cmd_bench, "time NCCL, NCCL with symtuner and symtuner's kernels side by side"},
    {"check", st_cmd_check, "read rules files; report errors, and rules that cannot work"},
    {"decide", st_cmd_decide,
     "what the rules say about one call, and what it does to a cost table"},
    {"diff", st_cmd_diff, "what another rules file would change"},
    {"doctor", st_cmd_doctor, "what keeps the plugin, rules or kernels from working on this box"},
    {"env", st_cmd_env, "the SYMTUNER_* variables, their values here and their meaning"},
    {"run", st_cmd_run, "run a program with plugin, drop-in and JAX route; say what they did"},
    {"table", st_cmd_table, "the decision map of a rules file, in the terminal or as a page"},
    {"top", st_cmd_top, "what ran, from ledgers: sizes, kernels, registered or not"},
    {"tune", st_cmd_tune, "measure this box; write rules, raw data and a report"},
    {"why", st_cmd_why, "what NCCL does with one call, and what keeps it from a symmetric kernel"},
    /* the help does not name worker, because only doctor, tune and bench run it */
    {"worker", st_cmd_worker, NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *out)
{
    fprintf(out,
            "symtuner %s: steer NCCL toward its symmetric-memory kernels\n\n"
            "usage: symtuner COMMAND [...]      symtuner help COMMAND\n\n",
            SYMTUNER_VERSION);
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].what)
            fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].what);
}

/* Flush stdout and return ${status}. If output was lost, on a full disk for example, return a
 * failure, because lost output must not look like success. */
static int finish(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    /* The reader of a pipe is gone, as in "symtuner doctor | head". Usually SIGPIPE has ended us by
     * now. If our parent ignored it, so did we until here. */
    if (errno == EPIPE) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    fprintf(stderr, "symtuner: standard output: %s\n",
            errno ? strerror(errno) : "not all of it could be written");
    return status == ST_EXIT_FINE ? ST_EXIT_FINDINGS : status;
}

/* Return the function of the subcommand ${name}, or NULL if there is none. */
static st_command *find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run;
    return NULL;
}

static int unknown(const char *name)
{
    const char *word[COMMANDS];
    struct st_words words = {word, 0};
    const char *nearest;

    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].what)
            word[words.count++] = commands[i].name;
    nearest = st_word_nearest(&words, name, strlen(name));
    return st_fail(ST_EXIT_USAGE, "symtuner: %s \"%.60s\"; %s%s%s`symtuner --help` lists them\n",
                   name[0] == '-' ? "no such option:" : "unknown command", name,
                   nearest ? "did you mean " : "", nearest ? nearest : "", nearest ? "? " : "");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "--help";
    st_command *run;

    st_terminal_guard();
    if (strcmp(name, "help") == 0 && argc > 2) { /* symtuner help COMMAND */
        static char help[] = "--help";
        char *with[] = {argv[2], help, NULL};

        run = find(argv[2]);
        return run ? finish(run(2, with)) : unknown(argv[2]);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        usage(stdout);
        return finish(argc > 1 ? ST_EXIT_FINE : ST_EXIT_USAGE);
    }
    if (strcmp(name, "--version") == 0) {
        printf("symtuner %s\n", SYMTUNER_VERSION);
        return finish(ST_EXIT_FINE);
    }
    run = find(name);
    return run ? finish(run(argc - 1, argv + 1)) : unknown(name);
}

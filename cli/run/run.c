/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - symtuner run: starts a program with symtuner's plugin, drop-in and JAX route. When the
 * program has ended, prints what they did.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "cli/gpu/cuda.h"
#include "cli/options.h"
#include "cli/run/job.h"
#include "cli/run/plan.h"
#include "cli/run/program.h"
#include "cli/run/summary.h"
#include "cli/text.h"
#include "nccl/names.h"
#include "nccl/variables.h"

struct request {
    struct st_run_ask ask;
    bool print, quiet;
};

/* ---- command line ---------------------------------------------------------------------------- */

/* Say that the ${n} bytes at ${wrong} are not a word of --only. Returns false. */
static bool only_wrong(const struct st_words *words, const char *wrong, size_t n,
                       char error[ST_OPTION_ERROR])
{
    const char *near = st_word_nearest(words, wrong, n);
    char word[80];

    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word), wrong);
    st_option_wrong(error,
                    "--only wants words of plugin, dropin, jax, allreduce, reducescatter and "
                    "allgather, joined by commas",
                    word);
    if (near)
        st_text_add(error, ST_OPTION_ERROR, strlen(error), "; did you mean %s?", near);
    return false;
}

/* Read a list such as "dropin,allreduce". If the list names parts, all other parts are left out. If
 * it names collectives, the drop-in leaves all other collectives to NCCL. */
static bool read_only(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    static const char *const word[] = {"plugin",    "dropin",        "jax",
                                       "allreduce", "reducescatter", "allgather"};
    static const struct st_words words = {word, sizeof word / sizeof *word};
    struct st_run_ask *ask = to;
    bool given[sizeof word / sizeof *word] = {false}, parts = false;

    for (const char *at = value;; at++) {
        size_t n = strcspn(at, ",");
        int index = st_word_find(&words, at, n);

        if (index < 0)
            return only_wrong(&words, at, n, error);
        given[index] = true;
        parts |= index < ST_RUN_PARTS;
        at += n;
        if (*at == '\0')
            break;
    }
    ask->named = parts;
    ask->colls[0] = '\0';
    for (int i = 0; i < words.count; i++)
        if (i < ST_RUN_PARTS)
            ask->part[i] = given[i] || !parts;
        else if (given[i])
            st_text_add(ask->colls, sizeof ask->colls, strlen(ask->colls), "%s%s",
                        ask->colls[0] ? "," : "", word[i]);
    return true;
}

#define AT(member) offsetof(struct request, member)
static const struct st_option rows[] = {
    {"only", "WHAT",
     "of plugin, dropin, jax: set up only these parts; of allreduce, reducescatter, allgather: "
     "send only these to our kernels; several are joined by commas",
     ST_OPTION_READ, .read = read_only, .at = AT(ask)},
    {"max-ctas", "N", "our kernels use at most N CTAs each (SYMTUNER_AR_MAX_CTAS)",
     ST_OPTION_NUMBER, .at = AT(ask.max_ctas), .least = 1, .most = ST_VARIABLE_CTAS},
    {"verify", "N",
     "run the first N calls of each kind by our kernels and by NCCL, and compare "
     "(SYMTUNER_VERIFY)",
     ST_OPTION_NUMBER, .at = AT(ask.verify), .least = 1, .most = ST_VARIABLE_VERIFY},
    {"off", NULL, "load everything, but leave every call to NCCL (SYMTUNER_MODE=off)",
     ST_OPTION_FLAG, .at = AT(ask.off)},
    {"print", NULL, "print what it would set, as lines for sh; run nothing", ST_OPTION_FLAG,
     .at = AT(print)},
    {"quiet", NULL, "neither the line at the start nor the summary", ST_OPTION_FLAG,
     .at = AT(quiet)},
};
static const struct st_command_line line = {
    .command = "run",
    .usage = "[options] -- PROGRAM [ARGUMENT...]\n--print [options]\n",
    .about = "Run a program with symtuner's plugin, drop-in and JAX route. One line on stderr says "
             "what is set;\nat the end a summary says which collectives ran, and which of them by "
             "our kernels. Your own\nplugins and preloaded libraries stay: plugins run behind "
             "ours, libraries come behind the drop-in.\n",
    .after = "Exit: the program's status; if a signal killed the program, run dies by the same "
             "signal. 126: it\ncannot be executed; 127: it is not found; 2: wrong usage. "
             "docs/run.md says more.\n"
             "examples: symtuner run -- torchrun --nproc-per-node 8 train.py\n"
             "          symtuner run --print >> job.sh\n",
    ST_OPTIONS(rows),
    .most_words = ST_ANY_WORDS,
    .words_last = true};

/* ---- environment and files ------------------------------------------------------------------- */

/* Return the value that the program would see without us: the value in the environment. If a
 * variable of NCCL is not set there, return its value in NCCL's conf files. */
static const char *value_of(const void *doctor, const char *name)
{
    const char *value = getenv(name);
    const struct st_setting *setting = value ? NULL : st_doctor_get(doctor, name);

    return setting && strncmp(name, "NCCL_", 5) == 0 ? setting->value : value;
}

static const char *find(const char *name, char path[ST_PATH])
{
    return strchr(st_beside_command(name, path, ST_PATH), '/') ? path : NULL;
}

static void make_plan(const struct st_run_ask *ask, struct st_run_plan *plan)
{
    /* static, because it is too large for the stack */
    static struct st_doctor doctor = {.root = ""};
    char plugin[ST_PATH], dropin[ST_PATH], kernels[ST_PATH];
    struct st_run_libraries libraries = {find("libsymtuner.so", plugin),
                                         find("libsymtuner_nccl.so", dropin),
                                         find("libsymtuner_ar.so", kernels)};

    st_doctor_settings(&doctor);
    st_run_plan(ask, &libraries, value_of, &doctor, plan);
}

/* Write the value of ${setting} into ${word} as a word for sh. Returns false if the value is too
 * long or has a character that is not safe to print. */
static bool word_of(const struct st_run_setting *setting, char word[2 * ST_RUN_VALUE])
{
    bool shown = true;

    for (const char *at = setting->value; *at && shown;)
        at += st_text_character(at, &shown);
    return shown && st_run_quote(setting->value, word, 2 * ST_RUN_VALUE);
}

/* Print the settings for sh. Print all of them or none: a job script that got only some would start
 * its ranks with these. The first line is a comment that may contain values of the user.
 * st_text_plain() removes newlines from it, because sh would run what follows a newline. */
static int print_plan(const struct st_run_plan *plan)
{
    char word[2 * ST_RUN_VALUE];

    for (int i = 0; i < plan->sets; i++)
        if (!word_of(&plan->set[i], word)) {
            fprintf(stderr,
                    "symtuner run: %s cannot be printed: its value has a control character "
                    "or is too long\n",
                    plan->set[i].name);
            return ST_EXIT_FINDINGS;
        }
    fputs("# symtuner run: ", stdout);
    st_text_plain(stdout, plan->said);
    putchar('\n');
    for (int i = 0; i < plan->sets; i++)
        if (word_of(&plan->set[i], word))
            printf("export %s=%s\n", plan->set[i].name, word);
    return ST_EXIT_FINE;
}

/* Return whether the loader will ignore LD_PRELOAD because ${program} runs with other rights than
 * its caller's. */
static bool ignores_preload(const char *program)
{
    char file[ST_PATH];

    return st_run_find(program, file) && st_doctor_secure(file);
}

/* If our caller has closed stdin, stdout or stderr, open /dev/null in its place. Otherwise the next
 * file that we open would get the number of the closed one, and what we print could go into it. The
 * program still finds stdin, stdout or stderr closed (O_CLOEXEC). */
static void take_closed(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int st_cmd_run(int argc, char **argv)
{
    static struct st_run_plan plan; /* static, because it is too large for the stack */
    struct request request = {.ask.part = {true, true, true}};
    struct st_run_job job = {.tally = NULL};
    char error[ST_RUN_ERROR] = "";
    char **program = argv + 1; /* the words after "--" */
    struct st_run_end end;
    bool outermost, ran;
    int status;

    status = st_line_read(&line, argc, argv, &request);
    if (status >= 0)
        return status;
    if (!request.print && !*program)
        return st_line_wrong(&line, "a program is missing: symtuner run [options] -- PROGRAM");
    make_plan(&request.ask, &plan);
    if (request.print)
        return print_plan(&plan);

    take_closed();
    outermost = !getenv(ST_TALLY_VARIABLE);
    if (plan.counts) {
        outermost = st_run_job_begin(&job, error) || error[0];
        if (job.tally)
            setenv(ST_TALLY_VARIABLE, job.path, 1);
    }
    for (int i = 0; i < plan.sets; i++)
        setenv(plan.set[i].name, plan.set[i].value, 1);
    if (!request.quiet && outermost && (job.first || !job.tally)) {
        fputs("symtuner run: ", stderr);
        st_text_plain(stderr, plan.said);
        fprintf(stderr, "%s%s%s\n", error[0] ? "; no summary: " : "", error,
                plan.counts && plan.preloads && ignores_preload(program[0])
                    ? "; the program is setuid or setgid, and so runs without the drop-in"
                    : "");
    }
    ran = st_run_program(program, &end);
    st_run_job_end(&job, ran && !request.quiet ? st_run_summary : NULL);
    if (end.signal)
        st_run_die(end.signal);
    return end.status;
}

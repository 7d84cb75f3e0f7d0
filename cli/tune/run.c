/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - measures the units of tune and bench (tune.h) one after another, each in a process of its
 * own. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "cli/gpu/cuda.h"
#include "cli/tune/tune.h"
#include "nccl/names.h"

int st_tune_units(const struct st_tune *tune, bool only_open)
{
    int n = 0;

    for (int r = 0; r < tune->rounds; r++)
        for (int c = 0; c < SYMTUNER_COLLS; c++)
            for (int s = 0; s < ST_TUNE_SETTINGS; s++)
                n += st_tune_has(tune, c, s) && (!only_open || !tune->done[r][c][s]);
    return n;
}

static void progress(const struct st_tune *tune, double began, int measured, const char *what)
{
    enum { BAR = 30 };
    int all = st_tune_units(tune, false), open = st_tune_units(tune, true),
        full = BAR * (all - open) / all;
    bool terminal = isatty(2);
    char bar[BAR + 1];

    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)full);
    bar[BAR] = '\0';
    if (terminal && write(2, "\r", 1) < 0) /* not by stderr, whose filter prints "?" for "\r" */
        return;
    fprintf(stderr, "[%s] %d of %d", bar, all - open, all);
    if (measured > 0 && open > 0) {
        int left = (int)((st_child_now() - began) / measured * open + 0.5);

        fprintf(stderr, ", %d:%02d left", left / 60, left % 60);
    }
    fprintf(stderr, "  %-*s%s", tune->beside ? 40 : 28, open ? what : "",
            terminal && open ? "" : "\n");
}

/* Measure one unit (one setting and one collective in one round) at all sizes, in a process of its
 * own, and store what that process prints. */
static enum st_child_end run_unit(struct st_tune *tune, int round, int coll, int setting,
                                  char *error, size_t size)
{
    const int alone = st_tune_alone(setting);
    const bool beside = setting >= ST_TUNE_BESIDE, search = alone == tune->n_ctas;
    enum { RANKS, COLL, LOW, HIGH, SEED, DTYPE, NUMBERS };
    const uint64_t number[NUMBERS] = {
        [RANKS] = (uint64_t)tune->ranks,
        [COLL] = (uint64_t)coll,
        [LOW] = tune->low,
        [HIGH] = tune->high,
        [SEED] = (uint64_t)(round * 131 + alone * 17 + coll + 1),
        [DTYPE] = (uint64_t)tune->dtype,
    };
    char word[NUMBERS][24], ctas[32] = "NCCL_SYM_CTAS", rules[700] = "SYMTUNER_RULES";
    char tuner[700] = "NCCL_TUNER_PLUGIN=none", env[700] = "NCCL_ENV_PLUGIN=none";
    char *ways = st_tune_ways(tune, coll, beside);
    char *amounts = beside ? st_tune_amounts(tune, coll) : NULL;
    const char *with = tune->rules, *nccl = tune->nccl_file ? tune->nccl_file : "-";
    const char *modes = st_tune_modes(tune, coll, setting);
    const char *given = search ? ways : beside ? "" : NULL; /* NULL: no further arguments */
    const char *arguments[] = {"measure",  word[RANKS], nccl,        modes, word[COLL], word[LOW],
                               word[HIGH], word[SEED],  word[DTYPE], given, amounts,    NULL};
    /* Set or remove all variables that load plugins or rules, change the CTA count or force a
     * kernel. A name without "=" is removed from the environment. We set the plugins' variables to
     * "none" instead of removing them, because a file nccl.conf could set a variable that is
     * removed. If the drop-in is preloaded, SYMTUNER_MAX_COMMS=0 makes it leave all calls to
     * NCCL. */
    const char *set[] = {tuner,
                         rules,
                         ctas,
                         env,
                         "NCCL_PROFILER_PLUGIN=none",
                         "SYMTUNER_MAX_COMMS=0",
                         "NCCL_SYM_KERNEL",
                         "NCCL_ALGO",
                         "NCCL_PROTO",
                         "SYMTUNER_RULE",
                         "SYMTUNER_MODE",
                         "SYMTUNER_AR_KERNEL",
                         "SYMTUNER_AR_CTAS",
                         "SYMTUNER_AR_LAG",
                         NULL};
    struct st_child child = {.arguments = arguments, .set = set, .limit_s = 180};
    enum st_child_end end;

    for (int i = 0; i < NUMBERS; i++)
        snprintf(word[i], sizeof word[i], "%llu", (unsigned long long)number[i]);
    if (alone > tune->n_ctas)
        with = tune->verify[alone - tune->n_ctas - 1];
    if (with)
        snprintf(rules, sizeof rules, "SYMTUNER_RULES=%.600s", with);
    if (!ways || (beside && !amounts)) {
        snprintf(error, size, "out of memory");
        free(ways);
        free(amounts);
        return ST_CHILD_FAILED;
    }
    if (search) {
        /* symtuner's kernels: nothing to set, NCCL keeps its own CTA count */
    } else if (alone < tune->n_ctas && tune->ctas[alone] > 0) {
        snprintf(ctas, sizeof ctas, "NCCL_SYM_CTAS=%d", tune->ctas[alone]);
    } else if (alone > tune->n_ctas || tune->ctas[alone] == ST_TUNE_PLUGIN) {
        char path[600];
        const char *library = st_beside_command("libsymtuner.so", path, sizeof path);

        snprintf(tuner, sizeof tuner, "NCCL_TUNER_PLUGIN=%s", library);
        /* our tuner alone is not enough, because our env plugin sets CTA counts */
        snprintf(env, sizeof env, "NCCL_ENV_PLUGIN=%s", library);
    }
    end = st_child_run(&child);
    free(ways);
    free(amounts);
    snprintf(error, size, "%s", end == ST_CHILD_TIMEOUT ? "no end after 180 s" : child.error);
    if (end == ST_CHILD_DONE &&
        !st_tune_take(tune, round, coll, setting, child.output, error, size))
        end = ST_CHILD_FAILED;
    free(child.output);
    return end;
}

/* Is there time for another round? The first 3 rounds always run. If there is no time, reduce the
 * plan to the rounds that were measured. */
static bool fits_budget(struct st_tune *tune, int round, double began, double *round_began)
{
    double at = st_child_now(), last = *round_began > 0 ? at - *round_began : 0;

    *round_began = at;
    if (!tune->budget_s || round < 3 || at - began + last <= tune->budget_s)
        return true;
    tune->rounds = round;
    if (tune->raw[0])
        st_tune_save(tune);
    return false;
}

/* Return the setting that round ${round} measures in turn ${i}, or -1 after the last turn. Round r
 * starts with setting r. The settings beside GEMMs come last, because how much work they do depends
 * on times of calls alone in the first round (st_tune_amounts). */
static int turn(const struct st_tune *tune, int round, int i)
{
    const int n = st_tune_settings(tune);

    if (i < n)
        return (i + round) % n;
    if (!tune->beside || i > 2 * n)
        return -1;
    i = (i - n + round) % (n + 1);
    return i == n ? ST_TUNE_AGAIN : ST_TUNE_BESIDE + i;
}

int st_tune_measure(struct st_tune *tune, const char *command)
{
    char error[400], what[64], name[48];
    double began = st_child_now(), round_began = 0;
    int measured = 0;

    st_child_catch_signals();
    if (tune->beside) {
        int left = st_tune_beside_seconds(tune);

        fprintf(stderr,
                "symtuner %s: beside GEMMs: about %d:%02d (an estimate) besides the time for calls "
                "alone\n",
                command, left / 60, left % 60);
    }
    for (int r = 0; r < tune->rounds; r++) {
        if (!fits_budget(tune, r, began, &round_began))
            break;
        for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
            for (int i = 0, s; (s = turn(tune, r, i)) >= 0; i++) {
                const int alone = st_tune_alone(s);
                enum st_child_end end;

                if (!st_tune_has(tune, c, s) || tune->done[r][c][s])
                    continue;
                snprintf(what, sizeof what, "%s %s%s", symtuner_coll_name(c),
                         alone == tune->n_ctas  ? "symtuner"
                         : alone > tune->n_ctas ? "with the rules"
                                                : st_tune_name(tune, ST_SYMMETRIC + alone, name),
                         s < ST_TUNE_BESIDE ? "" : ", beside");
                progress(tune, began, measured, what);
                end = st_child_stop_asked() ? ST_CHILD_STOPPED
                                            : run_unit(tune, r, c, s, error, sizeof error);
                if (end == ST_CHILD_STOPPED)
                    return st_fail(ST_EXIT_FINDINGS, "\nstopped%s%s%s\n",
                                   tune->raw[0] ? "; the same command goes on from here (" : "",
                                   tune->raw, tune->raw[0] ? ")" : "");
                if (end != ST_CHILD_DONE)
                    return st_fail(ST_EXIT_FINDINGS, "\nsymtuner %s: %s, round %d: %s\n", command,
                                   what, r + 1, error);
                measured++;
                if (tune->raw[0] && !st_tune_save(tune))
                    return ST_EXIT_FINDINGS;
            }
    }
    progress(tune, began, measured, "");
    return ST_EXIT_FINE;
}

/* Does any of the plan's settings load the plugin? */
static bool loads_plugin(const struct st_tune *tune)
{
    for (int s = 0; s < tune->n_ctas; s++)
        if (tune->ctas[s] == ST_TUNE_PLUGIN)
            return true;
    return tune->verify[0] != NULL;
}

/* Choose the NCCL to measure: that of --library, otherwise the one that the user's programs load.
 * The rules of a run are for its release only, so say which NCCL it is, and which others jax and
 * torch load. */
static void choose_nccl(struct st_tune *tune, const char *command)
{
    static struct st_doctor doctor = {.root = ""}; /* static, because it is large */
    char text[ST_COPY_TEXT] = "the libnccl.so.2 of the loader";
    int chosen;

    if (tune->nccl_file)
        return;
    st_doctor_find_nccl(&doctor);
    chosen = st_doctor_loadable(&doctor);
    if (chosen >= 0)
        tune->nccl_file = doctor.copy[chosen].path;
    if (doctor.judgeds > 0)
        fprintf(stderr, "symtuner %s: measures %s; --library FILE measures another\n", command,
                chosen >= 0 ? st_doctor_copy_text(&doctor, chosen, text) : text);
    for (int i = 0; i < doctor.judgeds; i++)
        if (doctor.judged[i] != chosen)
            fprintf(stderr, "symtuner %s: does not measure %s\n", command,
                    st_doctor_copy_text(&doctor, doctor.judged[i], text));
    for (int i = 0; i < doctor.uncheckeds; i++)
        fprintf(stderr, "symtuner %s: not checked: %s\n", command, doctor.unchecked[i]);
}

int st_tune_find_gpus(struct st_tune *tune, const char *command, bool kernels)
{
    struct st_cuda cuda;
    struct st_ar ar;
    struct st_cublas cublas;
    char error[400], path[600];
    const char *plugin = st_beside_command("libsymtuner.so", path, sizeof path);
    int gpus = 0;

    if (loads_plugin(tune) && strlen(plugin) > ST_NCCL_NAME_MAX)
        return st_fail(ST_EXIT_CANNOT,
                       "symtuner %s: cannot measure here: NCCL cuts the name %s at %d bytes\n",
                       command, plugin, ST_NCCL_NAME_MAX);
    /* NCCL goes on without a plugin that it cannot load, and says so at level INFO only */
    if (loads_plugin(tune) && !dlopen(plugin, RTLD_LAZY | RTLD_LOCAL))
        return st_fail(ST_EXIT_CANNOT, "symtuner %s: cannot measure here: no plugin: %s\n",
                       command, dlerror());
    if (!st_cuda_load(&cuda, &gpus, error, sizeof error))
        return st_fail(ST_EXIT_CANNOT, "symtuner %s: cannot measure here: %s\n", command, error);
    if (tune->ranks == 0)
        tune->ranks = gpus > 16 ? 16 : gpus;
    if (gpus < 2 || gpus < tune->ranks)
        return st_fail(ST_EXIT_CANNOT,
                       "symtuner %s: cannot measure here: %d ranks need %d GPUs, %d here\n",
                       command, tune->ranks, tune->ranks < 2 ? 2 : tune->ranks, gpus);
    if (tune->beside && !st_cublas_load(&cublas, &cuda, error, sizeof error))
        return st_fail(ST_EXIT_CANNOT, "symtuner %s: cannot measure beside GEMMs: %s\n", command,
                       error);
    choose_nccl(tune, command);
    symtuner_machine_find(&tune->machine);
    if (!tune->machine.gpu[0])
        fprintf(stderr,
                "symtuner %s: these GPUs have no common name; the report will not say which "
                "they are\n",
                command);
    tune->own = kernels ? tune->colls : 0;
    if (tune->own && !st_ar_load(&ar, error, sizeof error))
        tune->own = st_fail(0, "symtuner %s: without symtuner's kernels: %s\n", command, error);
    return -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_rows.c - findings about plugins, rules files and the NCCL release. */
#include <string.h>

#include "base/append.h"
#include "cli/doctor/doctor.h"
#include "cli/text.h"
#include "nccl/hazards.h"
#include "nccl/names.h"
#include "nccl/release.h"

/* ---- plugins --------------------------------------------------------------------------------- */

static bool asked(const struct st_plugin *plugin)
{
    return plugin->asked && plugin->asked->value[0];
}

static size_t say(const struct st_plugin *plugin, char *evidence)
{
    return asked(plugin) ? st_text_add(evidence, ST_EVIDENCE, 0, "%s=%s (%s)", plugin->variable,
                                       plugin->asked->value, plugin->asked->origin)
                         : st_text_add(evidence, ST_EVIDENCE, 0, "%s is not set", plugin->variable);
}

static bool lost(const struct st_plugin *plugin, char *evidence)
{
    size_t at = say(plugin, evidence);

    st_text_add(evidence, ST_EVIDENCE, at, "; tried %s", plugin->tried);
    return asked(plugin) && !plugin->path[0] && !plugin->disabled && !plugin->is_static &&
           !plugin->mangled && plugin->newest > 0;
}

static bool without_symbols(const struct st_plugin *plugin, char *evidence)
{
    size_t at = say(plugin, evidence);

    st_text_add(evidence, ST_EVIDENCE, at, "; %s exports %s; this NCCL looks for %s%d down to %d",
                plugin->path, plugin->exports[0] ? plugin->exports : "no plugin symbol",
                plugin->symbol, plugin->newest, plugin->oldest);
    return plugin->path[0] && !plugin->found && !plugin->foreign && !plugin->unreadable &&
           plugin->newest > 0;
}

static bool bad_file(const struct st_plugin *plugin, char *evidence)
{
    size_t at = say(plugin, evidence);

    st_text_add(evidence, ST_EVIDENCE, at, "; %s %s", plugin->path,
                plugin->unreadable ? "cannot be read" : "is no shared object of this machine");
    return plugin->path[0] && (plugin->foreign || plugin->unreadable);
}

static bool tuner_not_asked(const struct st_doctor *d, char *evidence)
{
    say(&d->tuner, evidence);
    return !asked(&d->tuner) && !d->tuner.path[0] && !d->tuner.found && !asked(&d->env);
}

static bool tuner_lost(const struct st_doctor *d, char *evidence)
{
    return lost(&d->tuner, evidence);
}

static bool tuner_without_symbols(const struct st_doctor *d, char *evidence)
{
    return without_symbols(&d->tuner, evidence);
}

static bool tuner_bad_file(const struct st_doctor *d, char *evidence)
{
    return bad_file(&d->tuner, evidence);
}

static bool tuner_mangled(const struct st_doctor *d, char *evidence)
{
    size_t at = say(&d->tuner, evidence);

    st_text_add(evidence, ST_EVIDENCE, at, "; this release looks for %s", d->tuner.tried);
    return d->tuner.mangled;
}

static bool tuner_static(const struct st_doctor *d, char *evidence)
{
    say(&d->tuner, evidence);
    return d->tuner.is_static;
}

static bool tuner_disabled(const struct st_doctor *d, char *evidence)
{
    say(&d->tuner, evidence);
    return d->tuner.disabled;
}

static bool tuner_none_old(const struct st_doctor *d, char *evidence)
{
    say(&d->tuner, evidence);
    return asked(&d->tuner) && strcmp(d->tuner.asked->value, "none") == 0;
}

static bool name_long(const struct st_doctor *d, char *evidence)
{
    const struct st_plugin *const plugin[] = {&d->tuner, &d->env, &d->profiler};

    for (int i = 0; i < 3; i++) {
        size_t length = asked(plugin[i]) ? strlen(plugin[i]->asked->value) : 0;

        if (length > ST_NCCL_NAME_MAX && plugin[i]->newest > 0)
            return st_found(evidence, "%s has %zu bytes", plugin[i]->variable, length);
    }
    return false;
}

static bool tuner_other(const struct st_doctor *d, char *evidence)
{
    size_t at = say(&d->tuner, evidence);

    st_text_add(evidence, ST_EVIDENCE, at, "; %s exports %s", d->tuner.path, d->tuner.exports);
    return d->tuner.found && !d->tuner.symtuner && !d->env.symtuner;
}

static bool tuner_old_abi(const struct st_doctor *d, char *evidence)
{
    return d->tuner.found && d->tuner.found < d->tuner.newest && d->tuner.found < 4 &&
           st_found(evidence, "%s is used as %s%d, the release has %d", d->tuner.path,
                    d->tuner.symbol, d->tuner.found, d->tuner.newest);
}

static bool env_lost(const struct st_doctor *d, char *evidence)
{
    return lost(&d->env, evidence) || (asked(&d->env) && bad_file(&d->env, evidence)) ||
           (asked(&d->env) && without_symbols(&d->env, evidence));
}

static bool env_too_old(const struct st_doctor *d, char *evidence)
{
    say(&d->env, evidence);
    return asked(&d->env);
}

static bool profiler_missing(const struct st_doctor *d, char *evidence)
{
    size_t at = say(&d->profiler, evidence);

    st_text_add(evidence, ST_EVIDENCE, at, ", SYMTUNER_LEDGER is");
    return st_doctor_get(d, "SYMTUNER_LEDGER") && !(d->profiler.found && d->profiler.symtuner) &&
           d->profiler.newest > 0;
}

/* Is there no folder for the file that SYMTUNER_LEDGER names? */
static bool ledger_folder(const struct st_doctor *d, char *evidence)
{
    const struct st_setting *setting = st_doctor_get(d, "SYMTUNER_LEDGER");
    char file[ST_PATH], *slash;

    if (!setting || !st_append_path(setting->value, file, sizeof file) ||
        !(slash = strrchr(file, '/')))
        return false;
    slash[1] = '\0'; /* with its last slash, a path that is no folder does not exist */
    return !st_doctor_exists(d, file) &&
           st_found(evidence, "SYMTUNER_LEDGER=%s (%s): there is no folder %s", setting->value,
                    setting->origin, file);
}

/* Is the tuner's file in a folder that ld.so.conf names, but missing from /etc/ld.so.cache? */
static bool cache_stale(const struct st_doctor *d, char *evidence)
{
    static char cache[1 << 20];
    const char *name = strrchr(d->tuner.path, '/');
    long size = st_doctor_read(d, "/etc/ld.so.cache", cache, sizeof cache);
    bool by_path = asked(&d->tuner) && strchr(d->tuner.asked->value, '/');

    if (!name || size <= 0 || by_path || d->tuner.by_env_plugin)
        return false;
    for (int i = 0; i < d->dirs; i++)
        if (strlen(d->dir[i]) == (size_t)(name - d->tuner.path) &&
            strncmp(d->dir[i], d->tuner.path, strlen(d->dir[i])) == 0) {
            bool configured = i >= d->dirs_configured && strncmp(d->dir[i], "/lib", 4) != 0 &&
                              strncmp(d->dir[i], "/usr/lib", 8) != 0;

            return configured &&
                   !memmem(cache, (size_t)size, d->tuner.path, strlen(d->tuner.path)) &&
                   st_found(evidence, "%s is not in /etc/ld.so.cache", d->tuner.path);
        }
    return false;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool rules_lint(const struct st_doctor *d, char *evidence)
{
    return d->rules && symtuner_rules_lint(d->rules, 0, evidence, ST_EVIDENCE);
}

static bool rules_misfit(const struct st_doctor *d, char *evidence)
{
    return d->rules && symtuner_rules_fit(d->rules, d->nccl, &d->machine, evidence, ST_EVIDENCE) ==
                           SYMTUNER_EMISMATCH;
}

/* ---- releases -------------------------------------------------------------------------------- */

static bool release_is(const struct st_doctor *d, char *evidence)
{
    char release[16];

    return !d->nccl_assumed &&
           st_found(evidence, "NCCL %s (%s)", st_release_print(d->nccl, release, sizeof release),
                    d->used >= 0 ? d->copy[d->used].path : "as --nccl says");
}

static bool nccl_unknown(const struct st_doctor *d, char *evidence)
{
    return d->nccl > st_release_newest() && release_is(d, evidence);
}

static bool nccl_missing(const struct st_doctor *d, char *evidence)
{
    return d->nccl_assumed &&
           st_found(evidence, "no libnccl.so.2 where the loader and pip keep libraries; 2.28.9 is "
                              "assumed below");
}

/* Can one program load two copies of NCCL with different releases? Compares the copies that jax and
 * torch load or, if python3 has neither, all copies. */
static bool nccl_copies(const struct st_doctor *d, char *evidence)
{
    char one[16], other[16];

    for (int i = 1; i < d->frameworks; i++) {
        const struct st_framework *a = &d->framework[0], *b = &d->framework[i];

        if (a->copy < 0 || b->copy < 0 || d->copy[a->copy].nccl == d->copy[b->copy].nccl)
            continue;
        return st_found(evidence,
                        "%s loads %.400s, which is %s, %s loads %.400s, which is %s", a->name,
                        d->copy[a->copy].path,
                        st_release_print(d->copy[a->copy].nccl, one, sizeof one), b->name,
                        d->copy[b->copy].path,
                        st_release_print(d->copy[b->copy].nccl, other, sizeof other));
    }
    for (int i = 1; i < d->copies && d->frameworks == 0; i++)
        if (d->copy[i].nccl != d->copy[0].nccl)
            return st_found(evidence, "%.400s is %s, %.400s is %s", d->copy[0].path,
                            st_release_print(d->copy[0].nccl, one, sizeof one), d->copy[i].path,
                            st_release_print(d->copy[i].nccl, other, sizeof other));
    return false;
}

static bool driver_old(const struct st_doctor *d, char *evidence)
{
    static const struct {
        int cuda, driver;
    } need[] = {{13, 580}, {12, 525}, {11, 450}};

    for (size_t i = 0; i < sizeof need / sizeof *need; i++)
        if (d->used >= 0 && d->copy[d->used].cuda == need[i].cuda && d->driver &&
            d->driver < need[i].driver)
            return st_found(evidence, "%s is built for CUDA %d, which needs driver %d; here is %s",
                            d->copy[d->used].path, need[i].cuda, need[i].driver, d->driver_text);
    return false;
}

const struct st_finding st_findings_plugin[] = {
    ST_ROW_OF("tuner-not-asked", ST_NOTE, 22700, 0, tuner_not_asked,
        "NCCL is not told about any tuner and finds none under its default name",
        "start the program with symtuner run, or set NCCL_ENV_PLUGIN=libsymtuner.so (before 2.28.7 "
        "NCCL_TUNER_PLUGIN)"),
    ST_ROW("tuner-not-found", ST_ERROR, tuner_lost,
        "the loader does not find this file; NCCL says so at INFO only and goes on without the "
        "tuner",
        "install the plugin, or put its folder into LD_LIBRARY_PATH, or give the whole path"),
    ST_ROW("tuner-no-symbol", ST_ERROR, tuner_without_symbols,
        "the file is found, but is no tuner for this NCCL", "name a file that exports a tuner"),
    ST_ROW("tuner-bad-file", ST_ERROR, tuner_bad_file,
        "the loader cannot open the file",
        "build or install the plugin for this machine, and make it readable"),
    ST_ROW_OF("tuner-path-mangled", ST_ERROR, 0, 22704, tuner_mangled,
        "NCCL 2.27.3 accepts only a file's name, not a path",
        "set NCCL_TUNER_PLUGIN=libsymtuner.so, and put its folder into LD_LIBRARY_PATH"),
    ST_ROW("tuner-static-name", ST_ERROR, tuner_static,
        "NCCL takes STATIC_PLUGIN, or its first letters (even just s), to mean a plugin inside the "
        "program, not a file",
        "set NCCL_TUNER_PLUGIN=libsymtuner.so"),
    ST_ROW_OF("tuner-disabled", ST_WARNING, 22800, 0, tuner_disabled,
        "NCCL loads no tuner",
        "set NCCL_TUNER_PLUGIN=libsymtuner.so"),
    ST_ROW_OF("tuner-none-means-file", ST_WARNING, 0, 22799, tuner_none_old,
        "before 2.28 NCCL takes \"none\" for the name of a file, libnccl-tuner-none.so",
        "unset NCCL_TUNER_PLUGIN"),
    ST_ROW("tuner-name-long", ST_ERROR, name_long,
        "NCCL cuts the names of tuners, profilers and env plugins at 254 bytes",
        "use a shorter path"),
    ST_ROW("tuner-other", ST_WARNING, tuner_other,
        "NCCL takes only one tuner, and loads another one instead of symtuner",
        "set NCCL_ENV_PLUGIN=libsymtuner.so, which puts symtuner in front and keeps the other "
        "behind it"),
    ST_ROW("tuner-old-abi", ST_WARNING, tuner_old_abi,
        "with versions 2 and 3 of the interface the tuner does not learn which buffers are "
        "registered, and is called through an adapter",
        "update the plugin"),
    ST_ROW_OF("env-plugin-lost", ST_ERROR, 22807, 0, env_lost,
        "NCCL does not load the env plugin, which would name symtuner to NCCL as tuner and "
        "profiler",
        "set NCCL_ENV_PLUGIN=libsymtuner.so, or start the program with symtuner run, which finds "
        "the file itself"),
    ST_ROW_OF("env-plugin-too-old", ST_WARNING, 0, 22806, env_too_old,
        "this release has no env plugins and does not read the variable",
        "set NCCL_TUNER_PLUGIN and NCCL_PROFILER_PLUGIN, or use NCCL 2.28.7"),
    ST_ROW("profiler-missing", ST_WARNING, profiler_missing,
        "the ledger gets no \"ran\" lines: it shows what the tuner was asked, not what ran",
        "also set NCCL_PROFILER_PLUGIN=libsymtuner.so"),
    ST_ROW("ledger-folder", ST_WARNING, ledger_folder,
        "the counters cannot be written, so they are lost",
        "make the folder, or correct SYMTUNER_LEDGER"),
    ST_ROW("ldcache-stale", ST_WARNING, cache_stale,
        "the loader looks into its cache, which does not have the file",
        "run ldconfig"),
    ST_ROW_TEXT("rules-unread", ST_ERROR, rules_unread,
        "the file of rules cannot be read, so the plugin uses no rules, not even those of other "
        "sources",
        "correct the path, or unset the variable"),
    ST_ROW_TEXT("rules-wrong", ST_ERROR, rules_error[0],
        "the rules file has an error, so the plugin uses no rules, not even those of other sources",
        "correct the file; symtuner check FILE says whether it is right"),
    ST_ROW_TEXT("rule-wrong", ST_ERROR, rules_error[1],
        "SYMTUNER_RULE has an error, so the plugin uses no rules, not even those of other sources",
        "correct the line"),
    ST_ROW("rules-lint", ST_WARNING, rules_lint,
        "a rule cannot do what it says, or leads calls into a fault of NCCL",
        "symtuner check FILE lists all such rules"),
    ST_ROW("rules-misfit", ST_ERROR, rules_misfit,
        "the plugin refuses rules that were measured on another machine or release",
        "symtuner tune measures this machine and release; --library FILE names another NCCL"),
    ST_ROW_TEXT("csv-wrong", ST_ERROR, rules_error[2],
        "the CSV file has an error, so the plugin uses no rules, not even those of other sources",
        "correct the file, or unset NCCL_TUNER_CONFIG_FILE"),
    ST_ROW("nccl-missing", ST_NOTE, nccl_missing,
        "no NCCL was found, and most findings depend on its release",
        "give --nccl X.Y.Z or --library FILE"),
    ST_ROW_OF("nccl-no-symmetric", ST_ERROR, 1, 22699, release_is,
        "NCCL before 2.27 has no symmetric kernels; from 2.24 on rules can choose general ones",
        "use NCCL 2.28.9 or newer"),
    ST_ROW("nccl-unknown", ST_NOTE, nccl_unknown,
        "this release is newer than what symtuner was written for, and counts as the newest that "
        "symtuner knows",
        "look for a newer symtuner"),
#define X(id, severity, first, last, said_by, op, bits, what, cure)                                \
    ST_ROW_OF(id, severity, first, last, release_is, what, cure),
    ST_HAZARD_MAP(X)
#undef X
    ST_ROW("nccl-two-copies", ST_WARNING, nccl_copies,
        "ranks, or parts of one program, that load different copies of NCCL hang or fail",
        "remove one copy, or make LD_LIBRARY_PATH lead to the one that the framework ships"),
    ST_ROW("driver-too-old", ST_ERROR, driver_old,
        "CUDA and NCCL fail to start with this driver",
        "update the driver, or use NCCL built for an older CUDA"),
    {.id = NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/set_once.h"
#include "nccl/hazards.h"
#include "nccl/held.h"
#include "plugin/log.h"
#include "plugin/next/tuner.h"
#include "rules/box.h"
#include "rules/sources.h"

static struct st_process process;
/* Held while a part of ${process} is filled in. Nobody calls the loader (dlopen, dlsym) under this
 * lock. The loader has a lock of its own, which another thread may hold while it runs a constructor
 * that calls us. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Names of the user's settings that keep us from giving NCCL a CTA count: default_held for the
 * built-in count, sym_held for the count of [process] rules. NULL: no setting does. */
static const char *default_held, *sym_held;
/* The releases of the copies of NCCL that ask us for their variables; 0: the element is free. */
enum { RELEASES = 8 };
static atomic_int asking[RELEASES];
static atomic_bool decided; /* decide() has run */
/* Errors from reading options and rules. They are kept here until there is a logger. */
static char option_error[SYMTUNER_ERROR_MAX], machine_error[SYMTUNER_ERROR_MAX],
    rules_error[SYMTUNER_ERROR_MAX];

/* Return the path of the CSV that NCCL_TUNER_CONFIG_FILE names, or NULL if there is none. Also
 * returns NULL if another tuner runs behind ours (plugin/next/open.h), because the file is then
 * meant for that tuner. */
static const char *config_file(const struct st_options *options)
{
    const char *file = getenv("NCCL_TUNER_CONFIG_FILE");

    if (options->mode == ST_MODE_OFF)
        return NULL;
    return file && !st_next_tuner_there(options->next_tuner) ? file : NULL;
}

/* Fill in what follows from process.options. ${config}: what config_file returned. */
static void read_all(const char *config)
{
    const char *mixed = getenv("NCCL_ENQUEUE_REARCH_ENABLE");
    struct symtuner_machine described;

    if (process.options.machine[0])
        st_machine_read(process.options.machine, &described, machine_error, sizeof machine_error);
    st_log_level(process.options.log);
    process.mixed = mixed && strtol(mixed, NULL, 0) != 0;
    if (process.options.mode == ST_MODE_OFF)
        return;
    process.rules_wrong =
        st_rules_sources(process.options.rule, process.options.rules,
                         config, &process.rules, rules_error,
                         sizeof rules_error) != SYMTUNER_OK;
}

const struct st_process *st_process(void)
{
    static atomic_bool known;
    struct st_options options;
    char error[sizeof option_error] = "";
    const char *config;

    if (st_is_set(&known))
        return &process;
    st_options_read(&options, error, sizeof error);
    config = config_file(&options); /* calls the loader */
    pthread_mutex_lock(&lock);
    if (!st_is_set(&known)) {
        process.options = options;
        memcpy(option_error, error, sizeof error);
        read_all(config);
        atomic_store(&known, true);
    }
    pthread_mutex_unlock(&lock);
    return &process;
}

const char *st_ctas_text(int ctas)
{
    static const char digits[] =
        "1\0 2\0 3\0 4\0 5\0 6\0 7\0 8\0 9\0 10\0" "11\0" "12\0" "13\0" "14\0" "15\0" "16\0" "17\0"
        "18\0" "19\0" "20\0" "21\0" "22\0" "23\0" "24\0" "25\0" "26\0" "27\0" "28\0" "29\0" "30\0"
        "31\0" "32\0" "33\0" "34\0" "35\0" "36\0" "37\0" "38\0" "39\0" "40\0" "41\0" "42\0" "43\0"
        "44\0" "45\0" "46\0" "47\0" "48\0" "49\0" "50\0" "51\0" "52\0" "53\0" "54\0" "55\0" "56\0"
        "57\0" "58\0" "59\0" "60\0" "61\0" "62\0" "63\0" "64\0";

    return ctas >= 1 && ctas <= 64 ? &digits[(ctas - 1) * 3] : "";
}

static const char *environment(const void *from, const char *name)
{
    (void)from;
    return getenv(name);
}

/* Return the name of the setting that keeps us from giving NCCL the built-in CTA count; NULL: none
 * does. */
static const char *holds_default(void)
{
    if (process.options.mode != ST_MODE_STEER)
        return "SYMTUNER_MODE";
    if (!process.options.defaults)
        return "SYMTUNER_DEFAULTS";
    return st_held_default(environment, NULL);
}

static bool asks(int nccl)
{
    for (int i = 0; i < RELEASES && nccl; i++)
        if (atomic_load(&asking[i]) == nccl)
            return true;
    return false;
}

/* This also decides on two CTA counts, which NCCL reads once per process: the built-in count
 * (NCCL_MIN_CTAS), and the count of a [process] section of the rules (NCCL_SYM_CTAS). All ranks
 * must have the same counts, whichever communicator or copy of NCCL a rank starts first. So both
 * counts depend only on machine and release. The built-in count depends on no file, because one
 * rank might fail to read the file. */
struct st_for_nccl st_process_for(int nccl)
{
    const struct symtuner_machine *machine = &process.machine;
    struct st_for_nccl here = {.nccl = nccl, .era = st_era_of(nccl), .asks = asks(nccl),
                               .rules_wrong = process.rules_wrong, .ctas_from = "NCCL",
                               .rules_hash = symtuner_rules_hash(NULL)};
    const struct st_rule *rule;

    if (!atomic_load(&decided)) /* another thread may be in decide() */
        return here;
    here.rules = process.rules;
    if (here.rules && symtuner_rules_fit(here.rules, nccl, machine, NULL, 0) != SYMTUNER_OK) {
        here.rules = NULL;
        here.rules_wrong = true;
    }
    here.rules_hash = symtuner_rules_hash(here.rules);
    here.default_ctas = st_default_ctas(nccl, machine);
    if (here.default_ctas && default_held)
        here.ctas_from = default_held;
    if (here.asks && !default_held)
        here.min_ctas = here.default_ctas;
    if (here.min_ctas)
        here.ctas_from = "built-in";
    rule = st_rules_process(here.rules, nccl, machine);
    if (!rule || !rule->act.sym_ctas || process.options.mode != ST_MODE_STEER ||
        !here.era->symmetric)
        return here;
    if (sym_held) {
        here.ctas_from = sym_held;
        return here;
    }
    here.sym_ctas = rule->act.sym_ctas;
    here.ctas_from = here.asks ? "rules" : "NCCL";
    return here;
}

/* Find out what machine this is, and which settings of the user keep us from giving CTA counts. */
static void decide(void)
{
    struct symtuner_machine machine;

    if (st_is_set(&decided))
        return;
    symtuner_machine_find(&machine); /* calls the loader */
    pthread_mutex_lock(&lock);
    if (!st_is_set(&decided)) {
        process.machine = machine;
        default_held = holds_default();
        sym_held = st_held_by_user(environment, NULL);
        atomic_store(&decided, true);
    }
    pthread_mutex_unlock(&lock);
}

void st_process_env(int nccl)
{
    st_process();
    for (int i = 0, there = 0; i < RELEASES; i++, there = 0)
        if (atomic_compare_exchange_strong(&asking[i], &there, nccl) || there == nccl)
            break;
    if (process.nccl == 0) /* the first copy of NCCL that calls us sets the release */
        process.nccl = nccl;
}

const struct st_process *st_process_asked(void)
{
    st_process();
    decide();
    return &process;
}

int st_process_call_rules(const struct st_for_nccl *here)
{
    int count = 0;

    for (int i = 0; here->rules && i < here->rules->count; i++)
        count += !here->rules->rule[i].kernels && !here->rules->rule[i].process;
    return count;
}

/* Can another rank of this box get the built-in count? In two cases this rank cannot tell, so it
 * says yes. First, if SYMTUNER_MACHINE describes the box, it may be set on this rank only. Second,
 * if this rank sees one GPU, it may be in a container, and the box may have more. */
static bool box_may_have_default(int nccl)
{
    return st_default_ctas(nccl, &process.machine) || process.options.machine[0] ||
           (process.machine.gpus == 1 && st_default_gpu(nccl, &process.machine));
}

bool st_process_wants_tuner(int nccl)
{
    struct st_for_nccl here = st_process_for(nccl);

    if (here.asks && box_may_have_default(nccl))
        return true; /* our tuner checks whether all ranks got the same CTA count */
    if (process.options.mode == ST_MODE_OFF)
        return false;
    /* Only the tuner's init can log that a setting is wrong. */
    return st_process_call_rules(&here) || here.sym_ctas || here.rules_wrong || option_error[0] ||
           machine_error[0] || st_process_wants_profiler();
}

bool st_process_wants_profiler(void)
{
    return process.options.mode != ST_MODE_OFF && process.options.ledger[0];
}

/* Return the release of the NCCL that called us, or 0 if it is unknown. A process can have several
 * copies of NCCL. The function ${logger} is part of the NCCL that called us, so we find the library
 * that contains ${logger} and call its ncclGetVersion. */
static int ask_version(nccl_abi_logger logger)
{
    int (*get_version)(int *) = NULL;
    int version = 0;
    void *library;
    Dl_info info;

    if (!logger || !dladdr((void *)(uintptr_t)logger, &info) || !info.dli_fname)
        return 0;
    library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
    if (!library) /* NCCL is linked into the program */
        library = dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    if (library) {
        *(void **)&get_version = dlsym(library, "ncclGetVersion");
        if (!get_version || get_version(&version) != 0)
            version = 0;
        dlclose(library);
    }
    return version;
}

int st_process_caller(nccl_abi_logger logger)
{
    int version = ask_version(logger);

    return version ? version : process.nccl;
}

/* Find out the release of the process's first NCCL, unless it is known. */
static void find_release(nccl_abi_logger logger, int abi)
{
    static const int oldest_of_abi[] = {[4] = 22703, [5] = 22803, [6] = 23003, [7] = 23206};
    static atomic_bool known;
    int version;

    if (st_is_set(&known))
        return;
    version = ask_version(logger); /* calls the loader */
    if (version == 0 && abi >= 4 && abi <= 7)
        version = oldest_of_abi[abi];
    pthread_mutex_lock(&lock);
    if (process.nccl == 0)
        process.nccl = version;
    atomic_store(&known, true);
    pthread_mutex_unlock(&lock);
}

/* Log which CTA count symmetric kernels get, NCCL's own or the built-in one, and why. The count of
 * [process] rules is mentioned only if it has no effect. */
static void announce_ctas(const struct st_for_nccl *here, const char *release)
{
    const char *gpu = process.machine.gpu[0] ? process.machine.gpu : "this GPU";
    bool can_ask = here->era->env_abi > 0;

    if (here->min_ctas)
        st_info("NCCL_MIN_CTAS=%d (built-in, measured on %d x %s with NCCL %s); "
                "SYMTUNER_DEFAULTS=0 keeps NCCL's own",
                here->min_ctas, process.machine.gpus, gpu, release);
    else if (here->default_ctas && !here->asks)
        st_info("NCCL's own CTA count is kept: NCCL does not ask symtuner for NCCL_MIN_CTAS=%d "
                "(built-in); set NCCL_ENV_PLUGIN=libsymtuner.so on all ranks",
                here->default_ctas);
    else if (here->default_ctas)
        st_info("NCCL's own CTA count is kept: %s holds NCCL_MIN_CTAS=%d (built-in) back",
                here->ctas_from, here->default_ctas);
    else if (!here->sym_ctas && process.options.mode == ST_MODE_STEER && here->era->symmetric &&
             strcmp(here->ctas_from, "NCCL") == 0)
        st_info("no CTA count is known for \"%s\" with NCCL %s: NCCL's own is kept; measure one "
                "with NCCL_SYM_CTAS, then write [process] sym-ctas", gpu, release);
    if (here->sym_ctas && !here->asks)
        st_warn("[process] sym-ctas = %d has no effect: NCCL %s; %s", here->sym_ctas,
                can_ask ? "does not ask symtuner for variables" : "has no env interface",
                can_ask ? "set NCCL_ENV_PLUGIN=libsymtuner.so on all ranks"
                        : "set NCCL_SYM_CTAS yourself, on all ranks");
}

/* Log wrong settings. Hold no lock when you call this or announce_release: NCCL's logger takes a
 * lock. */
static void announce(void)
{
    if (option_error[0])
        st_warn("%s", option_error);
    if (machine_error[0])
        st_warn("%s", machine_error);
    if (rules_error[0])
        st_warn("%s; no rule is applied, NCCL decides everything", rules_error);
}

/* Log what concerns NCCL release ${nccl}: whether the rules are for it, its CTA count, and its
 * faults. This is logged once for each release, because a process can have several copies of
 * NCCL. */
static void announce_release(int nccl)
{
    static atomic_int said[RELEASES];
    static atomic_bool said_relative;
    const struct st_for_nccl here = st_process_for(nccl);
    const struct st_hazard *hazard;
    char release[16], error[SYMTUNER_ERROR_MAX];
    int i = 0, there = 0;

    while (i < RELEASES && !atomic_compare_exchange_strong(&said[i], &there, nccl)) {
        if (there == nccl)
            return;
        there = 0;
        i++;
    }
    if (i == RELEASES)
        return;
    if (symtuner_rules_fit(process.rules, nccl, &process.machine, error, sizeof error) !=
        SYMTUNER_OK)
        st_warn("%s; no rule is applied, NCCL decides everything", error);
    else if (!rules_error[0] && process.options.rules[0] && process.options.rules[0] != '/' &&
             !atomic_exchange(&said_relative, true))
        st_warn("SYMTUNER_RULES=%s is relative: a rank with another working directory reads "
                "another file or none; write the whole path", process.options.rules);
    st_release_print(nccl, release, sizeof release);
    announce_ctas(&here, release);
    for (int n = 0; (hazard = st_hazard_get(nccl, n)); n++)
        st_info("NCCL %s: %s", release, hazard->text);
}

const struct st_process *st_process_start(nccl_abi_logger logger, int abi)
{
    static atomic_bool said;

    st_process();
    st_log_use(logger);
    find_release(logger, abi);
    decide();
    if (process.options.mode != ST_MODE_OFF) {
        if (!atomic_exchange(&said, true))
            announce();
        announce_release(st_process_caller(logger));
    }
    return &process;
}

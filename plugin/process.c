/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/hazards.h"
#include "nccl/held.h"
#include "plugin/log.h"
#include "plugin/next/tuner.h"
#include "rules/box.h"
#include "rules/sources.h"

static struct st_process process = {.ctas_from = "NCCL"};
static pthread_once_t read_once = PTHREAD_ONCE_INIT, decide_once = PTHREAD_ONCE_INIT,
                      start_once = PTHREAD_ONCE_INIT;
/* Does an NCCL whose release was measured get the built-in CTA count? */
static bool gives_default;
/* Errors from reading options and rules. They are kept here until there is a logger. */
static char option_error[SYMTUNER_ERROR_MAX], machine_error[SYMTUNER_ERROR_MAX],
    rules_error[SYMTUNER_ERROR_MAX];

/* Return the path of the CSV that NCCL_TUNER_CONFIG_FILE names, or NULL if there is none. Also
 * returns NULL if a tuner runs behind ours, because the file is then meant for that tuner. */
static const char *config_file(void)
{
    const char *file = getenv("NCCL_TUNER_CONFIG_FILE");

    return file && !st_next_tuner_there(process.options.next_tuner) ? file : NULL;
}

static void read_all(void)
{
    const char *mixed = getenv("NCCL_ENQUEUE_REARCH_ENABLE");
    struct symtuner_machine described;

    st_options_read(&process.options, option_error, sizeof option_error);
    if (process.options.machine[0])
        st_machine_read(process.options.machine, &described, machine_error, sizeof machine_error);
    st_log_level(process.options.log);
    process.mixed = mixed && strtol(mixed, NULL, 0) != 0;
    process.era = st_era_of(0);
    process.rules_hash = symtuner_rules_hash(NULL);
    if (process.options.mode == ST_MODE_OFF)
        return;
    process.rules_wrong =
        st_rules_sources(process.options.rule, process.options.rules,
                         config_file(), &process.rules, rules_error,
                         sizeof rules_error) != SYMTUNER_OK;
}

const struct st_process *st_process(void)
{
    pthread_once(&read_once, read_all);
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

/* Return the name of the setting that keeps us from giving the built-in count; NULL: none does. */
static const char *holds_default(void)
{
    if (process.options.mode != ST_MODE_STEER)
        return "SYMTUNER_MODE";
    if (!process.options.defaults)
        return "SYMTUNER_DEFAULTS";
    return st_held_default(environment, NULL);
}

int st_process_min_ctas(int nccl)
{
    return gives_default ? st_default_ctas(nccl, &process.machine) : 0;
}

const char *st_process_ctas_from(int nccl)
{
    const char *from = process.ctas_from;

    if (strcmp(from, "built-in") != 0 && strcmp(from, "NCCL") != 0)
        return from;
    return st_process_min_ctas(nccl) ? "built-in" : "NCCL";
}

/* Decide which counts NCCL gets for NCCL_MIN_CTAS (the built-in count) and NCCL_SYM_CTAS (the count
 * of [process] rules). NCCL reads each once per process, and all ranks must have the same counts,
 * whichever communicator a rank creates first. So both counts depend only on machine and release.
 * The built-in count depends on no file, because one rank might fail to read the file. */
static void decide(void)
{
    const struct st_rule *rule;
    const char *holds;

    symtuner_machine_find(&process.machine);
    if (process.rules && symtuner_rules_fit(process.rules, process.nccl, &process.machine,
                                            rules_error, sizeof rules_error) != SYMTUNER_OK) {
        process.rules_wrong = true;
        process.unfit = process.rules; /* do not free them: another thread may be reading them */
        process.rules = NULL;
    }
    process.rules_hash = symtuner_rules_hash(process.rules);
    process.default_ctas = st_default_ctas(process.nccl, &process.machine);
    holds = holds_default();
    if (process.default_ctas && holds)
        process.ctas_from = holds;
    gives_default = !holds && process.env_interface;
    process.min_ctas = st_process_min_ctas(process.nccl);
    if (process.min_ctas)
        process.ctas_from = "built-in";
    rule = st_rules_process(process.rules, process.nccl, &process.machine);
    if (!rule || !rule->act.sym_ctas || process.options.mode != ST_MODE_STEER ||
        !process.era->symmetric)
        return;
    holds = st_held_by_user(environment, NULL);
    if (holds) {
        process.ctas_from = holds;
        return;
    }
    process.sym_ctas = rule->act.sym_ctas;
    process.ctas_from = process.env_interface ? "rules" : "NCCL";
}

static void set_release(int nccl)
{
    process.nccl = nccl;
    process.era = st_era_of(nccl);
}

void st_process_env(int nccl)
{
    st_process();
    process.env_interface = true;
    if (process.nccl == 0) /* the first copy of NCCL that calls us sets the release */
        set_release(nccl);
}

const struct st_process *st_process_asked(void)
{
    st_process();
    pthread_once(&decide_once, decide);
    return &process;
}

int st_process_call_rules(void)
{
    int count = 0;

    for (int i = 0; process.rules && i < process.rules->count; i++)
        count += !process.rules->rule[i].kernels && !process.rules->rule[i].process;
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
    if (process.env_interface && box_may_have_default(nccl))
        return true; /* our tuner checks whether all ranks got the same CTA count */
    if (process.options.mode == ST_MODE_OFF)
        return false;
    /* Only the tuner's init can log that a setting is wrong. */
    return st_process_call_rules() || process.sym_ctas || process.rules_wrong || option_error[0] ||
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

static nccl_abi_logger start_logger;
static int start_abi;

static void start(void)
{
    static const int oldest_of_abi[] = {[4] = 22703, [5] = 22803, [6] = 23003, [7] = 23206};

    if (process.nccl == 0)
        set_release(ask_version(start_logger));
    if (process.nccl == 0 && start_abi >= 4 && start_abi <= 7)
        set_release(oldest_of_abi[start_abi]);
    pthread_once(&decide_once, decide);
}

/* Log which CTA count symmetric kernels get, and why. If the count is that of a rule, this logs it
 * only if it has no effect. */
static void announce_ctas(const char *release)
{
    const char *gpu = process.machine.gpu[0] ? process.machine.gpu : "this GPU";
    bool can_ask = process.era->env_abi > 0;

    if (process.min_ctas)
        st_info("NCCL_MIN_CTAS=%d (built-in, measured on %d x %s with NCCL %s); "
                "SYMTUNER_DEFAULTS=0 keeps NCCL's own",
                process.min_ctas, process.machine.gpus, gpu, release);
    else if (process.default_ctas && !process.env_interface)
        st_info("NCCL's own CTA count is kept: NCCL does not ask symtuner for NCCL_MIN_CTAS=%d "
                "(built-in); set NCCL_ENV_PLUGIN=libsymtuner.so on all ranks",
                process.default_ctas);
    else if (process.default_ctas)
        st_info("NCCL's own CTA count is kept: %s holds NCCL_MIN_CTAS=%d (built-in) back",
                process.ctas_from, process.default_ctas);
    else if (!process.sym_ctas && process.options.mode == ST_MODE_STEER &&
             process.era->symmetric && strcmp(process.ctas_from, "NCCL") == 0)
        st_info("no CTA count is known for \"%s\" with NCCL %s: NCCL's own is kept; measure one "
                "with NCCL_SYM_CTAS, then write [process] sym-ctas", gpu, release);
    if (process.sym_ctas && !process.env_interface)
        st_warn("[process] sym-ctas = %d has no effect: NCCL %s; %s", process.sym_ctas,
                can_ask ? "does not ask symtuner for variables" : "has no env interface",
                can_ask ? "set NCCL_ENV_PLUGIN=libsymtuner.so on all ranks"
                        : "set NCCL_SYM_CTAS yourself, on all ranks");
}

/* Log wrong settings and the CTA count. Hold no lock when you call this or announce_faults: NCCL's
 * logger takes a lock. */
static void announce(void)
{
    char release[16];

    st_release_print(process.nccl, release, sizeof release);
    if (option_error[0])
        st_warn("%s", option_error);
    if (machine_error[0])
        st_warn("%s", machine_error);
    if (rules_error[0])
        st_warn("%s; no rule is applied, NCCL decides everything", rules_error);
    else if (process.options.rules[0] && process.options.rules[0] != '/')
        st_warn("SYMTUNER_RULES=%s is relative: a rank with another working directory reads "
                "another file or none; write the whole path", process.options.rules);
    announce_ctas(release);
}

/* Log the faults of NCCL release ${nccl}, once for each release: a process can have several copies
 * of NCCL. */
static void announce_faults(int nccl)
{
    enum { RELEASES = 8 };
    static atomic_int said[RELEASES];
    const struct st_hazard *hazard;
    char release[16];
    int i = 0, there = 0;

    while (i < RELEASES && !atomic_compare_exchange_strong(&said[i], &there, nccl)) {
        if (there == nccl)
            return;
        there = 0;
        i++;
    }
    st_release_print(nccl, release, sizeof release);
    for (int n = 0; i < RELEASES && (hazard = st_hazard_get(nccl, n)); n++)
        st_info("NCCL %s: %s", release, hazard->text);
}

const struct st_process *st_process_start(nccl_abi_logger logger, int abi)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static atomic_bool said;

    st_process();
    st_log_use(logger);
    pthread_mutex_lock(&lock);
    start_logger = logger;
    start_abi = abi;
    pthread_once(&start_once, start);
    pthread_mutex_unlock(&lock);
    if (process.options.mode != ST_MODE_OFF) {
        if (!atomic_exchange(&said, true))
            announce();
        announce_faults(st_process_caller(logger));
    }
    return &process;
}

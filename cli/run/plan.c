/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/plan.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/text.h"
#include "nccl/names.h"

const char *const st_run_part_word[ST_RUN_PARTS] = {"plugin", "dropin", "jax"};

struct making {
    const struct st_run_ask *ask;
    st_run_getter *get;
    const void *from;
    struct st_run_plan *plan;
    char parts[60], notes[1000]; /* st_run_plan::said is made from these */
};

/* Return the value that a variable has before we set it, or "" if it is not set. */
static const char *now(const struct making *making, const char *name)
{
    const char *value = making->get(making->from, name);

    return value ? value : "";
}

static void part(struct making *making, const char *name)
{
    size_t at = strlen(making->parts);

    st_text_add(making->parts, sizeof making->parts, at, "%s%s", at ? ", " : "", name);
}

static void note(struct making *making, const char *what, const char *name, const char *value)
{
    size_t at = strlen(making->notes);

    st_text_add(making->notes, sizeof making->notes, at, "; %s%s%s%.200s", what, name,
                name[0] ? "=" : "", value);
}

static void set(struct making *making, const char *name, const char *value)
{
    struct st_run_plan *plan = making->plan;

    if (strcmp(now(making, name), value) == 0)
        return;
    plan->set[plan->sets].name = name;
    snprintf(plan->set[plan->sets++].value, ST_RUN_VALUE, "%s", value);
}

static void set_number(struct making *making, const char *name, int number)
{
    char text[16];

    snprintf(text, sizeof text, "%d", number);
    if (number)
        set(making, name, text);
}

/* ---- plugin ---------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Does ${value} name symtuner's plugin for NCCL? NCCL_TUNER_PLUGIN=symtuner means
 * libnccl-tuner-symtuner.so. */
static bool names_symtuner(const char *value)
{
    return strcmp(value, "symtuner") == 0 || strcmp(value, "libsymtuner.so") == 0 ||
           ends_with(value, "/libsymtuner.so") || ends_with(value, "-symtuner.so");
}

/* If ${variable} names our plugin without a folder, set ${variable} to the plugin's whole path: the
 * loader does not search the folders of a Python environment. Returns whether ${variable} names our
 * plugin. */
static bool named(struct making *making, const char *variable, const char *plugin)
{
    const char *value = now(making, variable);

    if (names_symtuner(value) && !strchr(value, '/'))
        set(making, variable, plugin);
    return names_symtuner(value);
}

/* Make ${variable} name our plugin. If it names another plugin, make ${next} name that one, so that
 * our plugin calls it. Change nothing if ${variable} is "none", or if it names another plugin and
 * ${next} is already set. */
static void put_in_front(struct making *making, const char *variable, const char *next,
                         const char *plugin)
{
    const char *value = now(making, variable);

    if (named(making, variable, plugin))
        return;
    if (strcasecmp(value, "none") == 0 || (value[0] && now(making, next)[0])) {
        note(making, "kept: ", variable, value);
        return;
    }
    if (value[0]) {
        note(making, "behind the plugin: ", variable, value);
        set(making, next, value);
    }
    set(making, variable, plugin);
}

/* For NCCL 2.28.7 and later NCCL_ENV_PLUGIN is enough: if symtuner needs its tuner or profiler, our
 * env plugin gives NCCL the plugin's own path as the value of NCCL_TUNER_PLUGIN or
 * NCCL_PROFILER_PLUGIN (plugin/process.c). Earlier releases read only NCCL_TUNER_PLUGIN and
 * NCCL_PROFILER_PLUGIN. */
static void plan_plugin(struct making *making, const char *plugin)
{
    const char *env = now(making, "NCCL_ENV_PLUGIN");

    if (strlen(plugin) > ST_NCCL_NAME_MAX) {
        note(making, "no plugin, since NCCL would cut its path, which is too long: ", "", plugin);
        return;
    }
    part(making, "plugin");
    if (!env[0])
        set(making, "NCCL_ENV_PLUGIN", plugin);
    else if (!named(making, "NCCL_ENV_PLUGIN", plugin))
        note(making, "kept: ", "NCCL_ENV_PLUGIN", env);
    /* NCCL_CTA_POLICY=1 makes NCCL prefer NVLS, but not if any tuner is loaded. So if
     * NCCL_CTA_POLICY is set and the user names no tuner, do not set NCCL_TUNER_PLUGIN. */
    if (now(making, "NCCL_TUNER_PLUGIN")[0] || !now(making, "NCCL_CTA_POLICY")[0])
        put_in_front(making, "NCCL_TUNER_PLUGIN", "SYMTUNER_NEXT_TUNER", plugin);
    if (now(making, "SYMTUNER_LEDGER")[0])
        put_in_front(making, "NCCL_PROFILER_PLUGIN", "SYMTUNER_NEXT_PROFILER", plugin);
}

/* ---- drop-in --------------------------------------------------------------------------------- */

/* Does ${list}, the value of LD_PRELOAD, have a libsymtuner_nccl.so in any folder? */
static bool preloads_dropin(const char *list)
{
    static const char name[] = "libsymtuner_nccl.so";

    while (*list) {
        size_t n = strcspn(list, " :"), own = sizeof name - 1;

        if (n >= own && strncmp(list + n - own, name, own) == 0 &&
            (n == own || list[n - own - 1] == '/'))
            return true;
        list += n + (list[n] != '\0');
    }
    return false;
}

/* Put our drop-in in front of all libraries in LD_PRELOAD. A library in front of the drop-in that
 * defines NCCL's functions, such as NCCL itself, would hide the drop-in. */
static void plan_dropin(struct making *making, const char *dropin, const char *kernels)
{
    const char *list = now(making, "LD_PRELOAD");
    char value[ST_RUN_VALUE];

    if (preloads_dropin(list)) {
        part(making, "drop-in");
    } else if (strpbrk(dropin, " :")) { /* the loader splits LD_PRELOAD at these characters */
        note(making, "no drop-in, since its path has a space or colon: ", "", dropin);
        return;
    } else if (snprintf(value, sizeof value, "%s%s%s", dropin, list[0] ? ":" : "", list) >=
               ST_RUN_VALUE) {
        note(making, "no drop-in, since LD_PRELOAD is too long", "", "");
        return;
    } else {
        part(making, "drop-in");
        set(making, "LD_PRELOAD", value);
        if (!kernels) /* pip builds no kernels where it finds no nvcc */
            note(making, "no kernels: libsymtuner_ar.so is not beside symtuner, so NCCL runs every "
                         "call; make kernels builds it, and so does pip if nvcc is there", "", "");
    }
    making->plan->counts = making->plan->preloads = true;
    set_number(making, "SYMTUNER_VERIFY", making->ask->verify);
    if (!now(making, "SYMTUNER_AR_IPC")[0])
        set(making, "SYMTUNER_AR_IPC", "auto");
}

/* ---- parts ----------------------------------------------------------------------------------- */

static const char only[] = "SYMTUNER_RUN_ONLY";

/* Is ${part} to be loaded? If --only names no parts, the --only of an outer `symtuner run`
 * decides. */
static bool wanted(const struct making *making, enum st_run_part part)
{
    const char *list = now(making, only), *word = st_run_part_word[part];

    if (making->ask->named || !list[0])
        return making->ask->part[part];
    for (size_t n; *list; list += n + (list[n] == ','))
        if ((n = strcspn(list, ",")) == strlen(word) && strncmp(list, word, n) == 0)
            return true;
    return false;
}

/* If --only leaves out parts, set SYMTUNER_RUN_ONLY, so that a `symtuner run` inside the program
 * leaves out the same parts. If --only names all parts, replace the list that an outer `symtuner
 * run` may have put into this variable. */
static void plan_only(struct making *making)
{
    char list[40] = "";
    int parts = 0;

    for (int i = 0; i < ST_RUN_PARTS; i++)
        if (making->ask->part[i])
            st_text_add(list, sizeof list, strlen(list), "%s%s", parts++ ? "," : "",
                        st_run_part_word[i]);
    if (making->ask->named && (parts < ST_RUN_PARTS || now(making, only)[0]))
        set(making, only, list);
}

void st_run_plan(const struct st_run_ask *ask, const struct st_run_libraries *libraries,
                 st_run_getter *get, const void *from, struct st_run_plan *plan)
{
    struct making making = {.ask = ask, .get = get, .from = from, .plan = plan};
    bool plugin = wanted(&making, ST_RUN_PLUGIN), dropin = wanted(&making, ST_RUN_DROPIN);

    *plan = (struct st_run_plan){.sets = 0};
    if (plugin && libraries->plugin)
        plan_plugin(&making, libraries->plugin);
    if (dropin && libraries->dropin)
        plan_dropin(&making, libraries->dropin, libraries->kernels);
    if (wanted(&making, ST_RUN_JAX)) {
        part(&making, "JAX route");
        plan->counts = true;
        if (!now(&making, "SYMTUNER_JAX")[0])
            set(&making, "SYMTUNER_JAX", "1");
    }
    if (ask->colls[0] && plan->counts) /* the drop-in and the JAX route read it */
        set(&making, "SYMTUNER_ONLY", ask->colls);
    plan_only(&making);
    set_number(&making, "SYMTUNER_AR_MAX_CTAS", ask->max_ctas);
    if (ask->off)
        set(&making, "SYMTUNER_MODE", "off");
    if (ask->off || strcmp(now(&making, "SYMTUNER_MODE"), "off") == 0) {
        plan->counts = false;
        note(&making, "all of it off: ", "SYMTUNER_MODE", "off");
    }
    if (plugin && !libraries->plugin)
        note(&making, "no plugin: libsymtuner.so is not beside symtuner", "", "");
    if (dropin && !libraries->dropin)
        note(&making, "no drop-in: libsymtuner_nccl.so is not beside symtuner", "", "");
    snprintf(plan->said, sizeof plan->said, "%s%s", making.parts[0] ? making.parts : "nothing",
             making.notes);
}

bool st_run_quote(const char *value, char *text, size_t size)
{
    size_t at = 0;

    if (size < 3)
        return false;
    text[at++] = '\'';
    for (; *value; value++) {
        const char *piece = "'\\''";
        size_t n = *value == '\'' ? 4 : 1;

        if (at + n + 2 > size)
            return false;
        memcpy(text + at, n == 4 ? piece : value, n);
        at += n;
    }
    memcpy(text + at, "'", 2);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.c - finds the file that NCCL would load as a plugin. Which names NCCL tries depends on its
 * release (docs/doctor.md, "How NCCL finds a plugin"). plugin.c looks for each name where the
 * dynamic loader would: in LD_LIBRARY_PATH, then in the folders of /etc/ld.so.conf, then in the
 * system's own folders.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/gpu/cuda.h"
#include "cli/text.h"
#include "nccl/names.h"
#include "nccl/release.h"

static void add_dir(struct st_doctor *doctor, const char *dir, size_t length)
{
    if (doctor->dirs < ST_DIRS_MAX && length && length < ST_PATH) {
        memcpy(doctor->dir[doctor->dirs], dir, length);
        doctor->dir[doctor->dirs++][length] = '\0';
    }
}

/* Add the folders that an ld.so.conf names. Each line of the file names a folder or says "include
 * PATTERN"; "#" begins a comment. The folders of included files come after those of the file
 * itself. */
static void read_ld_conf(struct st_doctor *doctor, const char *path, int depth)
{
    static const char include[] = "include ";
    char text[8192], included[ST_PATH], *pattern[ST_DIRS_MAX], *line, *rest = text;
    int patterns = 0;

    if (depth > 3 || st_doctor_read(doctor, path, text, sizeof text) < 0)
        return;
    while ((line = strsep(&rest, "\n"))) {
        bool includes;

        line += strspn(line, " \t");
        includes = strncmp(line, include, sizeof include - 1) == 0;
        line += includes ? sizeof include - 1 : 0;
        line[strcspn(line, " \t\r#")] = '\0';
        if (!includes && line[0] == '/')
            add_dir(doctor, line, strlen(line));
        else if (includes && patterns < ST_DIRS_MAX)
            pattern[patterns++] = line;
    }
    for (int p = 0; p < patterns; p++)
        for (int i = 0; st_doctor_glob(doctor, pattern[p], i, included); i++)
            read_ld_conf(doctor, included, depth + 1);
}

void st_doctor_dirs(struct st_doctor *doctor)
{
    static const char *const system_dir[] = {
#if defined(__x86_64__)
        "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
        "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
#endif
        "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
    /* Read LD_LIBRARY_PATH from the environment only. A value in NCCL's conf files has no effect,
     * because the loader reads the variable when the program starts, before NCCL reads those
     * files. */
    const char *path = getenv("LD_LIBRARY_PATH"), *at = path ? path : "";

    while (*at) {
        size_t length = strcspn(at, ":;");

        add_dir(doctor, at, length);
        at += length;
        at += *at != '\0';
    }
    doctor->dirs_configured = doctor->dirs;
    read_ld_conf(doctor, "/etc/ld.so.conf", 0);
    for (size_t i = 0; i < sizeof system_dir / sizeof *system_dir; i++)
        add_dir(doctor, system_dir[i], strlen(system_dir[i]));
}

bool st_doctor_find_library(const struct st_doctor *doctor, const char *name, char out[ST_PATH])
{
    if (strchr(name, '/')) {
        snprintf(out, ST_PATH, "%s", name);
        return st_doctor_exists(doctor, name);
    }
    for (int i = 0; i < doctor->dirs; i++)
        if ((size_t)snprintf(out, ST_PATH, "%.900s/%.110s", doctor->dir[i], name) < ST_PATH &&
            st_doctor_exists(doctor, out))
            return true;
    out[0] = '\0';
    return false;
}

const char *st_doctor_symtuner(const struct st_doctor *doctor, char path[ST_PATH])
{
    static const char name[] = "libsymtuner.so";

    /* NCCL before 2.27.5 takes no path (resolve). A box under --root is not that of the command. */
    if (doctor->root[0] || doctor->nccl < 22705 || st_doctor_find_library(doctor, name, path))
        return name;
    st_beside_command(name, path, ST_PATH);
    return strchr(path, '/') && strlen(path) <= ST_NCCL_NAME_MAX ? path : name;
}

const char *st_doctor_cure(const struct st_doctor *doctor, const char *cure, char text[ST_EVIDENCE])
{
    static const char set[] = "_PLUGIN=", name[] = "libsymtuner.so";
    const char *at = strstr(cure, "_PLUGIN=libsymtuner.so");
    char path[ST_PATH];

    if (!at)
        return cure;
    at += strlen(set);
    snprintf(text, ST_EVIDENCE, "%.*s%s%s", (int)(at - cure), cure,
             st_doctor_symtuner(doctor, path), at + strlen(name));
    return text;
}

/* ---- resolution ------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool try_name(const struct st_doctor *doctor, struct st_plugin *plugin, const char *name)
{
    size_t at = strlen(plugin->tried);

    st_text_add(plugin->tried, sizeof plugin->tried, at, "%s%.300s", at ? ", " : "", name);
    return plugin->path[0] != '\0' || st_doctor_find_library(doctor, name, plugin->path);
}

static unsigned versions(const struct st_plugin *plugin, const struct st_elf *elf)
{
    return plugin->symbol[4] == 'T' ? elf->tuner : plugin->symbol[4] == 'E' ? elf->env
                                                                             : elf->profiler;
}

static void look(const struct st_doctor *doctor, struct st_plugin *plugin)
{
    static const char *const word[] = {"tuner", "env", "profiler", "net"};
    struct st_elf elf;
    size_t at = 0;
    unsigned bits[4];

    plugin->unreadable = !st_elf_look(doctor, plugin->path, &elf);
    plugin->foreign = !plugin->unreadable && !elf.same_machine;
    plugin->symtuner = elf.symtuner && elf.tuner && elf.env;
    for (int v = plugin->newest; v >= plugin->oldest && v > 0 && !plugin->found; v--)
        if (versions(plugin, &elf) >> v & 1)
            plugin->found = v;
    memcpy(bits, (const unsigned[]){elf.tuner, elf.env, elf.profiler, elf.net}, sizeof bits);
    for (int k = 0; k < 4; k++)
        for (int v = 1; v < 32; v++)
            if (bits[k] >> v & 1)
                at = st_text_add(plugin->exports, sizeof plugin->exports, at, "%s%s v%d",
                                 at ? ", " : "", word[k], v);
}

/* Look for the file "STEM-VALUE.so", as NCCL does if the variable has a short name as its value. */
static void try_stem(const struct st_doctor *doctor, struct st_plugin *plugin, const char *stem,
                     const char *value)
{
    char name[ST_PATH];

    snprintf(name, sizeof name, "%s-%.500s.so", stem, value);
    try_name(doctor, plugin, name);
}

/* Find the plugin's file as NCCL does (docs/doctor.md, "How NCCL finds a plugin"). ${stem} is the
 * beginning of NCCL's default name, for example "libnccl-tuner" for the tuner. */
static void resolve(const struct st_doctor *doctor, struct st_plugin *plugin, const char *stem)
{
    const char *value;
    char name[ST_PATH];

    plugin->asked = st_doctor_get(doctor, plugin->variable);
    value = plugin->asked ? plugin->asked->value : "";
    snprintf(name, sizeof name, "%s.so", stem);
    if (value[0] == '\0') {
        try_name(doctor, plugin, name);
    } else if (strcasecmp(value, "none") == 0 && doctor->nccl >= 22800) {
        plugin->disabled = true;
        return;
    } else if (strncasecmp("STATIC_PLUGIN", value, strlen(value)) == 0) {
        plugin->is_static = true;
        return;
    } else if (doctor->nccl < 22705 &&
               !(strncmp(value, "lib", 3) == 0 && ends_with(value, ".so"))) {
        plugin->mangled = strchr(value, '/') != NULL;
        try_stem(doctor, plugin, stem, value);
    } else if (!try_name(doctor, plugin, value) && !strchr(value, '/') &&
               !ends_with(value, ".so")) {
        try_stem(doctor, plugin, stem, value);
    }
    if (plugin->path[0])
        look(doctor, plugin);
}

/* If ${plugin} has no file, or its file lacks the symbol, look for the symbol in the file of the
 * network plugin, as NCCL does. */
static void look_in_net(const struct st_doctor *doctor, struct st_plugin *plugin)
{
    const struct st_setting *net = st_doctor_get(doctor, "NCCL_NET_PLUGIN");
    struct st_plugin other = *plugin;
    char name[ST_PATH];

    if (plugin->found || plugin->disabled || plugin->is_static)
        return;
    other.path[0] = other.exports[0] = other.tried[0] = '\0';
    snprintf(name, sizeof name, "%.600s", net && net->value[0] ? net->value : "libnccl-net.so");
    if (!try_name(doctor, &other, name) && net && !strchr(name, '/'))
        try_stem(doctor, &other, "libnccl-net", net->value);
    if (!other.path[0])
        return;
    look(doctor, &other);
    if (other.found) {
        *plugin = other;
        plugin->from_net = true;
    }
}

void st_doctor_plugins(struct st_doctor *doctor)
{
    const struct st_era *era = st_era_of(doctor->nccl);
    struct st_plugin *tuner = &doctor->tuner, *env = &doctor->env, *profiler = &doctor->profiler;

    *tuner = (struct st_plugin){.variable = "NCCL_TUNER_PLUGIN", .symbol = "ncclTunerPlugin_v",
                                .newest = era->tuner_abi, .oldest = 2};
    *env = (struct st_plugin){.variable = "NCCL_ENV_PLUGIN", .symbol = "ncclEnvPlugin_v",
                              .newest = era->env_abi, .oldest = 1};
    *profiler = (struct st_plugin){.variable = "NCCL_PROFILER_PLUGIN", .symbol = "ncclProfiler_v",
                                   .newest = era->profiler_abi, .oldest = 1};
    if (era->env_abi)
        resolve(doctor, env, "libnccl-env");
    else
        env->asked = st_doctor_get(doctor, env->variable);
    resolve(doctor, tuner, "libnccl-tuner");
    resolve(doctor, profiler, "libnccl-profiler");
    look_in_net(doctor, tuner);
    if (doctor->nccl >= 22800)
        look_in_net(doctor, profiler);
    /* if the user names no tuner or profiler, symtuner's env plugin names its own file */
    if (env->symtuner && env->found) {
        struct st_plugin *const other[] = {tuner, profiler};

        for (int i = 0; i < 2; i++)
            if (!other[i]->asked) {
                snprintf(other[i]->path, ST_PATH, "%s", env->path);
                other[i]->found = 0;
                other[i]->exports[0] = '\0';
                look(doctor, other[i]);
                other[i]->by_env_plugin = true;
            }
    }
}

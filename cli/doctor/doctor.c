/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.c - symtuner doctor: finds what keeps NCCL and symtuner from working well on this box and
 * in this environment.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/text.h"
#include "cli/values.h"
#include "nccl/names.h"
#include "nccl/release.h"

static const struct st_finding *const parts[] = {st_findings_settings, st_findings_plugin,
                                                 st_findings_dropin, st_findings_box,
                                                 st_findings_gpu};
enum { PARTS = sizeof parts / sizeof *parts, FOUND_MAX = 128 };

static const char *const severity_word[] = {"error", "warning", "note"};

struct found {
    const struct st_finding *row;
    bool accepted;
    int order;
    unsigned judged; /* bit i is set: the finding holds for doctor->copy[doctor->judged[i]] */
    char evidence[ST_EVIDENCE];
};

const struct st_finding *st_finding_get(int index)
{
    for (int p = 0; p < PARTS; p++)
        for (const struct st_finding *row = parts[p]; row->id; row++)
            if (index-- == 0)
                return row;
    return NULL;
}

bool st_found(char *evidence, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(evidence, ST_EVIDENCE, format, arguments);
    va_end(arguments);
    return true;
}

bool st_found_setting(char *evidence, const struct st_setting *setting)
{
    long long number;
    char reads[60] = "";
    bool whole;

    if (st_setting_number(setting, &number, &whole) && !whole)
        snprintf(reads, sizeof reads, "; NCCL reads it as %lld", number);
    return st_found(evidence, "%s=%s (%s)%s", setting->name, setting->value, setting->origin,
                    reads);
}

static bool holds(const struct st_doctor *doctor, const struct st_finding *row, char *evidence)
{
    const struct st_setting *setting;

    if (doctor->nccl < row->first || (row->last && doctor->nccl > row->last))
        return false;
    if (row->when == ST_WHEN_CHECK)
        return row->check(doctor, evidence);
    if (row->when == ST_WHEN_TEXT)
        return st_found(evidence, "%s", (const char *)doctor + row->at) && evidence[0];
    setting = st_doctor_get(doctor, row->variable);
    return setting && st_setting_holds(setting, row->when, row->operand) &&
           st_found_setting(evidence, setting);
}

/* Return the element of ${found} that has the row and the evidence of ${one}, but was found for
 * another copy of NCCL. Returns NULL if there is none. */
static struct found *same(struct found *found, int n, const struct found *one)
{
    for (int i = 0; i < n; i++)
        if (found[i].row == one->row && strcmp(found[i].evidence, one->evidence) == 0)
            return &found[i];
    return NULL;
}

/* Order two findings for qsort: errors first, then warnings, then notes. Findings of one severity
 * keep the order of the tables. */
static int compare(const void *a, const void *b)
{
    const struct found *one = a, *other = b;
    int by_severity = (int)one->row->severity - (int)other->row->severity;

    return by_severity ? by_severity : one->order - other->order;
}

static void judge(struct st_doctor *doctor, int index)
{
    st_doctor_use(doctor, index);
    st_doctor_settings(doctor);
    st_doctor_plugins(doctor);
}

/* Check all rows once for each copy of NCCL in doctor->judged[]. Puts the findings into ${found},
 * in the order in which they are printed. Returns how many there are. */
static int collect(struct st_doctor *doctor, struct found *found)
{
    static struct found one; /* static, because it is too large for the stack */
    const struct st_finding *row;
    struct found *before;
    int n = 0, rounds = doctor->judgeds > 1 ? doctor->judgeds : 1;

    for (int j = 0; j < rounds; j++) {
        if (j > 0)
            judge(doctor, j);
        for (int i = 0; (row = st_finding_get(i)); i++) {
            one = (struct found){.row = row, .order = i * ST_JUDGED_MAX + j, .judged = 1u << j};
            if (!holds(doctor, row, one.evidence))
                continue;
            if ((before = same(found, n, &one)))
                before->judged |= one.judged;
            else if (n < FOUND_MAX)
                found[n++] = one;
        }
    }
    if (rounds > 1)
        judge(doctor, 0); /* back to the first copy: print_facts prints its plugins */
    for (int i = 0; i < n; i++)
        found[i].accepted = st_doctor_accepts(doctor->accept[0], found[i].row->id) ||
                            st_doctor_accepts(doctor->accept[1], found[i].row->id);
    qsort(found, (size_t)n, sizeof *found, compare);
    return n;
}

static void print_list(void)
{
    const struct st_finding *row;
    char release[16];

    printf("| finding | severity | NCCL | meaning | cure |\n|---|---|---|---|---|\n");
    for (int i = 0; (row = st_finding_get(i)); i++) {
        printf("| `%s` | %s | ", row->id, severity_word[row->severity]);
        if (row->first > 1)
            printf("%s..", st_release_print(row->first, release, sizeof release));
        if (row->last)
            printf("%s%s", row->first > 1 ? "" : "..",
                   st_release_print(row->last, release, sizeof release));
        printf("%s | %s | %s |\n", row->first > 1 || row->last ? "" : "all", row->what, row->cure);
    }
}

/* ---- what was looked at ---------------------------------------------------------------------- */

static void plugin_fact(const struct st_plugin *plugin, char *text, size_t size)
{
    if (plugin->newest == 0)
        snprintf(text, size, "this release has none");
    else if (plugin->disabled)
        snprintf(text, size, "switched off (%s)", plugin->asked->origin);
    else if (plugin->is_static)
        snprintf(text, size, "the program itself");
    else if (!plugin->path[0])
        snprintf(text, size, "none (tried %.300s)", plugin->tried);
    else
        snprintf(text, size, "%.600s%s%s%s", plugin->path, plugin->found ? "" : " (not usable)",
                 plugin->by_env_plugin ? ", named by the env plugin" : "",
                 plugin->from_net ? ", the network plugin" : "");
}

/* Add to ${text}, at offset ${at}, the frameworks that load ${copy}, if any: ": loaded by jax
 * (RPATH), torch (RPATH)". Returns the offset of the new end. */
static size_t loaders(const struct st_doctor *d, int copy, char *text, size_t size, size_t at)
{
    int n = 0;

    for (int i = 0; i < d->frameworks; i++)
        if (d->framework[i].copy == copy)
            at = st_text_add(text, size, at, "%s%s (%s)", n++ ? ", " : ": loaded by ",
                             d->framework[i].name, d->framework[i].how);
    return at;
}

/* Print each copy of NCCL with the frameworks that load it, then a line about python3. If no copy
 * has the release that is checked, print that release first. */
static void print_nccl(const struct st_doctor *d, FILE *out)
{
    char text[ST_EVIDENCE], release[16];
    size_t at;

    fprintf(out, "%-11s", "NCCL");
    if (d->used < 0)
        fprintf(out, "%s%s\n", st_release_print(d->nccl, release, sizeof release),
                d->nccl_assumed ? " (assumed)" : "");
    for (int i = 0; i < d->copies; i++) {
        const struct st_copy *copy = &d->copy[i];

        if (d->frameworks == 0 && i != d->used)
            continue;
        at = st_text_add(text, sizeof text, 0, "%s, %.600s",
                         st_release_print(copy->nccl, release, sizeof release), copy->path);
        if (copy->package[0])
            at = st_text_add(text, sizeof text, at, " (%s)", copy->package);
        at = loaders(d, i, text, sizeof text, at);
        fprintf(out, "%*s", i == 0 || d->frameworks == 0 ? 0 : 11, "");
        st_text_wrap(out, 11, text);
    }
    if (!d->python[0])
        return;
    at = st_text_add(text, sizeof text, 0, "%s", d->python);
    if (d->frameworks == 0)
        at = st_text_add(text, sizeof text, at, ": neither jax nor torch with CUDA");
    for (int i = 0; i < d->frameworks; i++)
        if (d->framework[i].copy < 0)
            at = st_text_add(text, sizeof text, at, ": %s finds no NCCL", d->framework[i].name);
    fprintf(out, "%-11s", "python3");
    st_text_wrap(out, 11, text);
}

static void print_facts(const struct st_doctor *d, FILE *out)
{
    const struct st_plugin *plugin[] = {&d->env, &d->tuner, &d->profiler};
    static const char *const name[] = {"env", "tuner", "profiler"};
    char text[ST_EVIDENCE];
    size_t at;

    print_nccl(d, out);
    for (int i = 0; i < 3; i++) {
        fprintf(out, "%-11s", name[i]);
        plugin_fact(plugin[i], text, sizeof text);
        st_text_wrap(out, 11, text);
    }
    st_doctor_dropin_print(d, out);
    fprintf(out, "%-11s", "conf files");
    text[0] = '\0';
    at = 0;
    for (int i = 0; i < d->confs; i++)
        at = st_text_add(text, sizeof text, at, "%s%.300s", i ? ", " : "", d->conf[i]);
    st_text_wrap(out, 11, d->confs ? text : "none");
    fprintf(out, "%-11s%s%s, %s%s\n", "machine", d->driver ? "driver " : "no driver",
            d->driver ? d->driver_text : "",
            d->machine.gpu[0] ? d->machine.gpu : "no GPU that can be asked",
            !d->machine.gpu[0]      ? ""
            : d->machine.nvlink > 0 ? ", NVLink"
                                    : ", PCIe");
}

/* Return the releases for which a finding holds, as " with NCCL 2.27.3, 2.28.9", or "" if it holds
 * for all releases that were checked. The result is in ${text}. */
static const char *with(const struct st_doctor *d, const struct found *one, char *text, size_t size)
{
    unsigned all = d->judgeds > 1 ? (1u << d->judgeds) - 1 : one->judged;
    char release[16];
    size_t at = 0;

    text[0] = '\0';
    for (int j = 0; j < d->judgeds && one->judged != all; j++)
        if (one->judged >> j & 1)
            at = st_text_add(text, size, at, "%s%s", at ? ", " : " with NCCL ",
                             st_release_print(d->copy[d->judged[j]].nccl, release, sizeof release));
    return text;
}

static void print_text(const struct st_doctor *d, const struct found *found, int n, FILE *out)
{
    char text[100], cure[ST_EVIDENCE];

    print_facts(d, out);
    st_doctor_gpu_print(d, out);
    fputc('\n', out);
    for (int i = 0; i < n; i++) {
        const char *severity = severity_word[found[i].row->severity];

        fprintf(out, "%-8s %s%s%s%s%s\n         ", found[i].accepted ? "accepted" : severity,
                found[i].row->id, found[i].accepted ? " (" : "", found[i].accepted ? severity : "",
                found[i].accepted ? ")" : "", with(d, &found[i], text, sizeof text));
        st_text_wrap(out, 9, found[i].evidence);
        fputs("         ", out);
        st_text_wrap(out, 9, found[i].row->what);
        fputs("   cure: ", out);
        st_text_wrap(out, 9, st_doctor_cure(d, found[i].row->cure, cure));
    }
    if (n == 0)
        fputs("nothing found\n", out);
    for (int i = 0; i < d->uncheckeds; i++)
        fprintf(out, "%s%s", i ? "; " : "not checked: ", d->unchecked[i]);
    if (d->uncheckeds)
        fputc('\n', out);
}

static void json_plugin(struct st_json *json, const char *name, const struct st_plugin *plugin)
{
    st_json_open(json, name, "\n {");
    st_json_int(json, "version", plugin->found);
    st_json_bool(json, "symtuner", plugin->symtuner);
    st_json_text(json, "path", plugin->path[0] ? plugin->path : NULL);
    st_json_text(json, "asked", plugin->asked ? plugin->asked->value : NULL);
    st_json_text(json, "origin", plugin->asked ? plugin->asked->origin : NULL);
    st_json_text(json, "tried", plugin->tried);
    st_json_close(json);
}

/* Print the copies of NCCL, and which of them jax and torch would load. */
static void json_copies(struct st_json *json, const struct st_doctor *d)
{
    char release[16];

    st_json_open(json, "copies", "\n [");
    for (int i = 0; i < d->copies; i++) {
        const struct st_copy *copy = &d->copy[i];

        st_json_open(json, NULL, "{");
        st_json_text(json, "path", copy->path);
        st_json_text(json, "nccl", st_release_print(copy->nccl, release, sizeof release));
        st_json_text(json, "package", copy->package[0] ? copy->package : NULL);
        st_json_close(json);
    }
    st_json_close(json);
    st_json_gap(json, "\n ");
    st_json_text(json, "python", d->python[0] ? d->python : NULL);
    st_json_open(json, "frameworks", "\n [");
    for (int i = 0; i < d->frameworks; i++) {
        const struct st_framework *one = &d->framework[i];

        st_json_open(json, NULL, "{");
        st_json_text(json, "name", one->name);
        st_json_text(json, "library", one->file);
        st_json_text(json, "nccl", one->copy < 0 ? NULL : d->copy[one->copy].path);
        st_json_text(json, "by", one->copy < 0 ? NULL : one->how);
        st_json_close(json);
    }
    st_json_close(json);
}

/* Print an array of ${n} strings on a line of its own. The first string is at ${text}; each
 * further string begins ${stride} bytes after the one before. */
static void json_texts(struct st_json *json, const char *key, const char *text, size_t stride,
                       int n)
{
    st_json_open(json, key, "\n [");
    for (int i = 0; i < n; i++)
        st_json_text(json, NULL, text + (size_t)i * stride);
    st_json_close(json);
}

static void print_json(const struct st_doctor *d, const struct found *found, int n, FILE *out)
{
    struct st_json json = {.out = out};
    char release[16], cure[ST_EVIDENCE];

    st_json_open(&json, NULL, "{");
    st_json_text(&json, "nccl", st_release_print(d->nccl, release, sizeof release));
    st_json_bool(&json, "nccl_assumed", d->nccl_assumed);
    st_json_text(&json, "nccl_path", d->used >= 0 ? d->copy[d->used].path : NULL);
    json_copies(&json, d);
    st_json_text(&json, "driver", d->driver ? d->driver_text : NULL);
    st_json_text(&json, "gpu", d->machine.gpu[0] ? d->machine.gpu : NULL);
    json_plugin(&json, "tuner", &d->tuner);
    json_plugin(&json, "env", &d->env);
    json_plugin(&json, "profiler", &d->profiler);
    st_doctor_dropin_json(&json, d);
    json_texts(&json, "conf_files", d->conf[0], sizeof d->conf[0], d->confs);
    st_json_open(&json, "findings", "\n [");
    for (int i = 0; i < n; i++) {
        st_json_open(&json, NULL, "\n  {");
        st_json_text(&json, "id", found[i].row->id);
        st_json_text(&json, "severity", severity_word[found[i].row->severity]);
        st_json_bool(&json, "accepted", found[i].accepted);
        st_json_text(&json, "evidence", found[i].evidence);
        st_json_text(&json, "meaning", found[i].row->what);
        st_json_text(&json, "cure", st_doctor_cure(d, found[i].row->cure, cure));
        st_json_close(&json);
    }
    st_json_close(&json);
    json_texts(&json, "not_checked", d->unchecked[0], sizeof d->unchecked[0], d->uncheckeds);
    st_json_close(&json);
}

/* ---- command --------------------------------------------------------------------------------- */

struct ask {
    struct st_doctor *doctor;
    const char *library;
    int release;
    int limit_s; /* seconds in which the driver and the GPUs must answer */
    bool no_gpu, json, list;
    bool file_by_nccl; /* the user wrote --nccl FILE, the earlier spelling of --library */
};

static bool read_accept(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    ((struct ask *)self)->doctor->accept[0] = value;
    return st_doctor_accept_check("--accept", value, error);
}

static bool read_library(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_copy copy;

    ((struct ask *)self)->library = value;
    return st_elf_nccl(((struct ask *)self)->doctor, value, &copy) ||
           st_option_wrong(error, "--library wants a libnccl.so.2", value);
}

static bool read_nccl(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    if (!strchr(value, '/'))
        return st_read_release(value, &((struct ask *)self)->release, error);
    ((struct ask *)self)->file_by_nccl = true;
    return read_library(value, self, error);
}

static bool read_root(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    (void)error;
    ((struct ask *)self)->doctor->root = value;
    ((struct ask *)self)->no_gpu = true;
    return true;
}

#define AT(member) offsetof(struct ask, member)
static const struct st_option rows[] = {
    {"nccl", "X.Y.Z", "the release that your program loads (that of the NCCL which jax and torch "
                      "of this python3 would load; without these two, of the NCCL which the loader "
                      "finds)", ST_OPTION_READ, .read = read_nccl},
    {"library", "FILE", "the libnccl.so.2 that your program loads", ST_OPTION_READ,
     .read = read_library},
    {"accept", "ID,ID", "findings that you know: shown, but they do not count "
                        "(SYMTUNER_DOCTOR_ACCEPT does the same)", ST_OPTION_READ,
     .read = read_accept},
    {"no-gpu", NULL, "files and settings only", ST_OPTION_FLAG, .at = AT(no_gpu)},
    {"json", NULL, "for programs", ST_OPTION_FLAG, .at = AT(json)},
    {"list", NULL, "all findings, as a table in Markdown", ST_OPTION_FLAG, .at = AT(list)},
    /* Tests use this to make the doctor read the files of another box, which lie in FOLDER. */
    {"root", "FOLDER", NULL, ST_OPTION_READ, .read = read_root, .early = true},
    /* Tests use this, because they cannot wait for the default, 60 s. */
    {"gpu-limit", "SECONDS", NULL, ST_OPTION_NUMBER, .at = AT(limit_s), .least = 1, .most = 60},
};
static const struct st_command_line line = {
    .command = "doctor",
    .usage = "[options]\n",
    .about = "Look at this box and this environment. Does this NCCL find the plugin? Which "
             "variables and conf\nfiles work against it? Which known faults does the release have? "
             "Are driver, IOMMU and ACS in order?\nWith GPUs: do bytes arrive at the other GPUs, "
             "how fast, and are windows real? Changes nothing.\n",
    .after =
        "Exit 0: nothing found (notes and accepted findings do not count). 1: findings.\n"
        "docs/reference/findings.md explains each.\n"
        "examples: symtuner doctor\n"
        "          symtuner doctor --nccl 2.28.9 --no-gpu\n",
    ST_OPTIONS(rows)};

int st_cmd_doctor(int argc, char **argv)
{
    /* static, because these two are too large for the stack */
    static struct st_doctor doctor = {.root = ""};
    static struct found found[FOUND_MAX];
    struct ask ask = {.doctor = &doctor, .limit_s = 60};
    int status = st_line_read(&line, argc, argv, &ask), n, bad = 0;
    char error[ST_OPTION_ERROR];

    if (status >= 0)
        return status;
    if (ask.file_by_nccl)
        fputs("symtuner doctor: write --library FILE instead of --nccl FILE, which the next "
              "release does not know\n",
              stderr);
    if (ask.list) {
        print_list();
        return ST_EXIT_FINE;
    }
    doctor.accept[1] = getenv("SYMTUNER_DOCTOR_ACCEPT");
    if (!st_doctor_accept_check("SYMTUNER_DOCTOR_ACCEPT", doctor.accept[1], error))
        return st_line_wrong(&line, error);
    st_doctor_settings(&doctor);
    st_doctor_dirs(&doctor);
    st_doctor_preloads(&doctor);
    st_doctor_copies(&doctor, ask.release, ask.library);
    /* Collect the settings again, now that the release is known. */
    st_doctor_settings(&doctor);
    st_doctor_plugins(&doctor);
    st_doctor_box(&doctor);
    st_doctor_rules(&doctor);
    if (doctor.root[0] == '\0' || getenv("SYMTUNER_MACHINE")) {
        st_doctor_gpu(&doctor, !ask.no_gpu, ask.limit_s);
    } else {
        doctor.machine = (struct symtuner_machine){.nvlink = -1, .multicast = -1};
        st_doctor_unchecked(&doctor, "GPUs");
    }
    n = collect(&doctor, found);
    (ask.json ? print_json : print_text)(&doctor, found, n, stdout);
    for (int i = 0; i < n; i++)
        bad += found[i].row->severity != ST_NOTE && !found[i].accepted;
    return bad ? ST_EXIT_FINDINGS : ST_EXIT_FINE;
}

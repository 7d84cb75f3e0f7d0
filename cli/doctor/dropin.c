/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dropin.c - the libraries that are loaded into every program (LD_PRELOAD, /etc/ld.so.preload), and
 * findings about one of them, symtuner's drop-in libsymtuner_nccl.so.
 *
 * The drop-in gets NCCL's calls because the loader finds the drop-in's functions first. A program
 * that opens NCCL with dlopen calls the drop-in's dlsym, which returns the drop-in's functions. A
 * library that is opened with RTLD_DEEPBIND and calls an NCCL of its own bypasses the drop-in. The
 * doctor cannot see this, because no file shows how a library will be opened.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/text.h"
#include "nccl/release.h"

static const char dropin_name[] = "libsymtuner_nccl.so", kernels_name[] = "libsymtuner_ar.so";

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Add the libraries of ${list}, which are separated by spaces, colons or newlines. */
static void add(struct st_doctor *doctor, const char *list, const char *from)
{
    while (list && *list && doctor->preloads < ST_PRELOADS_MAX) {
        struct st_preload *one = &doctor->preload[doctor->preloads];
        int n = (int)strcspn(list, " :\t\n");

        if (n > 0 && n < ST_PATH) {
            snprintf(one->asked, sizeof one->asked, "%.*s", n, list);
            one->from = from;
            one->dropin = strcmp(name_of(one->asked), dropin_name) == 0;
            if (!st_doctor_find_library(doctor, one->asked, one->path))
                one->path[0] = '\0';
            one->loads =
                one->path[0] && st_elf_look(doctor, one->path, &one->elf) && one->elf.same_machine;
            doctor->preloads++;
        }
        list += n + (list[n] != '\0');
    }
}

void st_doctor_preloads(struct st_doctor *doctor)
{
    char text[4096];

    add(doctor, getenv("LD_PRELOAD"), "LD_PRELOAD");
    if (st_doctor_read(doctor, "/etc/ld.so.preload", text, sizeof text) > 0)
        add(doctor, text, "/etc/ld.so.preload");
}

bool st_doctor_secure(const char *file)
{
    struct stat status;

    return stat(file, &status) == 0 && S_ISREG(status.st_mode) &&
           ((status.st_mode & S_ISUID && status.st_uid != geteuid()) ||
            (status.st_mode & S_ISGID && status.st_gid != getegid()) ||
            (geteuid() != 0 && getxattr(file, "security.capability", NULL, 0) > 0));
}

/* Return the drop-in, or NULL if it is not preloaded. If ${loads} is set, also return NULL if the
 * loader cannot load the drop-in. */
static const struct st_preload *dropin(const struct st_doctor *d, bool loads)
{
    for (int i = 0; i < d->preloads; i++)
        if (d->preload[i].dropin)
            return d->preload[i].loads || !loads ? &d->preload[i] : NULL;
    return NULL;
}

void st_doctor_dropin_print(const struct st_doctor *d, FILE *out)
{
    const struct st_preload *one = dropin(d, true);
    const char *ipc = getenv("SYMTUNER_AR_IPC");
    char text[ST_EVIDENCE];
    size_t at;

    fprintf(out, "%-11s", "drop-in");
    if (!one) {
        st_text_wrap(out, 11,
                     dropin(d, false) ? "not loaded, see below"
                                      : "not preloaded; symtuner run -- symtuner doctor says what "
                                        "would be in its way");
        return;
    }
    at = st_text_add(text, sizeof text, 0, "%.900s (%s), in front of ", one->path, one->from);
    for (int i = 0; i < d->frameworks; i++)
        at = st_text_add(text, sizeof text, at, "%s%s", i ? ", " : "the NCCL of ",
                         d->framework[i].name);
    if (d->frameworks == 0)
        st_text_add(text, sizeof text, at, "any NCCL that a program loads");
    st_text_wrap(out, 11, text);
    if (ipc && strcmp(ipc, "auto") == 0) {
        fprintf(out, "%-11s", "");
        st_text_wrap(out, 11,
                     "SYMTUNER_AR_IPC=auto: two ranks map the buffers of long all-reduces, which "
                     "kernel tma_ipc then runs; NCCL runs them until then. Larger communicators "
                     "map nothing");
    }
}

void st_doctor_dropin_json(struct st_json *json, const struct st_doctor *d)
{
    const struct st_preload *one = dropin(d, true);

    st_json_gap(json, "\n ");
    st_json_text(json, "dropin", one ? one->path : NULL);
}

/* ---- findings -------------------------------------------------------------------------------- */

static bool not_loaded(const struct st_doctor *d, char *evidence)
{
    const struct st_preload *one = dropin(d, false);

    return one && !one->loads &&
           st_found(evidence, "%s names %s, %s", one->from, one->asked,
                    one->path[0] ? "which is no shared object of this machine, or not readable"
                                 : "and there is no such file");
}

static bool nccl_old(const struct st_doctor *d, char *evidence)
{
    char release[16];

    return dropin(d, true) && !d->nccl_assumed &&
           st_found(evidence, "NCCL %s", st_release_print(d->nccl, release, sizeof release));
}

static bool no_kernels(const struct st_doctor *d, char *evidence)
{
    const struct st_preload *one = dropin(d, true);
    char path[ST_PATH];

    if (!one)
        return false;
    snprintf(path, sizeof path, "%.*s%s", (int)(name_of(one->path) - one->path), one->path,
             kernels_name);
    return !st_doctor_exists(d, path) && st_found(evidence, "there is no %s", path);
}

/* Does another preloaded library define NCCL's functions? Looks at the libraries before the drop-in
 * or, if ${behind} is set, at those after it. A library before the drop-in also counts if it
 * defines dlsym, because programs look up NCCL's functions with dlsym. */
static bool other(const struct st_doctor *d, bool behind, char *evidence)
{
    const struct st_preload *own = dropin(d, true);

    for (const struct st_preload *one = d->preload; own && one < d->preload + d->preloads; one++) {
        bool defines = one->elf.defines_nccl || (one->elf.defines_dlsym && !behind);

        if (one->loads && !one->dropin && defines && (one > own) == behind)
            return st_found(evidence, "%s (%s) defines %s", one->path, one->from,
                            one->elf.defines_nccl ? "ncclAllReduce" : "dlsym");
    }
    return false;
}

static bool hidden(const struct st_doctor *d, char *evidence)
{
    return other(d, false, evidence);
}

static bool hides(const struct st_doctor *d, char *evidence)
{
    return other(d, true, evidence);
}

/* Is NCCL linked into a framework, so that the framework's calls to NCCL bypass the loader? */
static bool nccl_inside(const struct st_doctor *d, char *evidence)
{
    for (int i = 0; i < d->frameworks && dropin(d, true); i++) {
        const char *file = d->framework[i].file;
        struct st_elf_search search;
        struct st_elf elf;

        if (strcmp(d->framework[i].how, "linked in") == 0 && st_elf_look(d, file, &elf) &&
            st_elf_look_search(d, file, &search) && (!elf.defines_nccl || search.symbolic))
            return st_found(evidence, "%s of %s has NCCL inside and %s", file, d->framework[i].name,
                            elf.defines_nccl ? "is linked with -Bsymbolic" : "does not export it");
    }
    return false;
}

static bool ignored(const struct st_doctor *d, char *evidence)
{
    const struct st_preload *one = dropin(d, false);
    const char *python = strchr(d->python, '/');
    char full[ST_PATH];

    return one && strcmp(one->from, "LD_PRELOAD") == 0 && python &&
           st_doctor_path(d, python, full) && st_doctor_secure(full) &&
           st_found(evidence, "%s is setuid or setgid, or has capabilities", python);
}

const struct st_finding st_findings_dropin[] = {
    ST_ROW("dropin-not-loaded", ST_ERROR, not_loaded,
        "the loader does not find the drop-in: each program starts with an error message, and "
        "runs without the drop-in",
        "correct LD_PRELOAD; symtuner run --print gives the line"),
    ST_ROW_OF("dropin-nccl-old", ST_WARNING, 0, 22802, nccl_old,
        "with an NCCL before 2.28.3 the drop-in leaves every call to NCCL",
        "use NCCL 2.28.3 or newer"),
    ST_ROW("dropin-no-kernels", ST_WARNING, no_kernels,
        "the drop-in looks for the kernels in its own folder; without them every call stays with "
        "NCCL",
        "install symtuner again where there is nvcc (docs/install.md), or run make kernels and "
        "install both libraries into one folder"),
    ST_ROW("dropin-hidden", ST_WARNING, hidden,
        "programs call the functions of another preloaded library instead of the drop-in's "
        "functions",
        "name libsymtuner_nccl.so first in LD_PRELOAD"),
    ST_ROW("dropin-hides", ST_NOTE, hides,
        "the library behind the drop-in does not get the calls that our kernels run; it gets all "
        "others",
        "set SYMTUNER_MODE=off or SYMTUNER_ONLY while you use that library"),
    ST_ROW("dropin-nccl-inside", ST_WARNING, nccl_inside,
        "the calls of this framework do not reach the drop-in",
        "use a build that loads libnccl.so.2"),
    ST_ROW("dropin-ignored", ST_WARNING, ignored,
        "the loader ignores LD_PRELOAD for a python3 that is setuid, setgid or has capabilities",
        "use another python3"),
    {.id = NULL},
};

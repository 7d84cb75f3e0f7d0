/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.c - finds the copies of NCCL on this box, and decides which of them to check.
 *
 * With --library the doctor checks that file. With --nccl it checks a copy of that release, or only
 * the release if no copy has it. Without these options it checks the first of these that exists:
 *   the copies that jax and torch of this python3 would load; both if their releases differ
 *   the copy that the loader finds
 *   a copy in the folders of pip and CUDA (add_others)
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/doctor/doctor.h"
#include "cli/text.h"
#include "nccl/release.h"

int st_doctor_copy(struct st_doctor *doctor, const char *path)
{
    struct st_copy copy = {.nccl = 0};
    char full[ST_PATH];
    struct stat stat_;

    if (!st_doctor_path(doctor, path, full) || stat(full, &stat_) != 0)
        return -1;
    copy.device = stat_.st_dev;
    copy.inode = stat_.st_ino;
    for (int i = 0; i < doctor->copies; i++)
        if (doctor->copy[i].device == copy.device && doctor->copy[i].inode == copy.inode)
            return i;
    if (doctor->copies == ST_COPIES_MAX || !st_elf_nccl(doctor, path, &copy))
        return -1;
    doctor->copy[doctor->copies] = copy;
    return doctor->copies++;
}

/* Add the copies in the folders of pip and CUDA, whether or not a program would load them. */
static void add_others(struct st_doctor *doctor)
{
    static const char *const pattern[] = {
        "/usr/lib/python3*/dist-packages/nvidia/nccl*/lib/libnccl.so.2",
        "/usr/local/lib/python3*/*-packages/nvidia/nccl*/lib/libnccl.so.2",
        "/opt/*/lib/python3*/site-packages/nvidia/nccl*/lib/libnccl.so.2",
        "/usr/local/cuda/lib64/libnccl.so.2"};
    static const char *const prefix[] = {"VIRTUAL_ENV", "CONDA_PREFIX", "HOME"};
    char path[ST_PATH], other[ST_PATH];

    for (int p = 0; p < 3; p++) {
        const char *folder = getenv(prefix[p]);

        if (folder && *folder) {
            snprintf(other, sizeof other,
                     "%.800s%s/lib/python3*/site-packages/nvidia/nccl*/lib/libnccl.so.2", folder,
                     p == 2 ? "/.local" : "");
            for (int i = 0; st_doctor_glob(doctor, other, i, path); i++)
                st_doctor_copy(doctor, path);
        }
    }
    for (size_t p = 0; p < sizeof pattern / sizeof *pattern; p++)
        for (int i = 0; st_doctor_glob(doctor, pattern[p], i, path); i++)
            st_doctor_copy(doctor, path);
}

/* Add ${copy} to judged[], the list of copies to check, unless the list has a copy of the same
 * release: what the doctor finds out about a copy depends almost only on its release. */
static void judge(struct st_doctor *doctor, int copy)
{
    for (int i = 0; i < doctor->judgeds; i++)
        if (doctor->copy[doctor->judged[i]].nccl == doctor->copy[copy].nccl)
            return;
    doctor->judged[doctor->judgeds++] = copy;
}

void st_doctor_copies(struct st_doctor *doctor, int release, const char *file)
{
    char path[ST_PATH];
    int loaders = -1; /* the copy that the loader finds */

    if (file)
        st_doctor_copy(doctor, file);
    else if (!release)
        st_doctor_python(doctor);
    if (st_doctor_find_library(doctor, "libnccl.so.2", path))
        loaders = st_doctor_copy(doctor, path);
    add_others(doctor);
    for (int i = 0; i < doctor->frameworks; i++)
        if (doctor->framework[i].copy >= 0)
            judge(doctor, doctor->framework[i].copy);
    /* python3 may have a package with NCCL, but neither jax nor torch */
    if (!file && !release && doctor->judgeds == 0 && loaders >= 0)
        judge(doctor, loaders);
    for (int i = 0; i < doctor->copies && doctor->judgeds == 0; i++)
        if (!release || doctor->copy[i].nccl == release)
            judge(doctor, i);
    doctor->nccl = release ? release : 22809;
    doctor->nccl_assumed = !release && doctor->judgeds == 0;
    doctor->used = -1;
    st_doctor_use(doctor, 0);
}

void st_doctor_use(struct st_doctor *doctor, int index)
{
    if (index >= doctor->judgeds)
        return;
    doctor->used = doctor->judged[index];
    doctor->nccl = doctor->copy[doctor->used].nccl;
}

void st_doctor_find_nccl(struct st_doctor *doctor)
{
    st_doctor_dirs(doctor);
    st_doctor_preloads(doctor);
    st_doctor_copies(doctor, 0, NULL);
}

/* Does ${framework} contain its copy of NCCL? Then the copy's file is no libnccl.so.2. */
static bool linked_in(const struct st_framework *framework, const struct st_copy *copy)
{
    return strcmp(framework->file, copy->path) == 0;
}

int st_doctor_loadable(const struct st_doctor *doctor)
{
    for (int j = 0; j < doctor->judgeds; j++) {
        const struct st_copy *copy = &doctor->copy[doctor->judged[j]];
        bool loadable = true;

        for (int i = 0; i < doctor->frameworks; i++)
            loadable &= !linked_in(&doctor->framework[i], copy);
        if (loadable)
            return doctor->judged[j];
    }
    return -1;
}

char *st_doctor_copy_text(const struct st_doctor *doctor, int index, char text[ST_COPY_TEXT])
{
    const struct st_copy *copy = &doctor->copy[index];
    char release[16];
    size_t at = st_text_add(text, ST_COPY_TEXT, 0, "NCCL %s",
                            st_release_print(copy->nccl, release, sizeof release));
    int n = 0;

    for (int i = 0; i < doctor->frameworks; i++)
        if (doctor->framework[i].copy == index)
            at = st_text_add(text, ST_COPY_TEXT, at, "%s%s", n++ ? " and " : " of ",
                             doctor->framework[i].name);
    st_text_add(text, ST_COPY_TEXT, at, " (%s)", copy->path);
    return text;
}

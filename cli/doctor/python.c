/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python.c - finds the NCCL that jax and torch of this python3 would load.
 *
 * python3 runs a script that prints where its packages are; the script imports neither jax nor
 * torch. Each of jax and torch has one library that calls NCCL. python.c reads this library without
 * loading it, and looks for its NCCL in the order in which the dynamic loader would:
 *
 *   LD_PRELOAD     an NCCL that is preloaded serves every later request for libnccl.so.2
 *   by its path    jax loads the file of the package nvidia-nccl-cu* before its own library
 *   linked in      a torch that does not need libnccl.so.2 has NCCL inside
 *   RPATH, LD_LIBRARY_PATH, RUNPATH, ld.so.conf and the system's folders
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/child.h"
#include "cli/doctor/doctor.h"
#include "cli/text.h"

enum { PYTHON_LIMIT_S = 5 };

/* The script that prints where packages are. It removes the entry "" from sys.path: python3 -c adds
 * this entry, but the user's program does not have it. Without PATH, sys.executable is empty. */
static const char script[] =
    "import sys, os, glob\n"
    "sys.path[:] = [p for p in sys.path if p]\n"
    "from importlib import util, metadata\n"
    "def say(*words):\n"
    "    print('\\t'.join(words))\n"
    "def folders(name):\n"
    "    try:\n"
    "        spec = util.find_spec(name)\n"
    "        return list(spec.submodule_search_locations or [])\n"
    "    except Exception:\n"
    "        return []\n"
    "say('python', '%d.%d.%d' % sys.version_info[:3],\n"
    "    sys.executable or os.path.realpath('/proc/self/exe'))\n"
    "for cuda in 11, 12, 13, 14:\n"
    "    try:\n"
    "        one = metadata.distribution('nvidia-nccl-cu%d' % cuda)\n"
    "        say('package', 'nvidia-nccl-cu%d %s' % (cuda, one.version),\n"
    "            str(one.locate_file('nvidia/nccl/lib/libnccl.so.2')))\n"
    "    except Exception:\n"
    "        pass\n"
    "for folder in [f for f in folders('nvidia') if os.path.isdir(f + '/nccl')][:1]:\n"
    "    say('nccl', folder + '/nccl/lib/libnccl.so.2')\n"
    "for folder in folders('jax_plugins'):\n"
    "    for file in sorted(glob.glob(folder + '/xla_cuda*/xla_cuda_plugin.so')):\n"
    "        say('jax', file)\n"
    "for folder in folders('torch'):\n"
    "    for file in folder + '/lib/libtorch_cuda.so', sys.prefix + '/lib/libtorch_cuda.so':\n"
    "        if os.path.exists(file):\n"
    "            say('torch', file)\n"
    "            break\n";

/* What python3 printed: the lines not read yet, and the words of the current line. */
struct answer {
    char *line, *rest;
    char *word[3];
};

static bool next_line(struct answer *answer)
{
    while ((answer->line = strsep(&answer->rest, "\n"))) {
        for (int i = 0; i < 3; i++)
            answer->word[i] = strsep(&answer->line, "\t");
        if (answer->word[1])
            return true;
    }
    return false;
}

/* Return ${path} without the root folder, or NULL if it lies outside of the root. */
static const char *under_root(const struct st_doctor *doctor, const char *path)
{
    size_t n = strlen(doctor->root);

    return strncmp(path, doctor->root, n) == 0 && path[n] == '/' ? path + n : NULL;
}

/* If ${path} contains "..", replace its folder by the folder's real path. The file's own name is
 * kept, even if the file is a link. */
static void shorten(const struct st_doctor *doctor, char path[ST_PATH])
{
    char full[ST_PATH], real[PATH_MAX], root[PATH_MAX] = "", *name;
    size_t n;

    if (!strstr(path, "..") || !st_doctor_path(doctor, path, full) || !(name = strrchr(full, '/')))
        return;
    *name++ = '\0';
    if (!realpath(full, real) || (doctor->root[0] && !realpath(doctor->root, root)))
        return;
    n = strlen(root);
    if (strncmp(real, root, n) == 0 && strlen(real + n) + strlen(name) + 2 < ST_PATH)
        snprintf(path, ST_PATH, "%.700s/%.200s", real + n, name);
}

/* Return the index in copy[] of the libnccl.so.2 in ${folder}, or -1 if the folder has none. */
static int look_in(struct st_doctor *doctor, const char *folder)
{
    char path[ST_PATH];

    if (snprintf(path, sizeof path, "%s/libnccl.so.2", folder) >= ST_PATH)
        return -1;
    shorten(doctor, path);
    return st_doctor_copy(doctor, path);
}

/* Look for libnccl.so.2 in the folders of ${list}, the RPATH or RUNPATH of ${file}; $ORIGIN means
 * the folder of ${file}. Returns an index into copy[], or -1. */
static int look_in_path(struct st_doctor *doctor, const char *file, const char *list)
{
    int origin = (int)(strrchr(file, '/') - file), copy = -1;
    char folder[ST_PATH];

    while (*list && copy < 0) {
        int n = (int)strcspn(list, ":");
        int skip = strncmp(list, "$ORIGIN", 7) == 0     ? 7
                   : strncmp(list, "${ORIGIN}", 9) == 0 ? 9
                                                        : 0;

        if (snprintf(folder, sizeof folder, "%.*s%.*s", skip ? origin : 0, file, n - skip,
                     list + skip) < ST_PATH && folder[0] == '/')
            copy = look_in(doctor, folder);
        list += n + (list[n] == ':');
    }
    return copy;
}

static int look_in_dirs(struct st_doctor *doctor, int from, int to)
{
    int copy = -1;

    for (int i = from; i < to && copy < 0; i++)
        copy = look_in(doctor, doctor->dir[i]);
    return copy;
}

static int preloaded(struct st_doctor *doctor)
{
    int copy = -1;

    for (int i = 0; i < doctor->preloads && copy < 0; i++)
        if (doctor->preload[i].path[0])
            copy = st_doctor_copy(doctor, doctor->preload[i].path);
    return copy;
}

/* Find the NCCL that the framework ${one} loads, and set its members ${copy} and ${how}. ${package}
 * is the file that the framework loads by its path, or NULL if it loads no file in this way. */
static void resolve(struct st_doctor *doctor, struct st_framework *one, const char *package)
{
    struct st_elf_search search;

    one->how = "LD_PRELOAD";
    if ((one->copy = preloaded(doctor)) >= 0)
        return;
    one->how = "by its path";
    if (package && (one->copy = st_doctor_copy(doctor, package)) >= 0)
        return;
    st_elf_look_search(doctor, one->file, &search);
    one->how = "linked in";
    if (!search.needs_nccl && (one->copy = st_doctor_copy(doctor, one->file)) >= 0)
        return;
    one->how = "RPATH";
    if (!search.runpath && (one->copy = look_in_path(doctor, one->file, search.path)) >= 0)
        return;
    one->how = "LD_LIBRARY_PATH";
    if ((one->copy = look_in_dirs(doctor, 0, doctor->dirs_configured)) >= 0)
        return;
    one->how = "RUNPATH";
    if (search.runpath && (one->copy = look_in_path(doctor, one->file, search.path)) >= 0)
        return;
    one->how = "the loader's folders";
    one->copy = look_in_dirs(doctor, doctor->dirs_configured, doctor->dirs);
}

static void add_framework(struct st_doctor *doctor, const char *name, const char *file,
                          const char *package)
{
    struct st_framework *one = &doctor->framework[doctor->frameworks];

    if (doctor->frameworks == ST_FRAMEWORKS_MAX || strlen(file) >= sizeof one->file)
        return;
    one->name = name;
    strcpy(one->file, file);
    resolve(doctor, one, package);
    for (int i = 0; i < doctor->frameworks; i++)
        if (doctor->framework[i].name == name && doctor->framework[i].copy == one->copy)
            return; /* jax may have libraries for CUDA 12 and 13: list jax once for each NCCL */
    doctor->frameworks++;
}

static void name_package(struct st_doctor *doctor, const char *package, const char *file)
{
    int copy = st_doctor_copy(doctor, file);
    char *text = copy < 0 ? NULL : doctor->copy[copy].package;

    if (text)
        st_text_add(text, sizeof doctor->copy->package, strlen(text), "%s%s", *text ? ", " : "",
                    package);
}

/* Read what python3 printed, in three passes, because each pass needs the results of the one
 * before. The first pass finds the file of the NCCL package. The second pass finds the frameworks
 * and adds their copies of NCCL. The third pass gives these copies the names of their packages. */
static void read_answer(struct st_doctor *doctor, const char *output)
{
    char package[ST_PATH] = "";

    for (int pass = 0; pass < 3; pass++) {
        char *text = strdup(output);
        struct answer answer = {.rest = text};

        while (text && next_line(&answer)) {
            const char *word = answer.word[0], *path = under_root(doctor, answer.word[1]);

            if (pass == 0 && strcmp(word, "python") == 0)
                snprintf(doctor->python, sizeof doctor->python, "%.20s%s%.900s", answer.word[1],
                         answer.word[2] && *answer.word[2] ? ", " : "",
                         answer.word[2] ? answer.word[2] : "");
            else if (pass == 0 && strcmp(word, "nccl") == 0 && path)
                snprintf(package, sizeof package, "%s", path);
            else if (pass == 1 && strcmp(word, "jax") == 0 && path)
                add_framework(doctor, "jax", path, package[0] ? package : NULL);
            else if (pass == 1 && strcmp(word, "torch") == 0 && path)
                add_framework(doctor, "torch", path, NULL);
            else if (pass == 2 && strcmp(word, "package") == 0 && answer.word[2] &&
                     (path = under_root(doctor, answer.word[2])))
                name_package(doctor, answer.word[1], path);
        }
        free(text);
    }
}

/* Return the last line of a traceback, which says what went wrong. */
static const char *last_line(char *text)
{
    size_t n = strlen(text);
    char *line;

    while (n && text[n - 1] == '\n')
        text[--n] = '\0';
    line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

void st_doctor_python(struct st_doctor *doctor)
{
    const char *arguments[] = {"-B", "-c", script, NULL};
    struct st_child child = {.program = "python3", .arguments = arguments,
                             .limit_s = PYTHON_LIMIT_S};
    enum st_child_end end = st_child_run(&child);
    char text[160];

    if (end == ST_CHILD_DONE && child.output) {
        read_answer(doctor, child.output);
    } else if (end == ST_CHILD_TIMEOUT) {
        snprintf(text, sizeof text, "what jax and torch load (python3 gave no answer within %d s)",
                 PYTHON_LIMIT_S);
        st_doctor_unchecked(doctor, text);
    } else if (child.status == ST_CHILD_NOT_FOUND) {
        st_doctor_unchecked(doctor, "what jax and torch load (there is no python3 in PATH)");
    } else {
        snprintf(text, sizeof text, "what jax and torch load (python3 fails: %.90s)",
                 last_line(child.error));
        st_doctor_unchecked(doctor, text);
    }
    free(child.output);
}

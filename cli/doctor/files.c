/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - reads files of the box under a root folder, which is "" except in tests. */
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"

bool st_doctor_path(const struct st_doctor *doctor, const char *path, char full[ST_PATH])
{
    bool slash = path[0] == '/' || doctor->root[0] == '\0';

    return (size_t)snprintf(full, ST_PATH, "%s%s%s", doctor->root, slash ? "" : "/", path) <
           ST_PATH;
}

long st_doctor_read(const struct st_doctor *doctor, const char *path, char *text, size_t size)
{
    char full[ST_PATH];
    size_t done = 0;
    int fd;

    /* O_NONBLOCK: a named pipe in place of a file must not make the doctor wait */
    if (!st_doctor_path(doctor, path, full) ||
        (fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
        return -1;
    while (done + 1 < size) {
        ssize_t n = read(fd, text + done, size - 1 - done);

        if (n < 0 && done == 0) {
            close(fd);
            return -1;
        }
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    close(fd);
    text[done] = '\0';
    return (long)done;
}

bool st_doctor_exists(const struct st_doctor *doctor, const char *path)
{
    char full[ST_PATH];

    return st_doctor_path(doctor, path, full) && access(full, F_OK) == 0;
}

bool st_doctor_glob(const struct st_doctor *doctor, const char *pattern, int index,
                    char out[ST_PATH])
{
    static char last[ST_PATH]; /* the pattern whose matches are in ${found} */
    static glob_t found;
    char full[ST_PATH];

    if (!st_doctor_path(doctor, pattern, full))
        return false;
    if (index == 0 || strcmp(full, last) != 0) {
        if (last[0])
            globfree(&found);
        found = (glob_t){.gl_pathc = 0};
        snprintf(last, sizeof last, "%s", full);
        glob(full, 0, NULL, &found);
    }
    return (size_t)index < found.gl_pathc &&
           (size_t)snprintf(out, ST_PATH, "%s", found.gl_pathv[index] + strlen(doctor->root)) <
               ST_PATH;
}

void st_doctor_unchecked(struct st_doctor *doctor, const char *what)
{
    enum { ROOM = sizeof doctor->unchecked / sizeof *doctor->unchecked };

    if (doctor->uncheckeds < ROOM)
        snprintf(doctor->unchecked[doctor->uncheckeds++], sizeof *doctor->unchecked, "%s", what);
}

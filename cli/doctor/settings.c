/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - collects the variables that NCCL sees, from the environment and from its conf files.
 *
 * NCCL first reads the file that NCCL_CONF_FILE names or, if that variable is not set,
 * ~/.nccl.conf. Then it reads /etc/nccl.conf. It never replaces a variable that is already set.
 * From release HOME_AND_CR on, NCCL looks for ~/.nccl.conf in the folder that the variable HOME
 * names, and drops a carriage return at the end of a line. Older releases look in the home folder
 * of the password database, and keep the carriage return.
 */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"

extern char **environ;

enum { HOME_AND_CR = 23003 };

/* Is the NCCL that is checked of release HOME_AND_CR or later? If its release is not known yet,
 * assume that it is. */
static bool newer(const struct st_doctor *doctor)
{
    return doctor->nccl == 0 || doctor->nccl >= HOME_AND_CR;
}

const struct st_setting *st_doctor_get(const struct st_doctor *doctor, const char *name)
{
    for (int i = 0; i < doctor->settings; i++)
        if (strcmp(doctor->setting[i].name, name) == 0)
            return &doctor->setting[i];
    return NULL;
}

/* Add a variable, unless it is already there. Its name is the first ${length} bytes of ${name}. */
static void add(struct st_doctor *doctor, const char *name, size_t length, const char *value,
                const char *origin)
{
    struct st_setting *setting = &doctor->setting[doctor->settings];

    if (doctor->settings == ST_SETTINGS_MAX || length >= sizeof setting->name)
        return;
    memcpy(setting->name, name, length);
    setting->name[length] = '\0';
    if (st_doctor_get(doctor, setting->name) || !(setting->value = strdup(value)))
        return;
    snprintf(setting->origin, sizeof setting->origin, "%s", origin);
    doctor->settings++;
}

/* Return why NCCL skips a line of a conf file, or reads it differently from what its writer meant.
 * Returns NULL if the line has no fault. */
static const char *fault_of(const char *line)
{
    size_t name = strcspn(line, "="), length = strlen(line);

    if (line[0] == '#' || line[0] == '\0')
        return NULL;
    if (strncmp(line, "\357\273\277", 3) == 0)
        return "the file begins with a byte order mark, which becomes part of the name";
    if (strchr(line, '\r'))
        return "a carriage return becomes part of the value";
    if (line[name] != '=')
        return strspn(line, " \t") == strlen(line) ? NULL : "no \"=\", so NCCL skips the line";
    if (strncmp(line, "export ", 7) == 0)
        return "this is not a shell script: \"export\" becomes part of the name";
    if (strcspn(line, " \t") < name || line[name + 1] == ' ' || strchr(" \t", line[length - 1]))
        return "spaces become part of the name or of the value";
    if (line[name + 1] == '"' || line[name + 1] == '\'')
        return "the quotes become part of the value";
    if (strstr(line + name, " #"))
        return "the comment becomes part of the value";
    return NULL;
}

static void read_line(struct st_doctor *doctor, const char *path, int number, char *line)
{
    const struct st_setting *earlier;
    const char *fault = fault_of(line);
    char *value = strchr(line, '='), origin[300];

    if (fault && !doctor->conf_fault[0])
        snprintf(doctor->conf_fault, sizeof doctor->conf_fault, "%.300s:%d: \"%.60s\": %s", path,
                 number, line, fault);
    if (line[0] == '#' || !value)
        return;
    *value++ = '\0';
    earlier = st_doctor_get(doctor, line);
    if (earlier && strcmp(earlier->value, value) != 0 && !doctor->conf_overridden[0])
        snprintf(doctor->conf_overridden, sizeof doctor->conf_overridden,
                 "%s=%.100s (%s) wins over %.200s:%d: %.60s", line, earlier->value, earlier->origin,
                 path, number, value);
    snprintf(origin, sizeof origin, "%.280s:%d", path, number);
    add(doctor, line, strlen(line), value, origin);
}

static bool read_conf(struct st_doctor *doctor, const char *path)
{
    static char text[65536];
    char *line, *rest = text;

    if (st_doctor_read(doctor, path, text, sizeof text) < 0)
        return false;
    snprintf(doctor->conf[doctor->confs++], ST_PATH, "%s", path);
    for (int number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
        size_t length = strlen(line);

        if (length > 0 && line[length - 1] == '\r' && newer(doctor))
            line[length - 1] = '\0';
        read_line(doctor, path, number, line);
    }
    return true;
}

/* Write the path of ~/.nccl.conf to ${path}. Returns false if NCCL knows no home folder. */
static bool home_conf(const struct st_doctor *doctor, char path[ST_PATH])
{
    const struct passwd *entry = NULL;
    const char *home = getenv("HOME");
    FILE *file = NULL;

    if (!newer(doctor)) {
        if (!doctor->root[0])
            entry = getpwuid(getuid());
        else if (st_doctor_path(doctor, "/etc/passwd", path) && (file = fopen(path, "re")))
            while ((entry = fgetpwent(file)) && entry->pw_uid != getuid())
                ;
        home = entry ? entry->pw_dir : NULL;
    }
    if (home)
        snprintf(path, ST_PATH, "%.1000s/.nccl.conf", home);
    if (file)
        fclose(file);
    return home != NULL;
}

void st_doctor_settings(struct st_doctor *doctor)
{
    const struct st_setting *file;
    char path[ST_PATH];

    while (doctor->settings > 0)
        free(doctor->setting[--doctor->settings].value);
    doctor->confs = 0;
    doctor->conf_missing[0] = doctor->conf_fault[0] = doctor->conf_overridden[0] = '\0';
    for (char **at = environ; *at; at++) {
        const char *equals = strchr(*at, '=');

        if (equals && (strncmp(*at, "NCCL_", 5) == 0 || strncmp(*at, "SYMTUNER_", 9) == 0 ||
                       strncmp(*at, "CUDA_", 5) == 0 || strncmp(*at, "XLA_FLAGS=", 10) == 0))
            add(doctor, *at, (size_t)(equals - *at), equals + 1, "environment");
    }
    file = st_doctor_get(doctor, "NCCL_CONF_FILE");
    if (file && file->value[0]) {
        if (!read_conf(doctor, file->value)) /* the file is missing, unreadable or a folder */
            snprintf(doctor->conf_missing, sizeof doctor->conf_missing,
                     "NCCL_CONF_FILE=%s: cannot be read; ~/.nccl.conf is not read either",
                     file->value);
    } else if (home_conf(doctor, path)) {
        read_conf(doctor, path);
    }
    read_conf(doctor, "/etc/nccl.conf");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - the variables that NCCL sees, from the environment and from its conf files.
 *
 * NCCL reads the file of NCCL_CONF_FILE, or else ~/.nccl.conf, then /etc/nccl.conf; a variable that
 * is already there is never replaced.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/doctor.h"

extern char **environ;

const struct st_setting *st_doctor_get(const struct st_doctor *doctor, const char *name)
{
    for (int i = 0; i < doctor->settings; i++)
        if (strcmp(doctor->setting[i].name, name) == 0)
            return &doctor->setting[i];
    return NULL;
}

/* ${length} bytes of name. The first one to set a variable wins. */
static void add(struct st_doctor *doctor, const char *name, size_t length, const char *value,
                const char *origin)
{
    struct st_setting *setting = &doctor->setting[doctor->settings];

    if (doctor->settings == ST_SETTINGS_MAX || length >= sizeof setting->name)
        return;
    memcpy(setting->name, name, length);
    setting->name[length] = '\0';
    if (st_doctor_get(doctor, setting->name))
        return;
    snprintf(setting->value, sizeof setting->value, "%s", value);
    snprintf(setting->origin, sizeof setting->origin, "%s", origin);
    doctor->settings++;
}

static bool read_conf(struct st_doctor *doctor, const char *path)
{
    static char text[65536];
    char *line = text, origin[300];

    if (st_doctor_read(doctor, path, text, sizeof text) < 0)
        return false;
    snprintf(doctor->conf[doctor->confs++], ST_PATH, "%s", path);
    for (int number = 1; line; number++) {
        char *next = strchr(line, '\n'), *equals;

        if (next)
            *next++ = '\0';
        equals = strchr(line, '=');
        if (line[0] != '#' && equals) {
            snprintf(origin, sizeof origin, "%.280s:%d", path, number);
            add(doctor, line, (size_t)(equals - line), equals + 1, origin);
        }
        line = next;
    }
    return true;
}

void st_doctor_settings(struct st_doctor *doctor)
{
    const struct st_setting *file;
    const char *home = getenv("HOME");
    char path[ST_PATH];

    for (char **at = environ; *at; at++) {
        const char *equals = strchr(*at, '=');

        if (equals && (strncmp(*at, "NCCL_", 5) == 0 || strncmp(*at, "SYMTUNER_", 9) == 0 ||
                       strncmp(*at, "CUDA_", 5) == 0 || strncmp(*at, "XLA_FLAGS=", 10) == 0 ||
                       strncmp(*at, "LD_LIBRARY_PATH=", 16) == 0))
            add(doctor, *at, (size_t)(equals - *at), equals + 1, "environment");
    }
    file = st_doctor_get(doctor, "NCCL_CONF_FILE");
    if (file && file->value[0]) {
        if (!read_conf(doctor, file->value)) /* not there, unreadable, a folder */
            snprintf(doctor->conf_missing, sizeof doctor->conf_missing, "%s", file->value);
    } else if (home) {
        snprintf(path, sizeof path, "%.1000s/.nccl.conf", home);
        read_conf(doctor, path);
    }
    read_conf(doctor, "/etc/nccl.conf");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/machines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/text.h"
#include "nccl/model/machines.h"
#include "nccl/names.h"

/* Set ${error} to "unknown machine ...", with the nearest name and all names. Returns false, so
 * that the caller can write "return unknown(...)". */
static bool unknown(const char *value, char error[ST_OPTION_ERROR])
{
    const char *name[32];
    struct st_words words = {name, 0};
    const struct st_machine *machine;
    const char *nearest;
    size_t at;

    while (words.count < 32 && (machine = st_machine_get(words.count)) != NULL)
        name[words.count++] = machine->name;
    nearest = st_word_nearest(&words, value, strlen(value));
    at = st_text_add(error, ST_OPTION_ERROR, 0, "unknown machine \"%.60s\"%s%s%s there are", value,
                     nearest ? "; did you mean " : ";", nearest ? nearest : "", nearest ? "?" : "");
    for (int i = 0; i < words.count; i++)
        at = st_text_add(error, ST_OPTION_ERROR, at, "%s %s", i ? "," : "", name[i]);
    return false;
}

static int list(void)
{
    const struct st_machine *machine;

    for (int i = 0; (machine = st_machine_get(i)) != NULL; i++)
        printf("%-20s %s\n", machine->name, machine->text);
    return ST_EXIT_FINE;
}

static bool read_machine(const char *word, struct symtuner_machine *machine, int *gpus, char *error)
{
    const struct st_machine *named = st_machine_named(word);

    if (named) {
        *machine = (struct symtuner_machine){
            .arch = named->arch, .nvlink = named->nvlink, .multicast = named->multicast,
            .gpus = named->gpus};
        snprintf(machine->gpu, sizeof machine->gpu, "%s", named->gpu);
        *gpus = named->gpus;
        return true;
    }
    if (!strchr(word, '='))
        return unknown(word, error);
    setenv("SYMTUNER_MACHINE", word, 1);
    return symtuner_machine_find(machine) ||
           st_option_wrong(error,
                           "--machine wants a name such as h200x8, or a text such as \"gpu=NVIDIA "
                           "H200; links=nvlink; multicast=no\"",
                           word);
}

int st_machine_start(const char *command, const char *word, struct symtuner_machine *machine,
                     int *gpus)
{
    char error[ST_OPTION_ERROR];

    *gpus = 0;
    if (!word) {
        st_machine_here(machine);
        return -1;
    }
    if (strcmp(word, "list") == 0)
        return list();
    if (read_machine(word, machine, gpus, error))
        return -1;
    return st_fail(ST_EXIT_USAGE, "symtuner %s: %s\n", command, error);
}

int st_machine_here(struct symtuner_machine *machine_out)
{
    const char *described = getenv("SYMTUNER_MACHINE");
    int known = symtuner_machine_find(machine_out);

    if (!known && described && *described)
        fprintf(stderr,
                "symtuner: SYMTUNER_MACHINE=%.200s is not understood, so the machine counts as "
                "unknown; write for example \"gpu=NVIDIA H200; links=nvlink; multicast=no\"\n",
                described);
    return known;
}

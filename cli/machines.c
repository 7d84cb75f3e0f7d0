/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines.c - the machines of the recorded corpus, and the NCCL settings that change a verdict.
 */
#include "cli/machines.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "nccl/names.h"

/* peer_nccl is what NCCL 2.27 asks for: its own P2P transport between all pairs. It is narrower
 * than the driver's peer access: four L40S under two switches have the one and not the other. */
static const struct st_machine machines[] = {
    {"h200x2", "2 x H200, NVLink", "NVIDIA H200", 90, 2, 1, 1, 1, 1},
    {"h200x4", "4 x H200, NVSwitch", "NVIDIA H200", 90, 4, 1, 1, 1, 1},
    {"h200x8", "8 x H200, NVSwitch", "NVIDIA H200", 90, 8, 1, 1, 1, 1},
    {"b200x8", "8 x B200, NVSwitch", "NVIDIA B200", 100, 8, 1, 1, 1, 1},
    {"a100pciex2", "2 x A100 PCIe, no NVLink", "NVIDIA A100 80GB PCIe", 80, 2, 0, 1, 1, 0},
    {"l40sx4", "4 x L40S, PCIe, two switches", "NVIDIA L40S", 89, 4, 0, 1, 0, 0},
    {"rtxpro6000x2", "2 x RTX PRO 6000, PCIe, one socket",
     "NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 2, 0, 1, 1, 0},
    {"rtxpro6000x2-nop2p", "the same, peer access off in the driver",
     "NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 2, 0, 0, 0, 0},
    {"rtxpro6000x4", "4 x RTX PRO 6000, PCIe, one socket",
     "NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 4, 0, 1, 1, 0},
};

const struct st_machine *st_machine_get(int index)
{
    return index >= 0 && index < (int)(sizeof machines / sizeof *machines) ? &machines[index]
                                                                            : NULL;
}

const struct st_machine *st_machine_named(const char *name)
{
    const struct st_machine *machine;

    for (int i = 0; (machine = st_machine_get(i)) != NULL; i++)
        if (strcmp(machine->name, name) == 0)
            return machine;
    return NULL;
}

const struct st_machine *st_machine_of_gpu(const char *gpu)
{
    const struct st_machine *machine;

    for (int i = 0; (machine = st_machine_get(i)) != NULL; i++)
        if (strcmp(machine->gpu, gpu) == 0)
            return machine;
    return NULL;
}

bool st_machine_unknown(const char *value, char error[ST_OPTION_ERROR])
{
    const char *name[sizeof machines / sizeof *machines];
    struct st_words words = {name, (int)(sizeof machines / sizeof *machines)};
    const char *nearest;
    size_t at;

    for (int i = 0; i < words.count; i++)
        name[i] = machines[i].name;
    nearest = st_word_nearest(&words, value, strlen(value));
    at = st_text_add(error, ST_OPTION_ERROR, 0, "unknown machine \"%.60s\"%s%s%s there are", value,
                     nearest ? "; did you mean " : ";", nearest ? nearest : "", nearest ? "?" : "");
    for (int i = 0; i < words.count; i++)
        at = st_text_add(error, ST_OPTION_ERROR, at, "%s %s", i ? "," : "", name[i]);
    return false;
}

int st_machine_list(void)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        printf("%-20s %s\n", machines[i].name, machines[i].text);
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
        return st_machine_unknown(word, error);
    setenv("SYMTUNER_MACHINE", word, 1);
    return symtuner_machine_find(machine) ||
           st_option_wrong(error,
                           "--machine wants a name such as h200x8, or such as \"gpu=NVIDIA "
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
        return st_machine_list();
    if (read_machine(word, machine, gpus, error))
        return -1;
    fprintf(stderr, "symtuner %s: %s\n", command, error);
    return ST_EXIT_USAGE;
}

int st_machine_here(struct symtuner_machine *machine_out)
{
    const char *described = getenv("SYMTUNER_MACHINE");
    int known = symtuner_machine_find(machine_out);

    if (!known && described && *described)
        fprintf(stderr,
                "symtuner: SYMTUNER_MACHINE=%.200s is not understood, the machine counts as "
                "unknown; write such as \"gpu=NVIDIA H200; links=nvlink; multicast=no\"\n",
                described);
    return known;
}

void st_machine_apply(const struct st_machine *machine, struct symtuner_call *call)
{
    call->arch = machine->arch;
    call->ranks = machine->gpus;
    call->nvlink = machine->nvlink;
    call->peer_raw = machine->peer_raw;
    call->peer_nccl = machine->peer_nccl;
    call->multicast = machine->multicast;
}

enum how { NUMBER, COUNT64, TEXT, ALGOS, PROTOS, CTAS, POLICY, OFF_MULTICAST, OFF_PEER, CUMEM };

#define AT(member) offsetof(struct symtuner_call, member)
static const struct {
    const char *name;
    enum how how;
    size_t at;
} settings[] = {
    {"NCCL_ALGO", ALGOS, AT(algo)},
    {"NCCL_CTA_POLICY", POLICY, AT(cta_policy)},
    {"NCCL_CUMEM_ENABLE", CUMEM, AT(cumem_enable)},
    {"NCCL_MAX_CTAS", CTAS, AT(max_ctas)},
    {"NCCL_MIN_CTAS", CTAS, AT(min_ctas)},
    {"NCCL_NVLS_ENABLE", OFF_MULTICAST, AT(multicast)},
    {"NCCL_P2P_DISABLE", OFF_PEER, AT(peer_nccl)},
    {"NCCL_PROTO", PROTOS, AT(proto)},
    {"NCCL_SINGLE_PROC_MEM_REG_ENABLE", NUMBER, AT(proc_reg)},
    {"NCCL_SYM_CE_THRESHOLD", COUNT64, AT(ce_threshold)},
    {"NCCL_SYM_CTAS", NUMBER, AT(sym_ctas)},
    {"NCCL_SYM_KERNEL", TEXT, AT(sym_kernel)},
    {"NCCL_SYM_NOWIN_ENABLE", NUMBER, AT(sym_nowin)},
    {"NCCL_SYM_TMA_ENABLE", NUMBER, AT(sym_tma)},
    {"NCCL_WIN_ENABLE", NUMBER, AT(win_enable)},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

const char *st_setting_name(int index)
{
    return index >= 0 && index < SETTINGS ? settings[index].name : NULL;
}

static int unknown_setting(const char *name, size_t len, char *error, size_t size)
{
    const char *word[SETTINGS];
    struct st_words words = {word, SETTINGS};
    const char *nearest;

    for (int i = 0; i < SETTINGS; i++)
        word[i] = settings[i].name;
    nearest = st_word_nearest(&words, name, len);
    snprintf(error, size, "\"%.*s\" is no setting that changes the verdict%s%s%s", (int)len, name,
             nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    return -1;
}

/* NCCL lifts and caps the two CTA bounds: at most 64, the lower never above the upper. */
static void set_ctas(struct symtuner_call *call, size_t at, long long value)
{
    int *bound = (int *)((char *)call + at);

    if (value > 0)
        *bound = value > 64 ? 64 : (int)value;
    if (call->min_ctas > call->max_ctas)
        call->min_ctas = call->max_ctas;
}

/* "ZERO", "EFFICIENCY|ZERO": names that NCCL takes from 2.29 on. False when a word is none. */
static int read_policy(const char *text, int *policy_out)
{
    static const char *const word[] = {"DEFAULT", "EFFICIENCY", "ZERO"};
    const struct st_words words = {word, 3};

    for (*policy_out = 0; *text; text += *text == '|') {
        size_t len = strcspn(text, "|");
        int found = st_word_find(&words, text, len);

        if (found < 0)
            return 0;
        *policy_out |= found;
        text += len;
    }
    return 1;
}

/* "[func:][^]word,word;func:...", as NCCL reads NCCL_ALGO and NCCL_PROTO. The first wrong word,
 * with its length, or NULL: with a wrong one NCCL creates no communicator. */
static const char *wrong_in_list(const char *list, const struct st_words *words, size_t *len_out)
{
    while (*list) {
        size_t part = strcspn(list, ";"), colon = strcspn(list, ":;");
        const char *end = list + part, *at = list;

        if (colon < part) {
            *len_out = colon;
            if (st_word_find(&st_colls, list, colon) < 0)
                return list;
            at += colon + 1;
        }
        for (at += *at == '^'; at < end; at += at < end && *at == ',') {
            *len_out = strcspn(at, ",;");
            if (st_word_find(words, at, *len_out) < 0)
                return at;
            at += *len_out;
        }
        list = end + (*end == ';');
    }
    return NULL;
}

int st_setting_apply(struct symtuner_call *call, const char *setting, char *error, size_t size)
{
    size_t len = strcspn(setting, "=");
    const char *value = setting[len] ? setting + len + 1 : NULL;
    long long number;
    char *end;
    int i = 0;

    while (i < SETTINGS &&
           (strlen(settings[i].name) != len || memcmp(settings[i].name, setting, len) != 0))
        i++;
    if (i == SETTINGS)
        return unknown_setting(setting, len, error, size);
    if (!value) {
        snprintf(error, size, "\"%s\" has no value; write NAME=VALUE", setting);
        return -1;
    }
    if (settings[i].how == ALGOS || settings[i].how == PROTOS) {
        const char *wrong = wrong_in_list(value, settings[i].how == ALGOS ? &st_algos : &st_protos,
                                          &len);

        if (wrong) {
            snprintf(error, size, "\"%.*s\" in %s: NCCL does not know it and creates no "
                     "communicator", (int)len, wrong, setting);
            return -1;
        }
    }
    if (settings[i].how <= PROTOS && settings[i].how >= TEXT) {
        *(const char **)((char *)call + settings[i].at) = *value ? value : NULL;
        return 0;
    }
    if (settings[i].how == POLICY && !isdigit((unsigned char)*value)) {
        if (read_policy(value, &call->cta_policy))
            return 0;
        snprintf(error, size, "\"%s\" is no policy; write DEFAULT, EFFICIENCY or ZERO", value);
        return -1;
    }
    number = strtoll(value, &end, 0);
    if (end == value || *end || number < -1000000000000ll || number > 1000000000000ll) {
        snprintf(error, size, "\"%s\" is no number in %s", value, setting);
        return -1;
    }
    switch (settings[i].how) {
    case COUNT64:
        *(int64_t *)((char *)call + settings[i].at) = number;
        break;
    case CTAS:
        set_ctas(call, settings[i].at, number);
        break;
    case OFF_MULTICAST:
        call->multicast = call->multicast && number != 0;
        break;
    case OFF_PEER: /* from 2.29 NCCL also sees no NVLink path any more */
        if (number)
            call->peer_nccl = call->nvlink = 0;
        break;
    case CUMEM: /* -2 is automatic */
        call->cumem_enable = number != 0;
        break;
    default:
        *(int *)((char *)call + settings[i].at) =
            number > 1000000 ? 1000000 : number < -1000000 ? -1000000 : (int)number;
    }
    return 0;
}

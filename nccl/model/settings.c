/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl/model/settings.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/names.h"

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
enum { POLICY_WORDS = 22900 }; /* from this release on NCCL_CTA_POLICY may have words */

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

/* Set one of the two CTA bounds as NCCL does. No bound is above 64, and the lower bound is never
 * above the upper bound. */
static void set_ctas(struct symtuner_call *call, size_t at, long long value)
{
    int *bound = (int *)((char *)call + at);

    if (value > 0)
        *bound = value > 64 ? 64 : (int)value;
    if (call->min_ctas > call->max_ctas)
        call->min_ctas = call->max_ctas;
}

/* Read a policy as NCCL does from 2.29 on: by name, such as "ZERO" or "EFFICIENCY|ZERO", or by its
 * first digit. Returns 0 if a word or the digit is no policy. */
static int read_policy(const char *text, int *policy_out)
{
    static const char *const word[] = {"DEFAULT", "EFFICIENCY", "ZERO"};
    const struct st_words words = {word, 3};

    if (isdigit((unsigned char)*text)) {
        *policy_out = *text - '0';
        return *policy_out <= 2;
    }
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

/* Find the first wrong word in a value of NCCL_ALGO or NCCL_PROTO, a list of the form
 * "[func:][^]word,word;func:...". Return the word, and its length in ${*len_out}; NULL if no word
 * is wrong. With a wrong word NCCL creates no communicator. */
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
    int i = 0, odd = 0;

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
    if (settings[i].how == POLICY && call->nccl >= POLICY_WORDS) {
        int policy;

        if (read_policy(value, &policy)) {
            call->cta_policy = policy;
            return 0;
        }
        snprintf(error, size, "\"%s\" is no policy; write DEFAULT, EFFICIENCY or ZERO", value);
        return -1;
    }
    /* NCCL reads the digits at the beginning, and 0 if there are none */
    number = strtoll(value, &end, 0);
    if (number < -1000000000000ll || number > 1000000000000ll) {
        snprintf(error, size, "\"%s\" is too large in %s", value, setting);
        return -1;
    }
    if (end == value || *end) {
        snprintf(error, size, "\"%s\" is no number in %s; NCCL reads it as %lld", value, setting,
                 number);
        odd = 1;
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
    /* NCCL switches P2P off only for the value 1. Then NCCL 2.29 and later finds no NVLink
     * either. */
    case OFF_PEER:
        if (number == 1)
            call->peer_nccl = call->nvlink = 0;
        break;
    case CUMEM: /* NCCL's own default is -2, "automatic", which counts as on here */
        call->cumem_enable = number != 0;
        break;
    default:
        *(int *)((char *)call + settings[i].at) =
            number > 1000000 ? 1000000 : number < -1000000 ? -1000000 : (int)number;
    }
    return odd;
}

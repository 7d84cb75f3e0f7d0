/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - reads the [kernels] rules of SYMTUNER_RULE and SYMTUNER_RULES. */
#include "kernels/choose/rules.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels/choose/probe.h"
#include "nccl/names.h"
#include "rules/sizes.h"
#include "rules/sources.h"

void ar_rules_warn(const char *text)
{
    static _Atomic uint64_t said[8];
    const char *log = getenv("SYMTUNER_LOG");
    uint64_t key = ar_probe_key(0, text), other;

    if (log && strcmp(log, "off") == 0)
        return;
    for (int i = 0; i < 8; i++) {
        other = 0;
        if (atomic_compare_exchange_strong(&said[i], &other, key)) {
            fprintf(stderr, "symtuner_ar: warning: %s\n", text);
            return;
        }
        if (other == key)
            return;
    }
}

/* ---- read ------------------------------------------------------------------------------------ */

static const char *set_to(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value ? value : NULL;
}

static bool any_kernels(const symtuner_rules *rules)
{
    for (int i = 0; i < rules->count; i++)
        if (rules->rule[i].kernels)
            return true;
    return false;
}

static void __attribute__((format(printf, 2, 3))) put_note(char *note, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(note, AR_RULES_NOTE, format, args);
    va_end(args);
}

bool ar_multicast_here(void)
{
    struct symtuner_machine machine;

    symtuner_machine_find(&machine);
    return machine.multicast == 1;
}

symtuner_rules *ar_rules_read(int nccl, int ranks, char note[AR_RULES_NOTE])
{
    const char *mode = getenv("SYMTUNER_MODE");
    char error[SYMTUNER_ERROR_MAX] = "";
    struct symtuner_machine machine;
    symtuner_rules *rules = NULL;
    int kept = 0;

    note[0] = '\0';
    if (!set_to("SYMTUNER_RULE") && !set_to("SYMTUNER_RULES"))
        return NULL;
    if (mode && (strcmp(mode, "observe") == 0 || strcmp(mode, "off") == 0)) {
        put_note(note, "not read: SYMTUNER_MODE=%.40s", mode);
        return NULL;
    }
    if (mode && strcmp(mode, "steer") != 0) { /* go on with "steer", as the plugin does */
        snprintf(error, sizeof error,
                 "SYMTUNER_MODE=%.60s: write one of steer|observe|off; using \"steer\"", mode);
        ar_rules_warn(error);
    }
    /* The third argument, NULL, says to read no file in NCCL's CSV format: such files have no
     * [kernels] rules. */
    if (st_rules_sources(getenv("SYMTUNER_RULE"), getenv("SYMTUNER_RULES"), NULL, &rules, error,
                         sizeof error) != SYMTUNER_OK) {
        put_note(note, "not used: %.220s", error);
        ar_rules_warn(error);
        return NULL;
    }
    if (!any_kernels(rules)) {
        put_note(note, "no [kernels] rules in %.180s", rules->source[rules->sources - 1]);
        symtuner_rules_free(rules);
        return NULL;
    }
    symtuner_machine_find(&machine);
    if (symtuner_rules_fit(rules, nccl ? nccl : (int)rules->provenance.nccl.lo, &machine, error,
                           sizeof error) != SYMTUNER_OK) {
        put_note(note, "not used: %.220s", error);
        ar_rules_warn(error);
        symtuner_rules_free(rules);
        return NULL;
    }
    for (int i = 0; i < rules->count; i++)
        if (st_kernels_concern(&rules->rule[i], nccl, ranks, &machine))
            rules->rule[kept++] = rules->rule[i];
    rules->count = kept;
    put_note(note, "%d for this group, hash 0x%016llx", kept,
             (unsigned long long)symtuner_rules_hash(rules));
    if (kept == 0) {
        symtuner_rules_free(rules);
        rules = NULL;
    }
    return rules;
}

/* ---- use ------------------------------------------------------------------------------------- */

static const struct st_rule *find(const symtuner_rules *rules, const struct ar_ask *ask)
{
    for (int i = 0; rules && i < rules->count; i++)
        if (rules->rule[i].launch.network_pieces < 0 &&
            st_kernels_cover(&rules->rule[i], ask->coll, ask->bytes, ask->dtype, ask->op,
                             ask->registered, ask->beside))
            return &rules->rule[i];
    return NULL;
}

/* Return whether ${family} cannot run the call only because ask->without forbids some arenas of the
 * scratch (arenas.h). */
static bool with_all_arenas(const struct ar_ask *ask, int family)
{
    struct ar_ask whole = *ask;

    for (int r = 0; r < AR_REGIONS; r++)
        whole.half[r] = UINT64_C(1) << 40;
    return ask->without != 0 && ar_capacity(&whole, family) != 0;
}

int ar_rules_select(const symtuner_rules *rules, const struct ar_ask *ask,
                    const struct ar_force *force, struct ar_choice *choice)
{
    const struct st_rule *rule = force->family < 0 ? find(rules, ask) : NULL;
    struct ar_force wish = *force;
    struct ar_ask told = *ask;
    int answer;

    if (!rule)
        return ar_select(ask, force, choice);
    if (rule->launch.beside >= 0)
        told.beside = rule->launch.beside;
    wish.family = rule->launch.kernel;
    if (wish.ctas == 0) {
        wish.ctas = rule->launch.ctas;
        wish.at_most = 1;
    }
    if (wish.threads == 0)
        wish.threads = rule->launch.threads;
    answer = ar_select(&told, &wish, choice);
    if (answer == 0) {
        choice->because = AR_RULE_SAYS;
    } else {
        /* The kernel of the rule cannot run the call. If the only reason is that the call must not
         * use an arena (ask->without), do not choose NCCL. The ranks may learn at different times
         * that they must not use the arena, so some ranks would call NCCL while others still run
         * the kernel of the rule. */
        told.has_nccl = told.has_nccl && !with_all_arenas(&told, wish.family);
        answer = ar_select(&told, force, choice);
    }
    choice->rule = rule;
    return answer;
}

/* Write the file and the line of ${rule} to ${place}, for example "...end/of/path:12". Returns
 * ${place}. */
static const char *place_of(const symtuner_rules *rules, const struct st_rule *rule,
                            char place[AR_PLACE])
{
    const char *file = rules->source[rule->source];
    size_t n = strlen(file);

    snprintf(place, AR_PLACE, "%s%s:%d", n > 44 ? "..." : "", n > 44 ? file + n - 44 : file,
             rule->line);
    return place;
}

void ar_rules_why(const symtuner_rules *rules, const struct ar_ask *ask,
                  const struct ar_choice *choice, char *why, size_t size)
{
    const struct st_rule *rule = choice->rule;
    char place[64], table[160];

    ar_select_why(ask, choice, table, sizeof table);
    if (!rule)
        snprintf(why, size, "%s", table);
    else if (choice->because == AR_RULE_SAYS && rule->launch.beside >= 0)
        snprintf(why, size, "rules: %s \"%s\" (beside: %s)", place_of(rules, rule, place),
                 rule->name, st_beside_words.word[rule->launch.beside]);
    else if (choice->because == AR_RULE_SAYS)
        snprintf(why, size, "rules: %s \"%s\"", place_of(rules, rule, place), rule->name);
    else
        snprintf(why, size, "rules: %s: %s cannot run this call; %s", place_of(rules, rule, place),
                 ar_family_name(rule->launch.kernel), table);
}

int ar_rules_network(const symtuner_rules *rules, uint64_t bytes, int dtype, int op,
                     char place[AR_PLACE])
{
    for (int i = 0; rules && i < rules->count; i++) {
        const struct st_rule *rule = &rules->rule[i];

        if (rule->launch.network_pieces < 0 ||
            !st_kernels_cover(rule, AR_ALL_REDUCE, bytes, dtype, op, false, AR_BESIDE_UNKNOWN))
            continue; /* the last two arguments are constants, so all ranks find the same rule */
        place_of(rules, rule, place);
        return rule->launch.network_pieces;
    }
    return -1;
}

bool ar_rules_ask_boxes(void)
{
    const char *mode = getenv("SYMTUNER_MODE");
    symtuner_rules *rules = NULL;
    char error[SYMTUNER_ERROR_MAX];
    bool any;

    if ((!set_to("SYMTUNER_RULE") && !set_to("SYMTUNER_RULES")) ||
        (mode && (strcmp(mode, "observe") == 0 || strcmp(mode, "off") == 0)) ||
        st_rules_sources(getenv("SYMTUNER_RULE"), getenv("SYMTUNER_RULES"), NULL, &rules, error,
                         sizeof error) != SYMTUNER_OK)
        return false; /* ar_rules_read warns about what is wrong */
    any = ar_rules_network_any(rules);
    symtuner_rules_free(rules);
    return any;
}

bool ar_rules_network_any(const symtuner_rules *rules)
{
    for (int i = 0; rules && i < rules->count; i++)
        if (rules->rule[i].launch.network_pieces >= 0)
            return true;
    return false;
}

/* ---- show ------------------------------------------------------------------------------------ */

static void add_words(char *text, size_t size, const char *key, const struct st_words *words,
                      unsigned set)
{
    bool first = true;

    for (int i = 0; i < words->count && set != ~0u; i++)
        if (set >> i & 1) {
            size_t at = strlen(text);

            snprintf(text + at, size - at, "%s%s", first ? key : ",", words->word[i]);
            first = false;
        }
}

size_t ar_rules_print(const symtuner_rules *rules, const char *note, char *text, size_t length)
{
    size_t need = 0;
    char line[440], where[64], low[32], high[32], more[208];

    for (int i = -1; i < (rules ? rules->count : 0); i++) {
        const struct st_rule *rule = i < 0 ? NULL : &rules->rule[i];
        int n;

        if (i < 0 && !*note)
            continue;
        if (i < 0) {
            n = snprintf(line, sizeof line, "rules: %s\n", note);
        } else if (rule->launch.network_pieces >= 0) {
            n = snprintf(line, sizeof line, "  %s to %s over several boxes: %s %d  (%s)\n",
                         st_size_write(rule->bytes.lo, low, sizeof low),
                         rule->bytes.hi == UINT64_MAX
                             ? "any size"
                             : st_size_write(rule->bytes.hi, high, sizeof high),
                         "network-pieces", rule->launch.network_pieces,
                         place_of(rules, rule, where));
        } else {
            more[0] = '\0';
            add_words(more, sizeof more, ", coll ", &st_kernel_coll_words, rule->kernel_colls);
            add_words(more, sizeof more, ", dtype ", &st_dtype_words, rule->dtypes);
            add_words(more, sizeof more, ", op ", &st_op_words, rule->ops);
            add_words(more, sizeof more, ", when beside ", &st_beside_words, rule->besides);
            if (rule->launch.beside >= 0)
                add_words(more, sizeof more, ", taken as beside ", &st_beside_words,
                          1u << rule->launch.beside);
            n = snprintf(line, sizeof line,
                         "  %s to %s%s: %s, blocks %d, threads %d (0: the table's)%s  (%s)\n",
                         st_size_write(rule->bytes.lo, low, sizeof low),
                         rule->bytes.hi == UINT64_MAX
                             ? "any size"
                             : st_size_write(rule->bytes.hi, high, sizeof high),
                         more,
                         rule->launch.kernel < 0 ? "the table's kernel"
                                                 : ar_family_name(rule->launch.kernel),
                         rule->launch.ctas, rule->launch.threads,
                         rule->reg == ST_REG_ANY   ? ""
                         : rule->reg == ST_REG_YES ? ", registered"
                                                   : ", not registered",
                         place_of(rules, rule, where));
        }
        if (n > 0 && need + (size_t)n < length)
            memcpy(text + need, line, (size_t)n + 1);
        need += n > 0 ? (size_t)n : 0;
    }
    return need;
}

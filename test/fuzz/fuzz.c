/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.c - reads arbitrary bytes as rules, as a one-line rule or as NCCL's CSV. No parser may
 * crash, and the rules that it accepts must satisfy every demand() below.
 *
 *   make fuzz FUZZ_SECONDS=20
 *
 * builds this file three times, with FUZZ_rules, FUZZ_inline or FUZZ_csv defined. The fuzzers start
 * from the texts in test/golden.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/process.h"
#include "rules/match.h"
#include "rules/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "broken promise: %s\n", what);
        abort();
    }
}

#ifdef FUZZ_csv
static symtuner_rules *read_text(char *text, size_t size, char *error)
{
    symtuner_rules *rules = calloc(1, sizeof *rules);
    struct st_reader reader = {"f", 0, text, error, SYMTUNER_ERROR_MAX, rules};

    rules->sources = 1;
    strcpy(rules->source[0], "f");
    if (st_csv_read(&reader, (struct st_text){text, size}))
        return rules;
    free(rules);
    return NULL;
}
#else
static symtuner_rules *read_text(char *text, size_t size, char *error)
{
    symtuner_rules *rules = NULL;
    enum symtuner_status status;

    (void)size;
#ifdef FUZZ_inline
    struct symtuner_machine machine;
    char other[SYMTUNER_ERROR_MAX];
    uint64_t bytes;

    st_machine_read(text, &machine, other, sizeof other);
    symtuner_size_parse(text, &bytes, other, sizeof other);
    status = symtuner_rules_inline(text, &rules, error, SYMTUNER_ERROR_MAX);
#else
    status = symtuner_rules_parse(text, "f", &rules, error, SYMTUNER_ERROR_MAX);
#endif
    demand((status == SYMTUNER_OK) == (rules != NULL), "rules come with success only");
    return rules;
}
#endif

/* Look up each size at a border of a rule in two ways: in the index, and by a scan of all rules.
 * Both must give the same rule. */
static void compare_index_and_scan(const symtuner_rules *rules, const struct st_group *group)
{
    struct st_index *index = st_index_build(rules, group);

    for (int i = 0; i < rules->count && i < 16; i++)
        for (int coll = 0; coll < SYMTUNER_COLLS; coll++) {
            struct st_span span = st_rule_total_bytes(&rules->rule[i], coll, group->ranks);
            const uint64_t size[] = {span.lo - 1, span.lo, span.hi, span.hi + 1};

            for (int s = 0; s < 4; s++)
                for (int reg = 0; reg < 2; reg++) {
                    struct st_call call = {coll, size[s], 1 + (i & 1), reg};

                    demand(st_index_find(index, &call) == st_match(rules, 0, group, &call),
                           "index and scan agree");
                }
        }
    free(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct st_group group = {22809, 8, 1, {"NVIDIA H200", 90, 1, 0}};
    struct symtuner_query query = {.struct_size = sizeof query, .nccl = 22809,
                                   .coll = SYMTUNER_ALLREDUCE, .bytes = 65536, .ranks = 8,
                                   .nodes = 1, .pipe_ops = 1, .machine = group.machine};
    struct symtuner_decision decision = {.struct_size = sizeof decision, .rule = -1};
    struct symtuner_kernel_query kernels = {.struct_size = sizeof kernels, .nccl = 22809,
                                            .bytes = 65536, .machine = group.machine};
    struct symtuner_kernel_decision launch = {.struct_size = sizeof launch};
    char *text = malloc(size + 1), error[SYMTUNER_ERROR_MAX] = "", line[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules;

    memcpy(text, data, size);
    text[size] = '\0';
    rules = read_text(text, size, error);
    free(text);
    demand((rules == NULL) == (error[0] != '\0'), "a refusal has a reason");
    demand(strlen(error) < SYMTUNER_ERROR_MAX - 1, "every error fits its buffer");
    if (!rules)
        return 0;
    demand(rules->count >= 0 && rules->count <= SYMTUNER_RULES_MAX, "at most 256 rules");
    for (int i = 0; i < rules->count; i++) {
        const struct st_action *act = &rules->rule[i].act;

        demand(act->sym_ctas >= 0 && act->sym_ctas <= 64 && act->channels >= 0 &&
                   act->channels <= 64 && act->forbid < 0x1fffff,
               "actions are in range");
        demand(rules->rule[i].name[0] != '\0', "every rule has a name");
        demand(rules->rule[i].launch.kernel >= -1 && rules->rule[i].launch.ctas <= 512 &&
                   rules->rule[i].launch.threads % 32 == 0 && rules->rule[i].launch.threads <= 1024,
               "launches are in range");
    }
    for (int i = 0; symtuner_rules_lint(rules, i, line, sizeof line); i++)
        demand(line[0] != '\0' && i < 6 * SYMTUNER_RULES_MAX, "lint ends");
    symtuner_rules_hash(rules);
    symtuner_rules_fit(rules, 22809, &group.machine, line, sizeof line);
    compare_index_and_scan(rules, &group);
    if (symtuner_decide(rules, &query, &decision) == SYMTUNER_OK)
        symtuner_explain(rules, &query, &decision, line, sizeof line);
    kernels.ranks = 2 + (int)(size & 7);
    kernels.dtype = (int)(size % 12);
    kernels.op = (int)(size % 5);
    kernels.coll = (int)(size % 3);
    demand(symtuner_kernel_decide(rules, &kernels, &launch) == SYMTUNER_OK, "a kernel is decided");
    demand(launch.rule < 0 || rules->rule[launch.rule].kernels,
           "only [kernels] rules choose kernels");
    demand(decision.rule < 0 || !rules->rule[decision.rule].kernels, "others only general ones");
    symtuner_rules_free(rules);
    return 0;
}

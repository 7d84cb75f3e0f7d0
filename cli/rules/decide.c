/* SPDX-License-Identifier: Apache-2.0 */
/* decide.c - symtuner decide: prints what the plugin would decide for one call; needs no NCCL. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/machines.h"
#include "cli/options.h"
#include "cli/rules/map.h"
#include "cli/text.h"
#include "cli/values.h"
#include "nccl/release.h"
#include "rules/sources.h"
#include "symtuner.h"

struct request {
    struct symtuner_query query;
    struct st_size size;
    const char *rules, *machine;
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS];
    enum symtuner_reg send, recv;
    int gpus;
    bool has_table, json, registered;
    char refused[SYMTUNER_ERROR_MAX]; /* why no rule is applied, or "" */
};

static bool read_word(int place, const char *word, void *self, char error[ST_OPTION_ERROR])
{
    struct request *request = self;

    if (place == 0)
        return st_read_coll(word, &request->query.coll, error);
    if (!st_read_size(word, &request->size, error))
        return false;
    return !request->size.elements ||
           st_option_wrong(error, "rules know bytes and no types: write bytes", word);
}

static bool read_table(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct request *request = self;

    request->has_table = true;
    return st_read_table(value, request->table, error);
}

static bool read_buffers(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct request *request = self;

    return st_read_buffers(value, &request->send, &request->recv, error);
}

static int started(void *self)
{
    struct request *request = self;

    return st_machine_start("decide", request->machine, &request->query.machine, &request->gpus);
}

#define AT(member) offsetof(struct request, member)
static const struct st_option rows[] = {
    {"rules", "FILE",
     "rules; otherwise those of SYMTUNER_RULE, SYMTUNER_RULES and "
     "NCCL_TUNER_CONFIG_FILE, in this order",
     ST_OPTION_TEXT, .at = AT(rules)},
    {"ranks", "N", "of the communicator (all GPUs of a named machine, else 8)", ST_OPTION_NUMBER,
     .at = AT(query.ranks), .least = 1, .most = 1 << 20},
    {"nodes", "N", "nodes of the communicator (1)", ST_OPTION_NUMBER, .at = AT(query.nodes),
     .least = 1, .most = 1 << 20},
    {"buffers", "B|S/R",
     "how the buffers are registered (none): none, comm, window or sym; one word for both, or "
     "SEND/RECEIVE; rules count a call as registered if both buffers are",
     ST_OPTION_READ, .read = read_buffers},
    {"pipe-ops", "N", "operations in the group (1)", ST_OPTION_NUMBER, .at = AT(query.pipe_ops),
     .least = 0, .most = 1 << 20},
    {"nccl", "X.Y.Z", "release (2.28.9)", ST_OPTION_READ, .read = st_read_release,
     .at = AT(query.nccl)},
    {"machine", "NAME",
     "h200x8, b200x8, rtxpro6000x2, ...: --machine list; or a description as in "
     "SYMTUNER_MACHINE (this box)",
     ST_OPTION_TEXT, .at = AT(machine), .early = true},
    {"links", "pcie|nvlink", "instead of what that machine has", ST_OPTION_CHOICE,
     .at = AT(query.machine.nvlink)},
    {"multicast", "no|yes", "instead of what that machine has", ST_OPTION_CHOICE,
     .at = AT(query.machine.multicast)},
    {"table", "C,C,...", "21 costs in us, tree/ll, tree/ll128, ... pat/simple; -1: not available",
     ST_OPTION_READ, .read = read_table},
    {"json", NULL, "for programs", ST_OPTION_FLAG, .at = AT(json)},
    {"gpu", "NAME", NULL, ST_OPTION_READ, .read = st_read_gpu, .at = AT(query.machine),
     .instead = "--machine \"gpu=NAME\""},
    {"registered", NULL, NULL, ST_OPTION_FLAG, .at = AT(registered), .instead = "--buffers comm"},
};
static const struct st_command_line line = {
    .command = "decide",
    .usage = "COLL BYTES [options]\n",
    .about = "What the rules say about one call. COLL is allreduce, allgather, reducescatter, "
             "broadcast\nor reduce. BYTES is the whole call, NCCL's nBytes: for allgather and "
             "reducescatter those of\nall ranks together. 64KiB/rank says what one rank passes, "
             "64KiB/call the whole call.\n",
    .after = "example: symtuner decide allreduce 64KiB --ranks 4 --rules my.rules\n",
    ST_OPTIONS(rows),
    .word = read_word,
    .least_words = 2,
    .most_words = 2,
    .started = started};

static bool of_all_ranks(const struct symtuner_query *query)
{
    return query->coll == SYMTUNER_ALLGATHER || query->coll == SYMTUNER_REDUCESCATTER;
}

/* Fill in the parts of the query that depend on several options. Returns false, with the reason in
 * ${error}, if the options contradict each other. */
static bool complete(struct request *request, char error[ST_OPTION_ERROR])
{
    struct symtuner_query *query = &request->query;

    query->registered = request->registered || (request->send && request->recv);
    if (query->ranks == 0)
        query->ranks = request->gpus ? request->gpus * query->nodes : 8;
    query->bytes = request->size.number;
    if (request->size.whose == ST_WHOSE_RANK && of_all_ranks(query)) {
        if (query->bytes > UINT64_MAX / (uint64_t)query->ranks) {
            snprintf(error, ST_OPTION_ERROR, "BYTES per rank are more than a call can have");
            return false;
        }
        query->bytes *= (uint64_t)query->ranks;
    }
    return st_ranks_fit(query->ranks, query->nodes, request->gpus, error);
}

static enum symtuner_status load(const struct request *request, symtuner_rules **rules, char *error,
                                 size_t size)
{
    if (request->rules)
        return st_rules_load_any(request->rules, rules, error, size);
    return st_rules_sources(getenv("SYMTUNER_RULE"), getenv("SYMTUNER_RULES"),
                            getenv("NCCL_TUNER_CONFIG_FILE"), rules, error, size);
}

/* Drop rules that the plugin would refuse because they were made for another machine or release. If
 * the machine is unknown, keep them. */
static void refuse_misfits(struct request *request, symtuner_rules **rules)
{
    const struct symtuner_machine *machine = &request->query.machine;

    if (!*rules || !machine->gpu[0] ||
        symtuner_rules_fit(*rules, request->query.nccl, machine, request->refused,
                           sizeof request->refused) == SYMTUNER_OK)
        return;
    symtuner_rules_free(*rules);
    *rules = NULL;
}

static void json_pick(struct st_json *json, const struct request *request, const char *key,
                      const float *table)
{
    int algo, proto;

    if (symtuner_table_pick(request->query.nccl, table, SYMTUNER_ALGOS, SYMTUNER_PROTOS, &algo,
                            &proto))
        st_json_format(json, key, "\"%s/%s\"", symtuner_algo_name(algo),
                       symtuner_proto_name(proto));
}

static void print_json(const struct request *request, const struct symtuner_decision *decision,
                       const char *text)
{
    const struct symtuner_query *query = &request->query;
    float after[SYMTUNER_ALGOS * SYMTUNER_PROTOS];
    struct st_json json = {.out = stdout};
    char release[16];
    int channels = 0;

    st_json_open(&json, NULL, "{");
    st_json_text(&json, "coll", symtuner_coll_name((int)query->coll));
    st_json_format(&json, "bytes", "%" PRIu64, query->bytes);
    st_json_int(&json, "ranks", query->ranks);
    st_json_int(&json, "nodes", query->nodes);
    st_json_bool(&json, "registered", query->registered);
    st_json_text(&json, "nccl", st_release_print(query->nccl, release, sizeof release));
    st_json_text(&json, "rule", decision->rule < 0 ? NULL : decision->name);
    st_json_text(&json, "prefer", st_map_prefer(decision));
    st_json_text(&json, "algorithm", symtuner_algo_name(decision->algo));
    st_json_text(&json, "protocol", symtuner_proto_name(decision->proto));
    st_json_int(&json, "line", decision->line);
    st_json_int(&json, "forbid", decision->forbid);
    st_json_int(&json, "process_ctas", decision->process_ctas);
    st_json_int(&json, "min_ctas", decision->min_ctas);
    st_json_int(&json, "channels", decision->channels);
    if (request->has_table) {
        memcpy(after, request->table, sizeof after);
        symtuner_table_apply(decision, query, after, SYMTUNER_ALGOS, SYMTUNER_PROTOS, &channels);
        json_pick(&json, request, "alone", request->table);
        json_pick(&json, request, "with_symtuner", after);
    }
    st_json_text(&json, "refused", request->refused[0] ? request->refused : NULL);
    st_json_text(&json, "text", text);
    st_json_close(&json);
}

static void print_table(const struct request *request, const struct symtuner_decision *decision)
{
    float after[SYMTUNER_ALGOS * SYMTUNER_PROTOS];
    int channels = 0, algo, proto;

    memcpy(after, request->table, sizeof after);
    if (symtuner_table_pick(request->query.nccl, after, SYMTUNER_ALGOS, SYMTUNER_PROTOS, &algo,
                            &proto))
        printf("NCCL alone: %s/%s\n", symtuner_algo_name(algo), symtuner_proto_name(proto));
    symtuner_table_apply(decision, &request->query, after, SYMTUNER_ALGOS, SYMTUNER_PROTOS,
                         &channels);
    if (symtuner_table_pick(request->query.nccl, after, SYMTUNER_ALGOS, SYMTUNER_PROTOS, &algo,
                            &proto))
        printf("with symtuner: %s/%s%s", symtuner_algo_name(algo), symtuner_proto_name(proto),
               channels ? "" : "\n");
    if (channels)
        printf(", %d channels\n", channels);
}

/* Print how many bytes one rank passes to NCCL. Rules have the size of the whole call, but in a
 * program one sees the size of one rank's part. */
static void print_whose(const struct symtuner_query *query)
{
    char whole[ST_TEXT_SIZE], part[ST_TEXT_SIZE];
    uint64_t ranks = (uint64_t)query->ranks;

    if (query->bytes % ranks == 0)
        printf("%s of the whole call: every rank passes %s.\n", st_text_size(query->bytes, whole),
               st_text_size(query->bytes / ranks, part));
}

int st_cmd_decide(int argc, char **argv)
{
    struct request request = {
        .query = {.struct_size = sizeof request.query, .nccl = 22809, .nodes = 1, .pipe_ops = 1}};
    struct symtuner_decision decision = {.struct_size = sizeof decision};
    const char *defaults = getenv("SYMTUNER_DEFAULTS");
    symtuner_rules *rules = NULL;
    enum symtuner_status loaded;
    char text[2048];
    int status;

    status = st_line_read(&line, argc, argv, &request);
    if (status >= 0)
        return status;
    if (!complete(&request, text))
        return st_line_wrong(&line, text);
    request.query.no_defaults = defaults && strcmp(defaults, "0") == 0;
    loaded = load(&request, &rules, text, sizeof text);
    if (loaded != SYMTUNER_OK)
        return st_fail(st_exit_of(loaded), "%s\n", text);
    refuse_misfits(&request, &rules);
    if (symtuner_decide(rules, &request.query, &decision) != SYMTUNER_OK) {
        symtuner_rules_free(rules);
        return st_fail(ST_EXIT_USAGE, "symtuner decide: symmetric kernels and this interface need "
                                      "NCCL 2.27 or later\n");
    }
    symtuner_explain(rules, &request.query, &decision, text, sizeof text);
    if (request.json) {
        print_json(&request, &decision, text);
    } else {
        if (request.refused[0])
            printf("%s; no rule is applied.\n", request.refused);
        st_text_wrap(stdout, 0, text);
        if (of_all_ranks(&request.query))
            print_whose(&request.query);
        if (request.has_table)
            print_table(&request, &decision);
    }
    symtuner_rules_free(rules);
    return ST_EXIT_FINE;
}

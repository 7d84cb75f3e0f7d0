/* SPDX-License-Identifier: Apache-2.0 */
/* decide.c - symtuner decide: the plugin's answer for one call, without NCCL. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/machines.h"
#include "cli/text.h"
#include "rules/names.h"
#include "rules/sources.h"
#include "symtuner.h"

static const char help[] =
    "usage: symtuner decide COLL BYTES [options]\n"
    "What the rules say about one call. BYTES is NCCL's nBytes: the whole call, so for AllGather\n"
    "and ReduceScatter the bytes of all ranks together. COLL is allreduce, allgather,\n"
    "reducescatter, broadcast or reduce.\n"
    "  --rules FILE      rules; otherwise those of SYMTUNER_RULE, SYMTUNER_RULES and\n"
    "                    NCCL_TUNER_CONFIG_FILE, in this order\n"
    "  --ranks N         of the communicator (8)\n"
    "  --nodes N         (1)\n"
    "  --registered      both buffers are registered\n"
    "  --pipe-ops N      operations in the group (1)\n"
    "  --nccl X.Y.Z      release (2.28.9)\n"
    "  --gpu NAME --links nvlink|pcie --multicast yes|no   the machine (this box, if it has GPUs)\n"
    "  --table C,C,...   21 costs in us, tree/ll, tree/ll128, ... pat/simple; -1 not available\n"
    "  --json            for programs\n"
    "example: symtuner decide allreduce 64KiB --ranks 4 --rules my.rules\n";

struct request {
    struct symtuner_query query;
    const char *rules;
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS];
    int has_table, json;
};

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "symtuner decide: %s \"%.60s\"; see symtuner decide --help\n", what, value);
    return 0;
}

static int read_number(const char *what, const char *value, int least, int *out)
{
    return st_text_number(value, least, 1 << 20, out) || wrong(what, value);
}

static int read_release(const char *value, int *out)
{
    int major, minor, patch = 0, n = 0;

    if (sscanf(value, "%d.%d%n.%d%n", &major, &minor, &n, &patch, &n) < 2 || value[n] ||
        major < 0 || major > 99 || minor < 0 || minor > 99 || patch < 0 || patch > 99)
        return wrong("--nccl wants a release such as 2.28.9, not", value);
    *out = major * 10000 + minor * 100 + patch;
    return 1;
}

static int read_choice(const char *what, const char *value, const char *no, const char *yes,
                       int *out)
{
    *out = strcmp(value, yes) == 0 ? 1 : strcmp(value, no) == 0 ? 0 : -1;
    return *out >= 0 || wrong(what, value);
}

static int read_table(const char *value, struct request *request)
{
    enum { CELLS = SYMTUNER_ALGOS * SYMTUNER_PROTOS };
    const char *at = value;

    for (int i = 0; i < CELLS; i++) {
        char *end;

        request->table[i] = strtof(at, &end);
        if (end == at || *end != (i == CELLS - 1 ? '\0' : ',') || isnan(request->table[i]))
            return wrong("--table wants 21 numbers separated by commas; wrong from", at);
        at = end + 1;
    }
    request->has_table = 1;
    return 1;
}

static int read_option(struct request *request, const char *option, const char *value)
{
    struct symtuner_query *query = &request->query;

    if (strcmp(option, "--rules") == 0)
        return request->rules = value, 1;
    if (strcmp(option, "--ranks") == 0)
        return read_number("--ranks wants 1 to 1048576, not", value, 1, &query->ranks);
    if (strcmp(option, "--nodes") == 0)
        return read_number("--nodes wants 1 to 1048576, not", value, 1, &query->nodes);
    if (strcmp(option, "--pipe-ops") == 0)
        return read_number("--pipe-ops wants 0 to 1048576, not", value, 0, &query->pipe_ops);
    if (strcmp(option, "--nccl") == 0)
        return read_release(value, &query->nccl);
    if (strcmp(option, "--links") == 0)
        return read_choice("--links wants nvlink or pcie, not", value, "pcie", "nvlink",
                           &query->machine.nvlink);
    if (strcmp(option, "--multicast") == 0)
        return read_choice("--multicast wants yes or no, not", value, "no", "yes",
                           &query->machine.multicast);
    if (strcmp(option, "--table") == 0)
        return read_table(value, request);
    if (strcmp(option, "--gpu") == 0) {
        if (strlen(value) > SYMTUNER_GPU_MAX)
            return wrong("--gpu is too long:", value);
        strcpy(query->machine.gpu, value);
        return 1;
    }
    return wrong("unknown option", option);
}

static int read_request(int argc, char **argv, struct request *request)
{
    struct symtuner_query *query = &request->query;
    char error[SYMTUNER_ERROR_MAX];
    const char *nearest = st_word_nearest(&st_colls, argv[1], strlen(argv[1]));
    int coll = symtuner_coll_parse(argv[1]);

    if (coll < 0 && nearest)
        return fprintf(stderr, "symtuner decide: unknown collective \"%.60s\"; did you mean %s?\n",
                       argv[1], nearest), 0;
    if (coll < 0)
        return wrong("unknown collective", argv[1]);
    query->coll = (enum symtuner_coll)coll;
    if (symtuner_size_parse(argv[2], &query->bytes, error, sizeof error) != 0) {
        fprintf(stderr, "symtuner decide: BYTES: %s\n", error);
        return 0;
    }
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--registered") == 0) {
            query->registered = 1;
        } else if (strcmp(argv[i], "--json") == 0) {
            request->json = 1;
        } else if (argv[i][0] != '-') {
            return wrong("one word too many:", argv[i]);
        } else if (i + 1 == argc) {
            return wrong("a value is missing after", argv[i]);
        } else if (!read_option(request, argv[i], argv[i + 1])) {
            return 0;
        } else {
            i++;
        }
    }
    if (query->nodes > query->ranks)
        return fprintf(stderr, "symtuner decide: --nodes %d is more than --ranks %d\n",
                       query->nodes, query->ranks), 0;
    return 1;
}

static enum symtuner_status load(const struct request *request, symtuner_rules **rules, char *error,
                                 size_t size)
{
    if (request->rules)
        return st_rules_load_any(request->rules, rules, error, size);
    return st_rules_sources(getenv("SYMTUNER_RULE"), getenv("SYMTUNER_RULES"),
                            getenv("NCCL_TUNER_CONFIG_FILE"), rules, error, size);
}

static void json_pick(const struct request *request, const char *key, const float *table)
{
    int algo, proto;

    if (symtuner_table_pick(request->query.nccl, table, SYMTUNER_ALGOS, SYMTUNER_PROTOS, &algo,
                            &proto))
        printf(", \"%s\": \"%s/%s\"", key, symtuner_algo_name(algo), symtuner_proto_name(proto));
}

static void print_json(const struct request *request, const struct symtuner_decision *decision,
                       const char *text)
{
    static const char *const prefer[] = {"leave", "symmetric", "general", "registered"};
    float after[SYMTUNER_ALGOS * SYMTUNER_PROTOS];
    int channels = 0;

    printf("{\"coll\": \"%s\", \"bytes\": %llu, \"ranks\": %d, \"nodes\": %d, \"registered\": %s, "
           "\"nccl\": %d", symtuner_coll_name((int)request->query.coll),
           (unsigned long long)request->query.bytes, request->query.ranks, request->query.nodes,
           request->query.registered ? "true" : "false", request->query.nccl);
    st_json_field(stdout, false, "rule", decision->rule < 0 ? NULL : decision->name);
    st_json_field(stdout, false, "prefer", decision->rule < 0 ? NULL : prefer[decision->prefer]);
    st_json_field(stdout, false, "algorithm", symtuner_algo_name(decision->algo));
    st_json_field(stdout, false, "protocol", symtuner_proto_name(decision->proto));
    printf(", \"line\": %d, \"forbid\": %u, \"sym_ctas\": %d, \"process_ctas\": %d, "
           "\"channels\": %d, \"chunk\": %llu", decision->line, (unsigned)decision->forbid,
           decision->sym_ctas, decision->process_ctas, decision->channels,
           (unsigned long long)decision->chunk);
    if (request->has_table) {
        memcpy(after, request->table, sizeof after);
        symtuner_table_apply(decision, &request->query, after, SYMTUNER_ALGOS, SYMTUNER_PROTOS,
                             &channels);
        json_pick(request, "alone", request->table);
        json_pick(request, "with_symtuner", after);
    }
    st_json_field(stdout, false, "text", text);
    puts("}");
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

int st_cmd_decide(int argc, char **argv)
{
    struct request request = {.query = {.struct_size = sizeof request.query,
                                        .nccl = 22809,
                                        .ranks = 8,
                                        .nodes = 1,
                                        .pipe_ops = 1}};
    struct symtuner_decision decision = {.struct_size = sizeof decision};
    const char *defaults = getenv("SYMTUNER_DEFAULTS");
    symtuner_rules *rules = NULL;
    char text[2048];

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return ST_EXIT_FINE;
    }
    if (argc < 3) {
        fputs(help, stderr);
        return ST_EXIT_USAGE;
    }
    st_machine_here(&request.query.machine);
    request.query.no_defaults = defaults && strcmp(defaults, "0") == 0;
    if (!read_request(argc, argv, &request))
        return ST_EXIT_USAGE;
    if (load(&request, &rules, text, sizeof text) != SYMTUNER_OK) {
        fprintf(stderr, "%s\n", text);
        return ST_EXIT_FINDINGS;
    }
    if (symtuner_decide(rules, &request.query, &decision) != SYMTUNER_OK) {
        fprintf(stderr, "symtuner decide: symmetric kernels and this interface need NCCL 2.27 or "
                        "later\n");
        symtuner_rules_free(rules);
        return ST_EXIT_USAGE;
    }
    symtuner_explain(rules, &request.query, &decision, text, sizeof text);
    if (request.json) {
        print_json(&request, &decision, text);
    } else {
        st_text_wrap(stdout, 0, text);
        if (request.has_table)
            print_table(&request, &decision);
    }
    symtuner_rules_free(rules);
    return ST_EXIT_FINE;
}

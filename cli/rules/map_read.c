/* SPDX-License-Identifier: Apache-2.0 */
/* map_read.c - reads the options that symtuner table and symtuner diff share. */
#include <string.h>

#include "cli/machines.h"
#include "cli/rules/map.h"
#include "cli/values.h"
#include "nccl/names.h"

static bool read_ranks(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_map_request *request = self;

    return st_read_numbers("ranks", value, 1 << 20, 16, request->ranks, &request->n_ranks, error);
}

static bool read_bytes(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_map_request *request = self;

    return st_read_range(value, &request->lo, &request->hi, error) &&
           (request->lo < request->hi ||
            st_option_wrong(error, "--bytes wants the smaller size first", value));
}

static bool read_release(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    int *nccl = to;

    return st_read_release(value, nccl, error) &&
           (*nccl >= 22700 ||
            st_option_wrong(error, "--nccl wants a release from 2.27 on, such as 2.28.9", value));
}

static bool read_op(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    int *op = to;

    return st_read_op(value, op, error) &&
           (*op <= SYMTUNER_AVG ||
            st_option_wrong(error, "--op wants sum, prod, max, min or avg", value));
}

static bool read_beside(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    *(int *)to = st_word_find(&st_beside_words, value, strlen(value));
    return *(int *)to >= 0 ||
           st_option_wrong(error, "--beside wants unknown, alone or compute", value);
}

#define AT(member) offsetof(struct st_map_request, member)
const struct st_option st_map_options[ST_MAP_OPTIONS] = {
    {"coll", "C,C,...", "collectives, or all (table: allreduce; diff: all)", ST_OPTION_READ,
     .read = st_read_colls, .at = AT(colls)},
    {"ranks", "N,N,...", "numbers of ranks (those of 2,4,8 that fit)", ST_OPTION_READ,
     .read = read_ranks},
    {"bytes", "LOW..HIGH", "of the whole call, NCCL's nBytes (256..8GiB)", ST_OPTION_READ,
     .read = read_bytes},
    {"nodes", "N", "nodes of the communicator (1)", ST_OPTION_NUMBER, .at = AT(nodes), .least = 1,
     .most = 1 << 20},
    {"nccl", "X.Y.Z", "release (2.28.9)", ST_OPTION_READ, .read = read_release, .at = AT(nccl)},
    {"machine", "NAME",
     "h200x8, b200x8, rtxpro6000x2, ...: --machine list; or a description as in "
     "SYMTUNER_MACHINE (this box)",
     ST_OPTION_TEXT, .at = AT(machine_word), .early = true},
    {"links", "pcie|nvlink", "instead of what that machine has", ST_OPTION_CHOICE,
     .at = AT(machine.nvlink)},
    {"multicast", "no|yes", "instead of what that machine has", ST_OPTION_CHOICE,
     .at = AT(machine.multicast)},
    {"dtype", "T", "type of the calls, for [kernels] rules (bf16)", ST_OPTION_READ,
     .read = st_read_dtype, .at = AT(dtype)},
    {"op", "O", "operator of these calls (sum)", ST_OPTION_READ, .read = read_op,
     .at = AT(op)},
    {"beside", "WORD", "what runs beside these calls: unknown, alone or compute (unknown)",
     ST_OPTION_READ, .read = read_beside, .at = AT(beside)},
    {"json", NULL, "exact ranges, for programs", ST_OPTION_FLAG, .at = AT(json)},
    {"gpu", "NAME", NULL, ST_OPTION_READ, .read = st_read_gpu, .at = AT(machine),
     .instead = "--machine \"gpu=NAME\""},
    {"html", "FILE", "also draw the map, as a page for a browser", ST_OPTION_TEXT, .at = AT(html)},
    {"force", NULL, "overwrite a FILE that symtuner did not write", ST_OPTION_FLAG,
     .at = AT(force)},
    {"svg", "FILE", NULL, ST_OPTION_TEXT, .at = AT(html), .instead = "--html FILE"},
};

int st_map_started(void *self)
{
    struct st_map_request *request = self;

    return st_machine_start(request->command, request->machine_word, &request->machine,
                            &request->gpus);
}

int st_map_read(const struct st_command_line *line, int argc, char **argv,
                struct st_map_request *request)
{
    char error[ST_OPTION_ERROR];
    bool given;
    int status;

    *request = (struct st_map_request){.command = line->command,
                                       .nccl = 22809,
                                       .nodes = 1,
                                       .dtype = SYMTUNER_BFLOAT16,
                                       .op = SYMTUNER_SUM,
                                       .lo = 256,
                                       .hi = (uint64_t)8 << 30};
    status = st_line_read(line, argc, argv, request);
    for (int i = 0; status < 0 && i < line->most_words; i++)
        request->file[i] = argv[1 + i];
    given = request->n_ranks > 0;
    for (int ranks = 2; status < 0 && !given && ranks <= 8; ranks *= 2)
        if (st_ranks_fit(ranks, request->nodes, request->gpus, error))
            request->ranks[request->n_ranks++] = ranks;
    if (status < 0 && request->n_ranks == 0)
        request->ranks[request->n_ranks++] = request->nodes * (request->gpus ? request->gpus : 1);
    for (int i = 0; status < 0 && i < request->n_ranks; i++)
        if (!st_ranks_fit(request->ranks[i], request->nodes, request->gpus, error))
            return st_line_wrong(line, error);
    return status;
}

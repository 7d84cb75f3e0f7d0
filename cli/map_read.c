/* SPDX-License-Identifier: Apache-2.0 */
/* map_read.c - the options that symtuner table and symtuner diff share. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/machines.h"
#include "cli/map.h"
#include "cli/text.h"
#include "plugin/nccl_release.h"
#include "symtuner_why.h"

static const char *command_name;

static bool wrong(const char *what, const char *value)
{
    fprintf(stderr, "symtuner %s: %s \"%.60s\"; see symtuner %s --help\n", command_name, what,
            value, command_name);
    return false;
}

static bool read_ranks(const char *value, struct st_map_request *request)
{
    const char *at = value;

    for (request->n_ranks = 0; request->n_ranks < 16; at++) {
        char *end;
        long n = strtol(at, &end, 10);

        if (end == at || n < 1 || n > 1 << 20)
            return wrong("--ranks wants numbers such as 2,4,8, not", value);
        request->ranks[request->n_ranks++] = (int)n;
        at = end;
        if (*at == '\0')
            return true;
        if (*at != ',')
            return wrong("--ranks wants numbers such as 2,4,8, not", value);
    }
    return wrong("--ranks takes at most 16 numbers, not", value);
}

static bool read_colls(const char *value, struct st_map_request *request)
{
    char word[32];

    request->colls = 0;
    if (strcmp(value, "all") == 0) {
        request->colls = (1u << SYMTUNER_COLLS) - 1;
        return true;
    }
    for (;;) {
        size_t length = strcspn(value, ",");
        int coll;

        if (length >= sizeof word)
            return wrong("unknown collective", value);
        memcpy(word, value, length);
        word[length] = '\0';
        coll = symtuner_coll_parse(word);
        if (coll < 0)
            return wrong("unknown collective", word);
        request->colls |= 1u << coll;
        if (value[length] == '\0')
            return true;
        value += length + 1;
    }
}

static bool read_bytes(const char *value, struct st_map_request *request)
{
    const char *dots = strstr(value, "..");
    char word[64], error[SYMTUNER_ERROR_MAX];

    if (!dots || (size_t)(dots - value) >= sizeof word)
        return wrong("--bytes wants a range such as 1KiB..1GiB, not", value);
    memcpy(word, value, (size_t)(dots - value));
    word[dots - value] = '\0';
    if ((word[0] && symtuner_size_parse(word, &request->lo, error, sizeof error) != 0) ||
        (dots[2] && symtuner_size_parse(dots + 2, &request->hi, error, sizeof error) != 0)) {
        fprintf(stderr, "symtuner %s: --bytes: %s\n", command_name, error);
        return false;
    }
    return request->lo < request->hi ||
           wrong("--bytes wants the smaller size first, not", value);
}

static bool read_choice(const char *what, const char *value, const char *no, const char *yes,
                        int *out)
{
    *out = strcmp(value, yes) == 0 ? 1 : strcmp(value, no) == 0 ? 0 : -1;
    return *out >= 0 || wrong(what, value);
}

static bool read_option(const char *option, const char *value, struct st_map_request *request)
{
    if (strcmp(option, "--ranks") == 0)
        return read_ranks(value, request);
    if (strcmp(option, "--coll") == 0)
        return read_colls(value, request);
    if (strcmp(option, "--bytes") == 0)
        return read_bytes(value, request);
    if (strcmp(option, "--links") == 0)
        return read_choice("--links wants nvlink or pcie, not", value, "pcie", "nvlink",
                           &request->machine.nvlink);
    if (strcmp(option, "--multicast") == 0)
        return read_choice("--multicast wants yes or no, not", value, "no", "yes",
                           &request->machine.multicast);
    if (strcmp(option, "--svg") == 0 && strcmp(command_name, "table") == 0)
        return request->svg = value, true;
    if (strcmp(option, "--nccl") == 0) {
        request->nccl = st_release_parse(value);
        return request->nccl >= 22700 ||
               wrong("--nccl wants a release from 2.27 on, such as 2.28.9, not", value);
    }
    if (strcmp(option, "--dtype") == 0) {
        request->dtype = symtuner_dtype_parse(value);
        return request->dtype >= 0 || wrong("--dtype wants a type such as bf16, not", value);
    }
    if (strcmp(option, "--op") == 0) {
        request->op = symtuner_op_parse(value);
        return (request->op >= 0 && request->op <= SYMTUNER_AVG) ||
               wrong("--op wants sum, prod, max, min or avg, not", value);
    }
    if (strcmp(option, "--nodes") == 0)
        return st_text_number(value, 1, 1 << 20, &request->nodes) ||
               wrong("--nodes wants 1 to 1048576, not", value);
    if (strcmp(option, "--gpu") == 0) {
        if (strlen(value) > SYMTUNER_GPU_MAX)
            return wrong("--gpu is too long:", value);
        strcpy(request->machine.gpu, value);
        return true;
    }
    return wrong("unknown option", option);
}

int st_map_read(const char *command, const char *help, int files, int argc, char **argv,
                struct st_map_request *request)
{
    command_name = command;
    *request = (struct st_map_request){.nccl = 22809,
                                       .nodes = 1,
                                       .dtype = SYMTUNER_BFLOAT16,
                                       .op = SYMTUNER_SUM,
                                       .colls = 1u << SYMTUNER_ALLREDUCE,
                                       .ranks = {2, 4, 8},
                                       .n_ranks = 3,
                                       .lo = 256,
                                       .hi = (uint64_t)8 << 30};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return ST_EXIT_FINE;
        }
    st_machine_here(&request->machine);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            request->json = true;
        } else if (strncmp(argv[i], "--", 2) == 0) {
            if (i + 1 == argc) {
                wrong("a value is missing after", argv[i]);
                return ST_EXIT_USAGE;
            }
            if (!read_option(argv[i], argv[i + 1], request))
                return ST_EXIT_USAGE;
            i++;
        } else if (request->files < files) {
            request->file[request->files++] = argv[i];
        } else {
            wrong("one argument too many:", argv[i]);
            return ST_EXIT_USAGE;
        }
    }
    if (request->files < files) {
        fputs(help, stderr);
        return ST_EXIT_USAGE;
    }
    return -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * question.c - reads what symtuner why is asked: its command line, the environment, and this box.
 */
#include "cli/why/question.h"

#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "nccl/model/general_cost.h"
#include "nccl/model/machines.h"
#include "nccl/model/settings.h"
#include "cli/machines.h"
#include "cli/text.h"
#include "cli/values.h"
#include "nccl/release.h"
#include "nccl/names.h"

/* ---- values ---------------------------------------------------------------------------------- */

static bool read_word(int place, const char *word, void *self, char error[ST_OPTION_ERROR])
{
    struct st_why *why = self;

    if (place == 0)
        return st_read_coll(word, &why->call.coll, error);
    if (place == 2)
        return st_read_dtype(word, &why->call.dtype, error);
    why->size_text = word;
    return st_read_size(word, &why->size, error);
}

static bool read_buffers(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    struct symtuner_call *call = to;

    return st_read_buffers(value, &call->send, &call->recv, error);
}

static bool read_arch(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_why *why = self;
    int major, minor, end = 0;

    why->family = NULL; /* the user changes the machine, so its bandwidths are not known */
    if (sscanf(value, "%2d.%1d%n", &major, &minor, &end) != 2 || value[end] || major < 1 ||
        minor < 0)
        return st_option_wrong(error, "--arch wants a compute capability such as 9.0", value);
    if (why->box.arch > 0)
        why->box.gpu[0] = '\0'; /* no longer the GPU of that name */
    why->call.arch = why->box.arch = major * 10 + minor;
    return true;
}

static bool read_links(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_why *why = self;

    why->family = NULL;
    why->call.nvlink = why->links = why->box.nvlink = strcmp(value, "nvlink") == 0;
    return why->call.nvlink || strcmp(value, "pcie") == 0 ||
           st_option_wrong(error, "--links wants pcie or nvlink", value);
}

static bool read_multicast(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_why *why = self;

    why->call.multicast = why->box.multicast = strcmp(value, "yes") == 0;
    return why->call.multicast || strcmp(value, "no") == 0 ||
           st_option_wrong(error, "--multicast wants no or yes", value);
}

static bool read_peer(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    struct symtuner_call *call = to;

    call->peer_raw = call->peer_nccl = strcmp(value, "yes") == 0;
    return call->peer_raw || strcmp(value, "no") == 0 ||
           st_option_wrong(error, "--peer wants no or yes", value);
}

static bool read_table(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_why *why = self;

    why->call.table = why->table;
    return st_read_table(value, why->table, error);
}

/* Read a word such as "ring/ll", and make a cost table in which only this entry is available. */
static bool read_general(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_why *why = self;
    size_t len = strcspn(value, "/");
    int algo = st_word_find(&st_algos, value, len);
    int proto = value[len] ? symtuner_proto_parse(value + len + 1) : -1;

    if (algo < 0 || proto < 0)
        return st_option_wrong(error, "--general wants ALGORITHM/PROTOCOL such as ring/simple",
                               value);
    for (int i = 0; i < SYMTUNER_ALGOS * SYMTUNER_PROTOS; i++)
        why->table[i] = i == algo * SYMTUNER_PROTOS + proto ? 1.0f : -1.0f;
    why->call.table = why->table;
    return true;
}

static bool read_setting(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_why *why = self;

    if (why->sets == (int)(sizeof why->set / sizeof *why->set))
        return st_option_wrong(error, "--set wants fewer settings", value);
    if (st_setting_apply(&why->call, value, error, ST_OPTION_ERROR))
        return false;
    why->set[why->sets++] = value;
    return true;
}

/* For --corpus and --show, which earlier versions had: say what replaces them. */
static bool read_corpus(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    (void)value;
    (void)self;
    snprintf(error, ST_OPTION_ERROR,
             "--corpus is a program of its own now: in symtuner's source write make "
             "build/check-corpus, then build/check-corpus FILE");
    return false;
}

const char *st_why_get(const void *from, const char *name)
{
    const struct st_why *why = from;
    size_t n = strlen(name);

    for (int i = why->sets - 1; i >= 0; i--)
        if (strncmp(why->set[i], name, n) == 0 && why->set[i][n] == '=')
            return why->set[i] + n + 1;
    return why->no_env ? NULL : getenv(name);
}

/* ---- this box -------------------------------------------------------------------------------- */

/* Return the release of the NCCL that a program started here would load, or 0 if there is none. If
 * jax and torch load different releases, say which one it is. */
static int installed_release(void)
{
    static struct st_doctor doctor = {.root = ""}; /* static, because it is large */
    char text[ST_COPY_TEXT];

    st_doctor_find_nccl(&doctor);
    for (int i = 0; i < doctor.judgeds && doctor.judgeds > 1; i++)
        fprintf(stderr, "symtuner why: %s%s%s\n", i ? "the answer is not for " : "answers for ",
                st_doctor_copy_text(&doctor, doctor.judged[i], text),
                i ? "" : "; --nccl X.Y.Z asks about another");
    return doctor.judgeds ? doctor.nccl : 0;
}

static void use_named(struct st_why *why, const struct st_machine *machine)
{
    st_machine_apply(machine, &why->call);
    why->machine = machine->text;
    why->family = st_general_family(machine->name);
    why->gpus = machine->gpus;
}

/* Use the machine that why->box describes: this box, or the one of a description. The compute
 * capability becomes 0 if it is not known. */
static void use_box(struct st_why *why)
{
    const struct st_machine *same = st_machine_of_gpu(why->box.gpu);

    if (why->box.arch <= 0 && same)
        why->box.arch = same->arch; /* a description names only the GPU, not its capability */
    why->call.arch = why->box.arch;
    why->call.nvlink = why->box.nvlink == 1;
    why->call.multicast = why->box.multicast == 1;
    why->call.peer_raw = why->call.peer_nccl = 1;
    why->gpus = why->box.gpus;
    why->machine = why->this_box ? "this box" : "the box described";
    why->family = st_general_family(why->box.gpu);
}

/* Is anything known about the machine? */
static bool known(const struct symtuner_machine *box)
{
    return box->gpu[0] || box->gpus > 0 || box->nvlink >= 0 || box->multicast >= 0;
}

/* Use the machine of --machine, or this box. If nothing is known about this box, assume h200x8.
 * Returns -1 if the command continues, else its exit status. */
static int use_machine(struct st_why *why)
{
    const char *name = why->machine_name;
    const struct st_machine *machine = name ? st_machine_named(name) : NULL;
    int gpus, status = st_machine_start("why", name, &why->box, &gpus);

    if (status >= 0)
        return status;
    use_named(why, machine ? machine : st_machine_named("h200x8"));
    if (machine)
        return -1;
    if (!name && !known(&why->box)) {
        why->machine_assumed = true;
        return st_machine_start("why", "h200x8", &why->box, &gpus);
    }
    why->this_box = why->box.arch > 0; /* a description has no compute capability */
    use_box(why);
    return -1;
}

static void use_environment(struct st_why *why)
{
    const char *name;

    for (int i = 0; (name = st_setting_name(i)) != NULL; i++) {
        const char *value = getenv(name);
        char *text = why->set_text[i], error[SYMTUNER_ERROR_MAX] = "its value is too long";
        int wrong = -1;

        if (!value || !*value)
            continue;
        snprintf(text, sizeof why->set_text[i], "%s=%s", name, value);
        if (strlen(name) + strlen(value) + 1 < sizeof why->set_text[i])
            wrong = st_setting_apply(&why->call, text, error, sizeof error);
        if (wrong)
            fprintf(stderr, "symtuner why: %s of the environment%s: %s\n", name,
                    wrong < 0 ? " is ignored" : "", error);
        if (wrong >= 0)
            why->set[why->sets++] = text;
    }
}

/* Set the release and the machine, and apply the environment's settings. The options that
 * st_line_read reads next may change the machine (--links) and the settings (--set). Returns -1 if
 * the command continues, else its exit status. */
static int started(void *self)
{
    struct st_why *why = self;
    int release = why->release ? why->release : installed_release(), status;

    why->release_assumed = release <= 0;
    symtuner_call_init(&why->call, release > 0 ? release : 22809);
    status = use_machine(why);
    why->call.ranks = 0; /* --ranks or complete() will set it */
    why->links = why->call.nvlink;
    if (status < 0 && !why->no_env)
        use_environment(why);
    return status;
}

/* ---- command line ---------------------------------------------------------------------------- */

#define AT(member) offsetof(struct st_why, member)
static const struct st_option rows[] = {
    {"buffers", "B|S/R", "how the buffers are registered (none): none, comm, window or sym; one "
                         "word for both, or SEND/RECEIVE", ST_OPTION_READ, .read = read_buffers,
     .at = AT(call)},
    {"op", "OP", "sum, prod, max, min, avg, premulsum (sum)", ST_OPTION_READ, .read = st_read_op,
     .at = AT(call.op)},
    {"ranks", "N", "GPUs of the communicator (all of the machine)", ST_OPTION_NUMBER,
     .at = AT(call.ranks), .least = 1, .most = 1 << 20},
    {"nodes", "N", "nodes of the communicator (1)", ST_OPTION_NUMBER, .at = AT(call.nodes),
     .least = 1, .most = 1 << 16},
    {"group", "N", "identical calls in one group (1)", ST_OPTION_NUMBER, .at = AT(call.group),
     .least = 1, .most = 1 << 20},
    {"graph", NULL, "under CUDA graph capture", ST_OPTION_FLAG, .at = AT(graph)},
    {"in-place", NULL, "one buffer for both sides", ST_OPTION_FLAG, .at = AT(in_place)},
    {"first", NULL, "the first such call of the communicator", ST_OPTION_FLAG, .at = AT(first)},
    {"one-process", NULL, "several GPUs of the communicator belong to one process",
     ST_OPTION_FLAG, .at = AT(one_process)},
    {"nccl", "X.Y.Z",
     "release (that of the NCCL which jax or torch of this python3 would load; without these two, "
     "the loader's; else 2.28.9)",
     ST_OPTION_READ, .read = st_read_release, .at = AT(release), .early = true},
    {"machine", "NAME", "h200x8, b200x8, rtxpro6000x2, ...: --machine list; or a description as in "
                        "SYMTUNER_MACHINE (this box)", ST_OPTION_TEXT, .at = AT(machine_name),
     .early = true},
    {"min-ctas", "N", "minCTAs in the communicator's config (1)", ST_OPTION_NUMBER,
     .at = AT(min_ctas), .least = 1, .most = 64},
    {"max-ctas", "N", "maxCTAs in the communicator's config (64)", ST_OPTION_NUMBER,
     .at = AT(max_ctas), .least = 1, .most = 64},
    {"arch", "9.0", "instead of what that machine has", ST_OPTION_READ, .read = read_arch},
    {"links", "pcie|nvlink", "instead of what that machine has", ST_OPTION_READ,
     .read = read_links},
    {"multicast", "no|yes", "instead of what that machine has", ST_OPTION_READ,
     .read = read_multicast},
    {"peer", "no|yes", "peer access between all GPUs, instead of what that machine has",
     ST_OPTION_READ, .read = read_peer, .at = AT(call)},
    {"set", "NCCL_X=V", "an NCCL setting, repeatable; those of the environment count as well",
     ST_OPTION_READ, .read = read_setting},
    {"no-env", NULL, "leave the environment out; symtuner counts as loaded", ST_OPTION_FLAG,
     .at = AT(no_env), .early = true},
    {"general", "A/P", "the general kernel that NCCL's cost table favours, for example ring/ll",
     ST_OPTION_READ, .read = read_general},
    {"table", "C,C,...", "or the whole table: 21 costs in us, tree/ll ... pat/simple; -1: none",
     ST_OPTION_READ, .read = read_table},
    {"rules", "FILE", "these rules instead of those that the environment names", ST_OPTION_TEXT,
     .at = AT(rules)},
    {"all", NULL, "also the conditions that do not apply to this release or this call",
     ST_OPTION_FLAG, .at = AT(all)},
    {"brief", NULL, "only the verdict and the cure", ST_OPTION_FLAG, .at = AT(brief)},
    {"json", NULL, "for programs", ST_OPTION_FLAG, .at = AT(json)},
    {"reg", "R|S/R", NULL, ST_OPTION_READ, .read = read_buffers, .at = AT(call),
     .instead = "--buffers"},
    {"corpus", "FILE", NULL, ST_OPTION_READ, .read = read_corpus},
    {"show", "N", NULL, ST_OPTION_READ, .read = read_corpus},
};
static const struct st_command_line line = {
    .command = "why",
    .usage = "COLL SIZE [DTYPE] [options]\n",
    .about = "What NCCL does with one call, the first condition that keeps it from a symmetric "
             "kernel, and\nwhat happens with symtuner loaded. COLL is allreduce, allgather, "
             "reducescatter, broadcast or\nreduce. SIZE is what one rank passes: count x element "
             "size; 16384el says elements, 1MiB/call\nthe whole call.\n" ST_TYPES_HELP,
    .after =
        "examples: symtuner why allreduce 64KiB f32 --nccl 2.28.9 --machine h200x8\n"
        "          symtuner why allgather 1MiB bf16 --buffers none/sym --nccl 2.29.7 --machine "
        "h200x4\n",
    ST_OPTIONS(rows),
    .word = read_word,
    .most_words = 3,
    .started = started};

static bool read_size(struct st_why *why, char error[ST_OPTION_ERROR])
{
    struct symtuner_call *call = &why->call;
    uint64_t element = (uint64_t)symtuner_dtype_size((int)call->dtype);
    bool all = call->coll == SYMTUNER_ALLGATHER || call->coll == SYMTUNER_REDUCESCATTER;
    uint64_t part = all && why->size.whose == ST_WHOSE_CALL ? (uint64_t)call->ranks : 1;
    uint64_t unit = part * (why->size.elements ? 1 : element);

    if (why->size.number == 0 || why->size.number % unit || why->size.number / unit > 1ull << 48) {
        snprintf(error, ST_OPTION_ERROR, "\"%.60s\" is no whole number of %s elements above zero%s",
                 why->size_text, symtuner_dtype_name((int)call->dtype),
                 part > 1 ? " a rank" : "");
        return false;
    }
    call->count = why->size.number / unit;
    return true;
}

/* Apply --min-ctas and --max-ctas, unless NCCL_MIN_CTAS or NCCL_MAX_CTAS overrides them. */
static void limit_ctas(struct st_why *why)
{
    if (why->max_ctas && !st_why_get(why, "NCCL_MAX_CTAS"))
        why->call.max_ctas = why->max_ctas;
    if (why->min_ctas && !st_why_get(why, "NCCL_MIN_CTAS"))
        why->call.min_ctas = why->min_ctas;
    if (why->call.min_ctas > why->call.max_ctas)
        why->call.min_ctas = why->call.max_ctas;
}

/* Check that the machine has a GPU for each rank. The GPUs found in this box are no limit: the
 * question may be about a program for a larger box. */
static bool ranks_fit(const struct st_why *why, char error[ST_OPTION_ERROR])
{
    if (st_ranks_fit(why->call.ranks, why->call.nodes, why->this_box ? 0 : why->gpus, error))
        return true;
    if (why->machine_assumed)
        st_text_add(error, ST_OPTION_ERROR, strlen(error),
                    " (%s is assumed: no GPU here; --machine names another)", why->machine);
    return false;
}

/* Check and set what depends on several options. Returns -1 if the command continues, else the exit
 * status, with the reason on stderr. */
static int complete(struct st_why *why)
{
    char error[ST_OPTION_ERROR];

    if (!why->size_text)
        return st_line_wrong(&line, "COLL and SIZE are needed");
    if (why->call.arch <= 0) {
        snprintf(error, sizeof error,
                 "the compute capability of %s%.100s%s is not known; give it, as in --arch 9.0",
                 why->box.gpu[0] ? "\"" : "the GPUs described", why->box.gpu,
                 why->box.gpu[0] ? "\"" : "");
        return st_line_wrong(&line, error);
    }
    if (why->call.ranks == 0)
        why->call.ranks = (why->gpus ? why->gpus : 8) * why->call.nodes;
    if (!ranks_fit(why, error) || !read_size(why, error))
        return st_line_wrong(&line, error);
    limit_ctas(why);
    why->call.graph = why->graph;
    why->call.inplace = why->in_place;
    why->call.first = why->first;
    why->call.one_process = why->one_process;
    if (!why->call.multicast && why->box.multicast == 1)
        why->box.multicast = 0; /* NCCL_NVLS_ENABLE=0 hides multicast from rules as well */
    if (why->call.nvlink != why->links)
        why->family = NULL; /* a setting such as NCCL_P2P_DISABLE hides the links from NCCL */
    if (!why->call.table && st_general_table(&why->call, why->family, why->table)) {
        why->call.table = why->table;
        why->table_computed = true;
    }
    return -1;
}

int st_why_read(int argc, char **argv, struct st_why *why)
{
    int status;

    if (argc < 2) {
        st_line_help(&line, stderr);
        return ST_EXIT_USAGE;
    }
    status = st_line_read(&line, argc, argv, why);
    return status < 0 ? complete(why) : status;
}

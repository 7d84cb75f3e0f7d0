/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why_read.c - the command line of symtuner why, the environment, and this box.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/general_model.h"
#include "cli/machines.h"
#include "cli/text.h"
#include "cli/why.h"
#include "plugin/nccl_release.h"
#include "rules/names.h"

static const char help[] =
    "usage: symtuner why COLL SIZE [DTYPE] [options]\n"
    "       symtuner why --corpus FILE.csv[.xz] [--show N] [--json]\n"
    "What NCCL does with one call, and the first condition that keeps it from a symmetric kernel.\n"
    "COLL is allreduce, allgather, reducescatter, broadcast or reduce. SIZE is what one rank\n"
    "passes: count x element size; COUNTel says elements (16384el).\n"
    "  --reg R|S/R         buffers: none, comm, window or sym; one word for both, or send/recv\n"
    "  --op OP             sum, prod, max, min, avg, premulsum (sum)\n"
    "  --ranks N           GPUs of the communicator (all of the machine)     --nodes N  (1)\n"
    "  --group N           identical calls in one group (1)\n"
    "  --graph, --in-place under CUDA graph capture; one buffer for both sides\n"
    "  --first             the first such call of the communicator\n"
    "  --one-process       several GPUs of the communicator belong to one process\n"
    "  --nccl X.Y.Z        release (the libnccl.so.2 found here, else 2.28.9)\n"
    "  --machine NAME      h200x8, b200x8, rtxpro6000x2, ...: --machine list; (this box)\n"
    "  --arch 9.0 --links nvlink|pcie --multicast yes|no --peer yes|no   other than that machine\n"
    "  --set NCCL_X=V      an NCCL setting, repeatable; those of the environment count as well\n"
    "  --no-env            leave the environment out\n"
    "  --general A/P       the general kernel that NCCL's cost table favours, for example ring/ll\n"
    "  --table C,C,...     or the whole table: 21 costs in us, tree/ll .. pat/simple, -1 none\n"
    "  --rules FILE        what changes with these rules loaded\n"
    "  --all               also the conditions that this release or this call does not ask\n"
    "  --brief             only the verdict and the cure\n"
    "  --json              for programs\n"
    "With --corpus, predict every recorded decision and compare: exit status 1 on a mismatch.\n"
    "examples:\n"
    "  symtuner why allreduce 64KiB f32 --nccl 2.28.9 --machine h200x8\n"
    "  symtuner why allgather 1MiB bf16 --reg none/sym --nccl 2.29.7 --machine h200x4\n";

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "symtuner why: %s \"%.80s\"; see symtuner why --help\n", what, value);
    return ST_EXIT_USAGE;
}

static int wrong_word(const char *what, const char *value, const struct st_words *words)
{
    const char *nearest = st_word_nearest(words, value, strlen(value));

    if (!nearest)
        return wrong(what, value);
    fprintf(stderr, "symtuner why: %s \"%.80s\"; did you mean %s?\n", what, value, nearest);
    return ST_EXIT_USAGE;
}

static int read_number(const char *what, const char *value, int least, int most, int *out)
{
    return st_text_number(value, least, most, out) ? -1 : wrong(what, value);
}

static int read_choice(const char *what, const char *value, const char *no, const char *yes,
                       int *out)
{
    if (strcmp(value, yes) != 0 && strcmp(value, no) != 0)
        return wrong(what, value);
    *out = strcmp(value, yes) == 0;
    return -1;
}

/* "sym", "none/sym" */
static int read_reg(const char *value, struct st_why *why)
{
    static const char *const word[] = {"none", "comm", "window", "sym"};
    static const struct st_words words = {word, SYMTUNER_REGS};
    size_t len = strcspn(value, "/");
    int send = st_word_find(&words, value, len), recv = send;

    if (value[len])
        recv = st_word_find(&words, value + len + 1, strlen(value + len + 1));
    if (send < 0 || recv < 0)
        return wrong("--reg wants none, comm, window or sym, or two of them as S/R, not", value);
    why->call.send = (enum symtuner_reg)send;
    why->call.recv = (enum symtuner_reg)recv;
    return -1;
}

static int read_arch(const char *value, struct st_why *why)
{
    int major, minor, end = 0;

    why->family = NULL; /* another machine than the named one: its bandwidths are not known */

    if (sscanf(value, "%2d.%1d%n", &major, &minor, &end) != 2 || value[end] || major < 1 ||
        minor < 0)
        return wrong("--arch wants a compute capability such as 9.0, not", value);
    why->call.arch = major * 10 + minor;
    return -1;
}

static int read_table(const char *value, struct st_why *why)
{
    enum { CELLS = SYMTUNER_ALGOS * SYMTUNER_PROTOS };
    const char *at = value;

    for (int i = 0; i < CELLS; i++) {
        char *end;

        why->table[i] = strtof(at, &end);
        if (end == at || *end != (i == CELLS - 1 ? '\0' : ','))
            return wrong("--table wants 21 numbers separated by commas; wrong from", at);
        at = end + 1;
    }
    why->call.table = why->table;
    return -1;
}

/* "ring/ll": a table in which nothing else exists. */
static int read_general(const char *value, struct st_why *why)
{
    size_t len = strcspn(value, "/");
    int algo = st_word_find(&st_algos, value, len);
    int proto = value[len] ? symtuner_proto_parse(value + len + 1) : -1;

    if (algo < 0 || proto < 0)
        return wrong("--general wants ALGORITHM/PROTOCOL such as ring/simple, not", value);
    for (int i = 0; i < SYMTUNER_ALGOS * SYMTUNER_PROTOS; i++)
        why->table[i] = i == algo * SYMTUNER_PROTOS + proto ? 1.0f : -1.0f;
    why->call.table = why->table;
    return -1;
}

static int read_setting(const char *value, struct st_why *why)
{
    char error[SYMTUNER_ERROR_MAX];

    if (why->sets == (int)(sizeof why->set / sizeof *why->set))
        return wrong("too many settings:", value);
    if (st_setting_apply(&why->call, value, error, sizeof error)) {
        fprintf(stderr, "symtuner why: %s\n", error);
        return ST_EXIT_USAGE;
    }
    why->set[why->sets++] = value;
    return -1;
}

static int read_op(const char *value, struct st_why *why)
{
    int number = symtuner_op_parse(value);

    why->call.op = (enum symtuner_op)number;
    return number < 0 ? wrong("unknown operation", value) : -1;
}

static int read_peer(const char *value, struct st_why *why)
{
    int peer, status = read_choice("--peer wants yes or no, not", value, "no", "yes", &peer);

    if (status < 0)
        why->call.peer_raw = why->call.peer_nccl = peer;
    return status;
}

static int read_multicast(const char *value, struct st_why *why)
{
    return read_choice("--multicast wants yes or no, not", value, "no", "yes",
                       &why->call.multicast);
}

static int read_links(const char *value, struct st_why *why)
{
    why->family = NULL;
    return read_choice("--links wants nvlink or pcie, not", value, "pcie", "nvlink",
                       &why->call.nvlink);
}

static int read_ranks(const char *value, struct st_why *why)
{
    return read_number("--ranks wants 1 to 1048576, not", value, 1, 1 << 20, &why->call.ranks);
}

static int read_nodes(const char *value, struct st_why *why)
{
    return read_number("--nodes wants 1 to 65536, not", value, 1, 1 << 16, &why->call.nodes);
}

static int read_group(const char *value, struct st_why *why)
{
    return read_number("--group wants 1 to 1048576, not", value, 1, 1 << 20, &why->call.group);
}

static int read_show(const char *value, struct st_why *why)
{
    return read_number("--show wants 0 to 1000000, not", value, 0, 1000000, &why->show);
}

static int read_rules(const char *value, struct st_why *why)
{
    why->rules = value;
    return -1;
}

static int read_corpus(const char *value, struct st_why *why)
{
    why->corpus = value;
    return -1;
}

/* --machine and --nccl set what the others change, so read_first has them already. */
static int read_already(const char *value, struct st_why *why)
{
    (void)value;
    (void)why;
    return -1;
}

/* Options that take a value, in the order of their words. */
static const char *const option_word[] = {
    "--reg",   "--op",        "--ranks",  "--nodes", "--group",   "--arch",
    "--links", "--multicast", "--peer",   "--set",   "--general", "--table",
    "--rules", "--show",      "--corpus", "--nccl",  "--machine",
};
static int (*const option_read[])(const char *, struct st_why *) = {
    read_reg,   read_op,        read_ranks,  read_nodes,   read_group,   read_arch,
    read_links, read_multicast, read_peer,   read_setting, read_general, read_table,
    read_rules, read_show,      read_corpus, read_already, read_already,
};
_Static_assert(sizeof option_word / sizeof *option_word == sizeof option_read / sizeof *option_read,
               "one reader an option");

/* -1 is "go on", else an exit status. */
static int read_option(struct st_why *why, const char *option, const char *value)
{
    static const struct st_words words = {option_word, sizeof option_word / sizeof *option_word};
    int number = st_word_find(&words, option, strlen(option));

    if (number < 0)
        return wrong_word("unknown option", option, &words);
    return value ? option_read[number](value, why) : wrong("a value is missing after", option);
}

static int list_machines(void)
{
    const struct st_machine *machine;

    for (int i = 0; (machine = st_machine_get(i)) != NULL; i++)
        printf("%-20s %s\n", machine->name, machine->text);
    return ST_EXIT_FINE;
}

/* The release of the NCCL that a program started here would load, or 0. */
static int installed_release(void)
{
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    int (*get_version)(int *) = NULL;
    int version = 0;

    if (!library)
        return 0;
    *(void **)&get_version = dlsym(library, "ncclGetVersion");
    if (!get_version || get_version(&version) != 0)
        version = 0;
    dlclose(library);
    return version;
}

/* The GPUs of this box, by the driver's management library; 0 when it cannot tell. */
static int count_gpus(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    int (*init)(void) = NULL, (*count)(unsigned *) = NULL, (*shutdown)(void) = NULL;
    unsigned gpus = 0;

    if (!library)
        return 0;
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&count = dlsym(library, "nvmlDeviceGetCount_v2");
    *(void **)&shutdown = dlsym(library, "nvmlShutdown");
    if (init && count && shutdown && init() == 0) {
        if (count(&gpus) != 0)
            gpus = 0;
        shutdown();
    }
    dlclose(library);
    return gpus <= 1024 ? (int)gpus : 0;
}

static int use_machine(struct st_why *why, const char *name)
{
    struct symtuner_machine found = {0};
    const struct st_machine *machine = st_machine_named(name ? name : "h200x8");
    int gpus;

    if (name && strcmp(name, "list") == 0)
        return list_machines();
    if (!machine)
        return wrong("unknown machine (--machine list names them)", name);
    st_machine_apply(machine, &why->call);
    why->machine = machine->text;
    why->family = st_general_family(machine->name);
    if (name)
        return -1;
    if (!st_machine_here(&found) || found.arch <= 0) {
        why->machine_assumed = true;
        return -1;
    }
    why->call.arch = found.arch;
    why->call.nvlink = found.nvlink == 1;
    why->call.multicast = found.multicast == 1;
    why->call.peer_raw = why->call.peer_nccl = 1;
    gpus = count_gpus();
    why->call.ranks = gpus > 0 ? gpus : why->call.ranks;
    why->machine = "this box";
    why->family = st_general_family(found.gpu);
    return -1;
}

static void use_environment(struct st_why *why)
{
    const char *name;

    for (int i = 0; (name = st_setting_name(i)) != NULL; i++) {
        const char *value = getenv(name);
        char *text = why->set_text[i], error[SYMTUNER_ERROR_MAX] = "its value is too long";

        if (!value || !*value)
            continue;
        snprintf(text, sizeof why->set_text[i], "%s=%s", name, value);
        if (strlen(name) + strlen(value) + 1 >= sizeof why->set_text[i] ||
            st_setting_apply(&why->call, text, error, sizeof error))
            fprintf(stderr, "symtuner why: %s of the environment is ignored: %s\n", name, error);
        else
            why->set[why->sets++] = text;
    }
}

/* Those that the others build on. */
static int read_first(int argc, char **argv, struct st_why *why)
{
    const char *machine = NULL, *nccl = NULL;
    int release;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-env") == 0 || strcmp(argv[i], "--corpus") == 0)
            why->no_env = true; /* the calls of a corpus bring their settings */
        else if (strcmp(argv[i], "--machine") == 0 && i + 1 < argc)
            machine = argv[++i];
        else if (strcmp(argv[i], "--nccl") == 0 && i + 1 < argc)
            nccl = argv[++i];
    }
    release = nccl ? st_release_parse(nccl) : installed_release();
    if (nccl && release < 0)
        return wrong("--nccl wants a release such as 2.28.9, not", nccl);
    why->release_assumed = release <= 0;
    symtuner_call_init(&why->call, release > 0 ? release : 22809);
    why->show = 10;
    release = use_machine(why, machine);
    why->links = why->call.nvlink;
    if (release < 0 && !why->no_env)
        use_environment(why);
    return release;
}

static int read_flag(struct st_why *why, const char *option)
{
    if (strcmp(option, "--graph") == 0)
        return why->call.graph = 1;
    if (strcmp(option, "--first") == 0)
        return why->call.first = 1;
    if (strcmp(option, "--one-process") == 0)
        return why->call.one_process = 1;
    if (strcmp(option, "--in-place") == 0)
        return why->call.inplace = 1;
    if (strcmp(option, "--json") == 0)
        return why->json = true;
    if (strcmp(option, "--all") == 0)
        return why->all = true;
    if (strcmp(option, "--brief") == 0)
        return why->brief = true;
    return strcmp(option, "--no-env") == 0;
}

/* COLL SIZE [DTYPE], in this order. */
static int read_word(struct st_why *why, int position, const char *value, const char **size)
{
    int number;

    switch (position) {
    case 0:
        number = symtuner_coll_parse(value);
        why->call.coll = (enum symtuner_coll)number;
        return number < 0 ? wrong_word("unknown collective", value, &st_colls) : -1;
    case 1:
        *size = value;
        return -1;
    case 2:
        number = symtuner_dtype_parse(value);
        why->call.dtype = (enum symtuner_dtype)number;
        return number < 0 ? wrong("unknown type", value) : -1;
    default:
        return wrong("one word too many:", value);
    }
}

static int read_size(struct symtuner_call *call, const char *text)
{
    uint64_t bytes, element = (uint64_t)symtuner_dtype_size((int)call->dtype);
    char error[SYMTUNER_ERROR_MAX], *end;
    unsigned long long count;

    errno = 0;
    count = strtoull(text, &end, 10);
    if (end != text && strcmp(end, "el") == 0 && *text != '-') {
        bytes = count * element;
        if (errno || count > 1ull << 48)
            return wrong("too many elements:", text);
    } else if (symtuner_size_parse(text, &bytes, error, sizeof error)) {
        fprintf(stderr, "symtuner why: SIZE: %s\n", error);
        return ST_EXIT_USAGE;
    }
    if (bytes == 0 || bytes % element || bytes / element > 1ull << 48) {
        fprintf(stderr, "symtuner why: \"%.80s\" is no whole number of %s elements above zero\n",
                text, symtuner_dtype_name((int)call->dtype));
        return ST_EXIT_USAGE;
    }
    call->count = bytes / element;
    return -1;
}

/* A corpus brings its own calls: what would describe one more says nothing, so it is refused. */
static bool goes_with_corpus(const char *word)
{
    return strcmp(word, "--corpus") == 0 || strcmp(word, "--show") == 0 ||
           strcmp(word, "--json") == 0 || strcmp(word, "--no-env") == 0;
}

int st_why_read(int argc, char **argv, struct st_why *why)
{
    const char *size = NULL, *beside = NULL; /* a corpus */
    int words = 0, links, status;

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(help, argc < 2 ? stderr : stdout);
        return argc < 2 ? ST_EXIT_USAGE : ST_EXIT_FINE;
    }
    status = read_first(argc, argv, why);
    links = why->links;
    for (int i = 1; i < argc && status < 0; i++) {
        if (!beside && !goes_with_corpus(argv[i]))
            beside = argv[i];
        if (argv[i][0] != '-' || argv[i][1] != '-')
            status = read_word(why, words++, argv[i], &size);
        else if (read_flag(why, argv[i]))
            continue;
        else {
            status = read_option(why, argv[i], argv[i + 1]);
            i++;
        }
    }
    if (status < 0 && why->corpus && beside)
        return wrong("--corpus brings its own calls; only --show and --json go with it, not",
                     beside);
    if (status >= 0 || why->corpus)
        return status;
    if (!size)
        return wrong("COLL and SIZE are needed, not only", argv[1]);
    if (why->call.nodes > why->call.ranks)
        return wrong("more nodes than ranks, with", "--nodes");
    status = read_size(&why->call, size);
    if (why->call.nvlink != links)
        why->family = NULL; /* NCCL_P2P_DISABLE: it sees another machine */
    if (status < 0 && !why->call.table && st_general_table(&why->call, why->family, why->table)) {
        why->call.table = why->table;
        why->table_computed = true;
    }
    return status;
}

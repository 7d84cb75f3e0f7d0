/* SPDX-License-Identifier: Apache-2.0 */
#include "test/host/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct release releases[RELEASES] = {
    {22703, 4, 4, 0}, {22707, 4, 4, 0}, {22803, 5, 5, 0}, {22809, 5, 5, 1},
    {22902, 5, 6, 1}, {22907, 5, 6, 1}, {23003, 6, 6, 1}, {23007, 6, 6, 2},
    {23102, 6, 7, 2}, {23203, 6, 7, 2}, {23206, 7, 7, 2},
};

/* Check in a function that threads call. This reaches libcheck only if the condition is false,
 * while ck_assert also reports each success. */
#define must(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

struct plugin plugin;
struct log nccl_log;
struct nccl_constants nccl_constants;
static int quiet;

/* The plugin asks the library that contains NCCL's logger for the version. Here that library is
 * this program. */
__attribute__((visibility("default"))) int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    *version = plugin.release->nccl;
    return 0;
}

static void logger(int level, unsigned long flags, const char *file, int line, const char *format,
                   ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t used;
    va_list args;

    (void)file, (void)line;
    pthread_mutex_lock(&lock);
    used = strlen(nccl_log.text);
    nccl_log.warnings += level == NCCL_ABI_LOG_WARN;
    nccl_log.infos += level == NCCL_ABI_LOG_INFO;
    va_start(args, format);
    /* A full buffer keeps the first messages, because tests read those. */
    if (used + 2 < sizeof nccl_log.text) {
        vsnprintf(nccl_log.text + used, sizeof nccl_log.text - used - 1, format, args);
        strcat(nccl_log.text, "\n");
    }
    va_end(args);
    pthread_mutex_unlock(&lock);
    must(flags != 0, "a message without a subsystem is never shown");
}

const nccl_abi_logger nccl_logger = logger;

static const void *table(const char *kind, int version)
{
    char name[64];

    snprintf(name, sizeof name, "%s_v%d", kind, version);
    return dlsym(plugin.library, name);
}

static void *function(const char *name)
{
    void *address = dlsym(plugin.library, name);

    t_check(address, "%s is not exported", name);
    return address;
}

static void start_env(void)
{
    int nccl = plugin.release->nccl, wrong;
    uint8_t major = (uint8_t)(nccl / 10000), minor = (uint8_t)(nccl / 100 % 100),
            patch = (uint8_t)(nccl % 100);

    plugin.env = table("ncclEnvPlugin", plugin.release->env);
    ck_assert_ptr_nonnull(plugin.env);
    if (plugin.release->env == 1) {
        const struct nccl_abi_env_v1 *env = plugin.env;

        plugin.get_env = env->get_env;
        wrong = env->init(major, minor, patch, "+cuda13.0");
    } else {
        const struct nccl_abi_env_v2 *env = plugin.env;

        plugin.get_env = env->get_env;
        wrong = env->init(major, minor, patch, "+cuda13.0", quiet ? NULL : logger);
    }
    ck_assert_int_eq(wrong, NCCL_ABI_SUCCESS); /* with an error here, NCCL could not be used */
}

void nccl_load(const struct release *release, int how)
{
    const char *path = getenv("SO_UNDER_TEST");

    plugin.release = release;
    quiet = how & QUIET;
    plugin.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(plugin.library, "%s", dlerror());
    *(void **)&plugin.inline_rules = function("symtuner_rules_inline");
    *(void **)&plugin.free_rules = function("symtuner_rules_free");
    *(void **)&plugin.decide = function("symtuner_decide");
    *(void **)&plugin.apply = function("symtuner_table_apply");
    *(void **)&plugin.explain = function("symtuner_explain");
    if (how & ENV_PLUGIN && release->env)
        start_env();
    plugin.profiler = table("ncclProfiler", release->profiler);
    plugin.tuner = table("ncclTunerPlugin", release->tuner);
    ck_assert_msg(plugin.profiler && plugin.tuner, "NCCL %d finds no table", release->nccl);
}

/* ---- communicators -------------------------------------------------------------------------- */

static int start_tuner(struct comm *comm, void **tuner)
{
    nccl_abi_logger log = quiet ? NULL : logger;
    size_t ranks = (size_t)comm->ranks, nodes = (size_t)comm->nodes;
    struct nccl_abi_nvl_domains domains = {comm->nodes, comm->ranks, comm->ranks};
    struct nccl_constants constants = nccl_constants, before;
    int answer = 0;

    for (size_t i = 0; !constants.may_change && i < sizeof constants.u.bytes; i++)
        constants.u.bytes[i] = (unsigned char)(plugin.release->nccl >= 23100 ? 0 : i * 37 + 11);
    before = constants;
    switch (plugin.release->tuner) {
    case 4:
        answer = ((const struct nccl_abi_tuner_v4 *)plugin.tuner)
                     ->init(ranks, nodes, log, tuner);
        break;
    case 5:
        answer = ((const struct nccl_abi_tuner_v5 *)plugin.tuner)
                     ->init(tuner, comm->id, ranks, nodes, log, &domains, &constants.u.v5);
        break;
    case 6:
        answer = ((const struct nccl_abi_tuner_v6 *)plugin.tuner)
                     ->init(tuner, comm->id, ranks, nodes, log, &domains, &constants.u.v5);
        break;
    case 7:
        answer = ((const struct nccl_abi_tuner_v7 *)plugin.tuner)
                     ->init(tuner, comm->id, ranks, nodes, log, &domains, &constants.u.v7);
        break;
    }
    must(constants.may_change || memcmp(&constants, &before, sizeof before) == 0,
         "the constants were written");
    if (constants.may_change)
        nccl_constants = constants;
    return answer;
}

int nccl_rank(struct comm *comm, uint64_t id, int ranks, int nodes)
{
    nccl_abi_logger log = quiet ? NULL : logger;
    int wrong;

    *comm = (struct comm){.id = id, .ranks = ranks, .nodes = nodes};
    if (plugin.release->profiler == 4)
        wrong = ((const struct nccl_abi_profiler_v4 *)plugin.profiler)
                    ->init(&comm->profiler, &comm->mask, "", id, nodes, ranks, 0, log);
    else
        wrong = ((const struct nccl_abi_profiler_v5 *)plugin.profiler)
                    ->init(&comm->profiler, id, &comm->mask, NULL, nodes, ranks, 0, log);
    must(wrong == NCCL_ABI_SUCCESS, "profiler init failed");
    return start_tuner(comm, &comm->tuner);
}

uint64_t nccl_id(uint64_t small)
{
    return small | (uint64_t)getpid() << 32;
}

int nccl_comm(struct comm *comm, uint64_t id, int ranks, int nodes)
{
    int wrong = nccl_rank(comm, nccl_id(id), ranks, nodes);

    if (plugin.release->tuner > 4 && nodes == 1)
        while (!wrong && comm->others < ranks - 1)
            wrong = start_tuner(comm, &comm->other[comm->others++]);
    return wrong;
}

void nccl_comm_end(struct comm *comm)
{
    /* destroy and finalize have the same offset and signature in every version */
    while (comm->others > 0)
        must(((const struct nccl_abi_tuner_v5 *)plugin.tuner)
                     ->finalize(comm->other[--comm->others]) == 0, "finalize failed");
    must(((const struct nccl_abi_tuner_v5 *)plugin.tuner)->finalize(comm->tuner) == 0 &&
             ((const struct nccl_abi_profiler_v5 *)plugin.profiler)->finalize(comm->profiler) == 0,
         "finalize failed");
    comm->tuner = comm->profiler = NULL;
}

/* ---- calls ---------------------------------------------------------------------------------- */

int nccl_ask(const struct comm *comm, struct question *question)
{
    /* get_coll_info has the same offset and signature in every version */
    const struct nccl_abi_tuner_v5 *tuner = plugin.tuner;
    float before[T_CELLS];
    int answer, changed = 0;

    memcpy(before, question->table, sizeof before);
    answer = tuner->get_coll_info(comm->tuner, question->func, question->bytes, question->pipe_ops,
                                  (float **)(void *)question->table, T_ALGOS, T_PROTOS,
                                  question->registered, &question->channels);
    if (answer != NCCL_ABI_SUCCESS)
        ck_abort_msg("getCollInfo failed with %d: so does the user's collective", answer);
    for (int i = 0; i < T_CELLS; i++) {
        if (memcmp(&before[i], &question->table[i], sizeof(float)) == 0)
            continue;
        changed++;
        if (!(before[i] >= 0.0f) || !(question->table[i] > 0.0f))
            ck_abort_msg("entry %d: %g became %g", i, (double)before[i],
                         (double)question->table[i]);
    }
    if (question->channels < 0 || question->channels > 64)
        ck_abort_msg("%d channels", question->channels);
    return changed;
}

static const char *const func_name[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                        "AllReduce"};

void nccl_event(const struct comm *comm, int kind, int func, size_t count, int symmetric)
{
    struct nccl_abi_ev_coll coll = {.func = func_name[func], .count = count,
                                    .datatype = "ncclFloat32", .channels = 4,
                                    .algo = symmetric ? "ST" : "RING",
                                    .proto = symmetric ? "" : "LL"};
    void *handle = &coll;
    int answer;

    if (!(comm->mask & kind))
        return;
    /* With version 4 of the interface NCCL sends a Coll event only inside a Group event that has a
     * handle. */
    if (plugin.release->profiler == 4) {
        struct nccl_abi_event_v4 event = {.type = (uint8_t)kind, .coll = coll}, group = {.type = 1};
        const struct nccl_abi_profiler_v4 *profiler = plugin.profiler;

        ck_assert_int_eq(profiler->start_event(comm->profiler, &event.parent, &group), 0);
        if (!event.parent)
            return;
        answer = ((const struct nccl_abi_profiler_v4 *)plugin.profiler)
                     ->start_event(comm->profiler, &handle, &event);
    } else {
        struct nccl_abi_event_v5 event = {.type = (uint64_t)kind};

        if (kind == NCCL_ABI_EV_COLL_API)
            event.u.api = (struct nccl_abi_ev_coll_api){func_name[func], count, "ncclFloat32", 0,
                                                        NULL, false};
        else
            event.u.coll_v7 = (struct nccl_abi_ev_coll_v7){coll, NULL, NULL, symmetric};
        answer = ((const struct nccl_abi_profiler_v5 *)plugin.profiler)
                     ->start_event(comm->profiler, &handle, &event);
    }
    ck_assert_int_eq(answer, NCCL_ABI_SUCCESS);
    ck_assert_ptr_null(handle);
}

void nccl_collective(const struct comm *comm, int func, size_t bytes, int registered,
                     const float costs[T_CELLS], int ran_symmetric, struct question *last)
{
    int gathers = func == SYMTUNER_ALLGATHER || func == SYMTUNER_REDUCESCATTER;
    struct question probe = {func, (bytes + 1023) / 1024 * 1024, 0, registered, {0}, 0};

    nccl_event(comm, NCCL_ABI_EV_COLL_API, func, bytes / 4, 0);
    *last = (struct question){func, gathers ? bytes * (size_t)comm->ranks : bytes, 1, registered,
                              {0}, 0};
    memcpy(last->table, costs, sizeof last->table);
    if (plugin.release->nccl >= 23100) { /* NCCL first asks with a table of -1 only */
        for (int i = 0; i < T_CELLS; i++)
            probe.table[i] = -1.0f;
        ck_assert_int_eq(nccl_ask(comm, &probe), 0);
        memcpy(probe.table, costs, sizeof probe.table);
        nccl_ask(comm, &probe);
        ck_assert_int_eq(probe.channels, 0);
        /* NCCL 2.29 and 2.30 first ask about protocol LL, and then ask the same question again */
    } else if (plugin.release->nccl >= 22900) {
        nccl_ask(comm, last);
        memcpy(last->table, costs, sizeof last->table);
        last->channels = 0;
    }
    if (!ran_symmetric)
        nccl_ask(comm, last);
    if (!ran_symmetric || plugin.release->nccl >= 23102)
        nccl_event(comm, NCCL_ABI_EV_COLL, func, bytes / 4, ran_symmetric);
}

/* ---- libraries ------------------------------------------------------------------------------ */

void nccl_install(const char *name, const char *file)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", getenv("CHECK_HOST_LIBRARIES"), name);
    unlink(path);
    if (file)
        ck_assert_msg(symlink(file, path) == 0, "%s: cannot be made", path);
}

const char *nccl_fake(const char *name)
{
    static char path[2][4096];
    static int turn;
    const char *built = getenv("SO_UNDER_TEST");

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%.*s/fakes/%s.so", (int)(strrchr(built, '/') - built),
             built, name);
    return path[turn];
}

/* ---- files ---------------------------------------------------------------------------------- */

static char temp_path[64];

static void remove_temp(void)
{
    unlink(temp_path);
}

const char *nccl_temp(void)
{
    int fd;

    strcpy(temp_path, "/tmp/symtuner-host-XXXXXX");
    fd = mkstemp(temp_path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    atexit(remove_temp);
    return temp_path;
}

const char *nccl_read(const char *path)
{
    static char text[65536];
    FILE *file = fopen(path, "r");
    size_t n;

    ck_assert_ptr_nonnull(file);
    n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

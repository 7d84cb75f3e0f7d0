/* SPDX-License-Identifier: Apache-2.0 */
#include "test/demo/host.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_abi/env.h"
#include "nccl_abi/profiler.h"
#include "nccl_abi/tuner.h"

enum { RANKS_MAX = 8 };
static const uint64_t comm_id = 0x5c1e0000cafeull;

struct host {
    int nccl, ranks;
    int env_abi, tuner_abi, profiler_abi; /* versions found; 0: none */
    void *env_library, *tuner_library, *profiler_library;
    const char *(*get_env)(const char *name);
    nccl_abi_result (*env_finalize)(void);
    const struct nccl_abi_tuner_v4 *v4; /* NULL unless the tuner has version 4 */
    nccl_abi_get_coll_info get_coll_info;
    nccl_abi_result (*finalize)(void *ctx);
    /* version 4 of the interface is called through this pointer, too: its table has the same
     * members, and only two arguments differ */
    const struct nccl_abi_profiler_v5 *profiler;
    void *tuner_ctx[RANKS_MAX], *profiler_ctx[RANKS_MAX];
    int mask;
    char sym_ctas[16], min_ctas[16];
    bool sym_ctas_read;
    char interfaces[64];
};

/* ---- what a plugin finds of NCCL ------------------------------------------------------------- */

static void (*listener)(const char *line);
static int nccl_version;

/* A plugin asks the library that contains its logger for NCCL's release. Here that library is this
 * program. */
int ncclGetVersion(int *version);
__attribute__((visibility("default"))) int ncclGetVersion(int *version)
{
    *version = nccl_version;
    return 0;
}

static void logger(int level, unsigned long flags, const char *file, int line, const char *format,
                   ...)
{
    char text[2048];
    va_list args;

    (void)level, (void)flags, (void)file, (void)line;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    listener(text);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Find the newest symbol PREFIXn that the library and the release both have, in the order in which
 * NCCL looks. */
static const void *newest(void *library, const char *prefix, int from, int to, int *version_out)
{
    for (int v = from; v >= to; v--) {
        char symbol[40];
        void *table;

        snprintf(symbol, sizeof symbol, "%s%d", prefix, v);
        table = dlsym(library, symbol);
        if (table) {
            *version_out = v;
            return table;
        }
    }
    return NULL;
}

static void *load(const char *path, const char *what)
{
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (path && *path && !library)
        fprintf(stderr, "demo: %s plugin: %s\n", what, dlerror());
    return library;
}

/* Open the env interface. Release 2.28.7 has version 1 of it, 2.30.7 has version 2. Like NCCL, read
 * NCCL_ENV_PLUGIN itself from the real environment. */
static bool open_env(struct host *host)
{
    const struct nccl_abi_env_v2 *env;
    const char *path = getenv("NCCL_ENV_PLUGIN");
    uint8_t part[] = {(uint8_t)(host->nccl / 10000), (uint8_t)(host->nccl / 100 % 100),
                      (uint8_t)(host->nccl % 100)};

    host->get_env = (const char *(*)(const char *))getenv;
    if (!path || host->nccl < 22807)
        return true;
    host->env_library = load(path, "env");
    env = host->env_library ? newest(host->env_library, "ncclEnvPlugin_v",
                                     host->nccl >= 23007 ? 2 : 1, 1, &host->env_abi)
                            : NULL;
    if (!env)
        return false;
    if (host->env_abi == 1)
        ((const struct nccl_abi_env_v1 *)env)->init(part[0], part[1], part[2], "");
    else
        env->init(part[0], part[1], part[2], "", logger);
    host->get_env = env->get_env;
    host->env_finalize = env->finalize;
    return true;
}

static bool open_profiler(struct host *host)
{
    int newest_known = host->nccl >= 23102   ? 7
                       : host->nccl >= 22900 ? 6
                       : host->nccl >= 22800 ? 5
                                             : 4;
    const char *path = host->get_env("NCCL_PROFILER_PLUGIN");

    if (!path)
        return true;
    host->profiler_library = load(path, "profiler");
    host->profiler = host->profiler_library
                         ? newest(host->profiler_library, "ncclProfiler_v", newest_known, 4,
                                  &host->profiler_abi)
                         : NULL;
    for (int r = 0; host->profiler && r < host->ranks; r++)
        if (host->profiler_abi == 4)
            ((const struct nccl_abi_profiler_v4 *)(const void *)host->profiler)
                ->init(&host->profiler_ctx[r], &host->mask, "demo", comm_id, 1, host->ranks, r,
                       logger);
        else
            host->profiler->init(&host->profiler_ctx[r], comm_id, &host->mask, "demo", 1,
                                 host->ranks, r, logger);
    return host->profiler != NULL;
}

static bool open_tuner(struct host *host)
{
    int newest_known = host->nccl >= 23206   ? 7
                       : host->nccl >= 23000 ? 6
                       : host->nccl >= 22800 ? 5
                                             : 4;
    const char *path = host->get_env("NCCL_TUNER_PLUGIN");
    const void *table;
    bool fine = true;

    host->tuner_library = load(path, "tuner");
    table = host->tuner_library ? newest(host->tuner_library, "ncclTunerPlugin_v", newest_known, 4,
                                         &host->tuner_abi)
                                : NULL;
    if (!table)
        return false;
    for (int r = 0; fine && r < host->ranks; r++)
        if (host->tuner_abi == 4) {
            const struct nccl_abi_tuner_v4 *v4 = table;

            fine = v4->init((size_t)host->ranks, 1, logger, &host->tuner_ctx[r]) == 0;
            host->get_coll_info = v4->get_coll_info;
            host->finalize = v4->destroy;
        } else { /* v5 to v7 begin with the same members; only the size of the constants differs */
            const struct nccl_abi_tuner_v5 *v5 = table;
            static struct nccl_abi_constants_v7 constants;
            struct nccl_abi_nvl_domains domains = {1, host->ranks, host->ranks};

            fine = v5->init(&host->tuner_ctx[r], comm_id, (size_t)host->ranks, 1, logger, &domains,
                            (struct nccl_abi_constants_v5 *)&constants) == 0;
            host->get_coll_info = v5->get_coll_info;
            host->finalize = v5->finalize;
        }
    return fine;
}

/* Read NCCL_MIN_CTAS, as NCCL does once per process, before the first communicator. */
static bool read_min_ctas(struct host *host)
{
    const char *value = host->get_env("NCCL_MIN_CTAS");

    snprintf(host->min_ctas, sizeof host->min_ctas, "%s", value ? value : "");
    return true;
}

static int add_version(char *text, size_t size, const char *what, int version)
{
    return version ? snprintf(text, size, "%s v%d, ", what, version) : 0;
}

struct host *host_open(const char *library, const char *release, bool by_env, int ranks,
                       void (*heard)(const char *line))
{
    struct host *host = calloc(1, sizeof *host);
    int major, minor, patch, n = 0;

    if (!host || ranks < 1 || ranks > RANKS_MAX ||
        sscanf(release, "%d.%d.%d", &major, &minor, &patch) != 3) {
        fprintf(stderr, "demo: cannot play NCCL \"%s\" with %d ranks\n", release, ranks);
        free(host);
        return NULL;
    }
    listener = heard;
    host->nccl = nccl_version = major * 10000 + minor * 100 + patch;
    host->ranks = ranks;
    setenv(by_env ? "NCCL_ENV_PLUGIN" : "NCCL_TUNER_PLUGIN", library, 1);
    if (!open_env(host) || !read_min_ctas(host) || !open_profiler(host) || !open_tuner(host)) {
        fprintf(stderr, "demo: NCCL %s would not load %s\n", release, library);
        host_close(host);
        return NULL;
    }
    n += add_version(host->interfaces, sizeof host->interfaces, "env", host->env_abi);
    n += add_version(host->interfaces + n, sizeof host->interfaces - (size_t)n, "profiler",
                     host->profiler_abi);
    n += add_version(host->interfaces + n, sizeof host->interfaces - (size_t)n, "tuner",
                     host->tuner_abi);
    host->interfaces[n - 2] = '\0';
    return host;
}

const char *host_interfaces(const struct host *host)
{
    return host->interfaces;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Ask for NCCL_SYM_CTAS once and keep the answer, as NCCL does until the process ends. */
const char *host_sym_ctas(struct host *host)
{
    if (!host->sym_ctas_read) {
        const char *value = host->get_env("NCCL_SYM_CTAS");

        snprintf(host->sym_ctas, sizeof host->sym_ctas, "%s", value ? value : "");
        host->sym_ctas_read = true;
    }
    return host->sym_ctas;
}

/* Return the smallest entry that is not negative. If several are equal, return the first. This is
 * NCCL's rule up to 2.30. */
static int smallest(const float *table)
{
    int best = -1;

    for (int i = 0; i < CELLS; i++)
        if (table[i] >= 0.0f && table[i] < 3.6e9f && (best < 0 || table[i] < table[best]))
            best = i;
    return best;
}

static int func_of(const char *coll)
{
    static const char *const name[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                       "AllReduce"};

    for (int f = 0; f < 5; f++)
        if (strcmp(name[f], coll) == 0)
            return f;
    return -1;
}

static void tell_profiler(struct host *host, int rank, const struct record *call, bool general)
{
    static char stream;
    const char *datatype = strcmp(call->dtype, "i32") == 0 ? "ncclInt32" : "ncclFloat32";
    struct nccl_abi_event_v5 api = {.type = NCCL_ABI_EV_COLL_API, .rank = rank,
        .u.api = {.func = call->coll, .count = call->bytes / 4, .datatype = datatype,
                  .stream = &stream}};
    struct nccl_abi_event_v5 coll = {.type = NCCL_ABI_EV_COLL, .rank = rank,
        .u.coll = {.func = call->coll, .count = call->bytes / 4, .datatype = datatype,
                   .algo = "", .proto = ""}};
    void *handle = NULL;

    if (!host->profiler || host->profiler_abi < 5)
        return;
    if (host->mask & NCCL_ABI_EV_COLL_API)
        host->profiler->start_event(host->profiler_ctx[rank], &handle, &api);
    /* up to 2.30, NCCL sends no event for symmetric kernels */
    if (general && host->mask & NCCL_ABI_EV_COLL)
        host->profiler->start_event(host->profiler_ctx[rank], &handle, &coll);
}

static void decide_general(struct host *host, int rank, const struct record *call,
                           struct outcome *out)
{
    float table[CELLS];
    int channels = 0, cell;

    /* NCCL 2.29.3 asks the tuner twice about some calls (docs/reference/nccl-releases.md) */
    for (int i = 0; i < call->asked; i++) {
        memcpy(table, call->table, sizeof table);
        channels = 0;
        host->get_coll_info(host->tuner_ctx[rank], func_of(call->coll), call->tuner_bytes,
                            call->pipe_ops, (float **)table, 7, 3, call->reg_buff, &channels);
    }
    cell = smallest(table);
    out->algo = cell / 3;
    out->proto = cell % 3;
    /* NCCL derives the channel count from the choice, so the record has a count only for NCCL's own
     * choice */
    out->channels = channels ? channels
                    : out->algo == call->algo && out->proto == call->proto ? call->channels
                                                                           : 0;
}

static void decide_symmetric(struct host *host, const struct record *all, int count,
                             const struct record *call, struct outcome *out)
{
    const char *ctas = host_sym_ctas(host);
    const struct record *same = call;
    char env[40];

    if (*ctas || *host->min_ctas) {
        snprintf(env, sizeof env, *ctas ? "NCCL_SYM_CTAS=%s" : "NCCL_MIN_CTAS=%s",
                 *ctas ? ctas : host->min_ctas);
        same = record_with(all, count, call, env);
    }
    out->kernel = same ? same->kernel : call->kernel;
    out->channels = same ? same->channels : 0;
}

int host_call(struct host *host, const struct record *all, int count, const struct record *call,
              struct outcome *outcome_out)
{
    for (int rank = 0; rank < host->ranks; rank++) {
        struct outcome out = {.symmetric = call->symmetric, .algo = -1, .proto = -1};

        tell_profiler(host, rank, call, !call->symmetric);
        if (call->symmetric)
            decide_symmetric(host, all, count, call, &out);
        else
            decide_general(host, rank, call, &out);
        if (rank && (out.algo != outcome_out->algo || out.proto != outcome_out->proto ||
                     out.channels != outcome_out->channels)) {
            fprintf(stderr, "demo: rank %d decided otherwise than rank 0\n", rank);
            return -1;
        }
        *outcome_out = out;
    }
    return 0;
}

void host_close(struct host *host)
{
    for (int r = 0; host->finalize && r < host->ranks; r++)
        host->finalize(host->tuner_ctx[r]);
    for (int r = 0; host->profiler && r < host->ranks; r++)
        host->profiler->finalize(host->profiler_ctx[r]);
    if (host->env_finalize)
        host->env_finalize();
    if (host->tuner_library)
        dlclose(host->tuner_library);
    if (host->profiler_library)
        dlclose(host->profiler_library);
    if (host->env_library)
        dlclose(host->env_library);
    free(host);
}

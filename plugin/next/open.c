/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/next/open.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nccl/names.h"
#include "plugin/log.h"

enum { FILE_MAX = 256, SPOKEN_MAX = 7 /* the newest version of either interface */ };

static const struct {
    const char *what, *variable, *next, *prefix, *symbol;
    int first, last; /* oldest and newest version of the interface that can be chained        */
    int apart;       /* a plugin of this version or later needs an NCCL that also speaks this
                        version or a later one                                                */
    int members;     /* this many functions at the top of the table must not be NULL          */
} kinds[] = {
    [ST_NEXT_TUNER] = {"tuner", "NCCL_TUNER_PLUGIN", "SYMTUNER_NEXT_TUNER", "libnccl-tuner",
                       "ncclTunerPlugin", 2, SPOKEN_MAX, 5, 2},
    [ST_NEXT_PROFILER] = {"profiler", "NCCL_PROFILER_PLUGIN", "SYMTUNER_NEXT_PROFILER",
                          "libnccl-profiler", "ncclProfiler", 1, SPOKEN_MAX, 5, 2},
};

/* One search for each interface version that a copy of NCCL in this process speaks. */
static struct search {
    struct result {
        struct st_next_library library;
        bool named; /* steps 1 to 3 of open.h were tried          */
        bool over;  /* one of steps 1 to 3 ended the search       */
        bool net;   /* step 4 of open.h was tried                 */
    } result;
    atomic_bool said; /* st_next_say has logged the result          */
} searches[ST_NEXT_KINDS][SPOKEN_MAX + 1];

bool st_next_file(const char *prefix, const char *name, int index, char *file)
{
    size_t n = name ? strlen(name) : 0;
    bool library = n >= 3 && strncmp(name, "lib", 3) == 0 && strcmp(name + n - 3, ".so") == 0;

    if (n == 0) {
        snprintf(file, FILE_MAX, "%s.so", prefix);
        return index == 0;
    }
    /* NCCL also accepts a short form of STATIC_PLUGIN, such as "S" or "static". */
    if (index == 0)
        snprintf(file, FILE_MAX, "%.*s", ST_NCCL_NAME_MAX,
                 strncasecmp(name, "STATIC_PLUGIN", n) == 0 ? "" : name);
    else
        snprintf(file, FILE_MAX, "%.*s-%.*s.so", 32, prefix, ST_NCCL_NAME_MAX - 36, name);
    return index == 0 || (index == 1 && !library && !strchr(name, '/'));
}

static const char *file_of(const void *address, const void **base)
{
    Dl_info info;

    if (!dladdr(address, &info))
        return NULL;
    *base = info.dli_fbase;
    return info.dli_fname;
}

/* Is ${table} in our own library, or in a copy of our library? The file of a copy exports both the
 * table and the function symtuner_option_get. */
static bool is_ours(void *library, const void *table)
{
    const void *base = NULL, *own = NULL, *api_base = NULL;
    const void *api = dlsym(library, "symtuner_option_get");

    file_of(table, &base);
    file_of((const void *)(uintptr_t)st_next_find, &own);
    if (base == own)
        return true;
    return api && file_of(api, &api_base) && api_base == base;
}

/* The result of trying a name or a library: USED and REFUSED end the search. */
enum found { USED, REFUSED, OURSELVES, MISSING };

static enum found look(enum st_next_kind kind, void *library, const char *name, int spoken,
                       struct st_next_library *out)
{
    int first = kinds[kind].first, last = kinds[kind].last, unfit = 0;
    const void *base;

    /* As NCCL does, try the version that NCCL speaks, then older versions. Unlike NCCL, then try
     * newer versions: NCCL cannot call these, but we can. */
    for (int i = 0; i <= last - first; i++) {
        int version = i <= spoken - first ? spoken - i : first + i;
        const void *const *table;
        const char *path;
        char symbol[32];

        snprintf(symbol, sizeof symbol, "%s_v%d", kinds[kind].symbol, version);
        table = dlsym(library, symbol);
        if (!table)
            continue;
        if (is_ours(library, table))
            return OURSELVES;
        path = file_of(table, &base);
        snprintf(out->path, sizeof out->path, "%s", path ? path : name);
        if (spoken < kinds[kind].apart && version >= kinds[kind].apart) {
            unfit = version;
            continue;
        }
        for (int member = 1; member <= kinds[kind].members; member++)
            if (!table[member]) {
                snprintf(out->note, sizeof out->note,
                         "%s: its %s lacks function %d; the %s is not chained", out->path, symbol,
                         member, kinds[kind].what);
                return REFUSED;
            }
        out->table = table;
        out->version = version;
        return USED;
    }
    if (unfit)
        snprintf(out->note, sizeof out->note,
                 "%s: its %s speaks v%d, which cannot be served by this NCCL's v%d; not chained",
                 out->path, kinds[kind].what, unfit, spoken);
    else
        snprintf(out->note, sizeof out->note, "%s: no %s that symtuner can chain (%s_v%d to v%d)",
                 name, kinds[kind].what, kinds[kind].symbol, first, last);
    return REFUSED;
}

/* Load the library that NCCL would load for ${name}. On failure return NULL and write the reason to
 * ${note}. ${note} stays empty if there is no such file. */
static void *load(const char *prefix, const char *name, int flags, char *note, size_t size)
{
    char file[FILE_MAX];
    void *library = NULL;

    note[0] = '\0';
    for (int i = 0; !library && st_next_file(prefix, name, i, file); i++) {
        const char *error;

        library = dlopen(file[0] ? file : NULL, flags);
        error = library ? NULL : dlerror();
        if (error && !(strstr(error, file) && strstr(error, "No such file or directory")))
            snprintf(note, size, "%s", error);
    }
    return library;
}

/* Try the library called ${name}; NULL stands for NCCL's default name. If the library is found but
 * not used, out->note may say why. */
static enum found try_name(enum st_next_kind kind, const char *name, int spoken,
                           struct st_next_library *out)
{
    const char *shown = name ? name : kinds[kind].prefix;
    char reason[400];
    void *library;
    enum found found;

    if (name && strcasecmp(name, "none") == 0)
        return REFUSED;
    library = load(kinds[kind].prefix, name, RTLD_NOW | RTLD_LOCAL, reason, sizeof reason);
    if (!library) {
        if (reason[0])
            snprintf(out->note, sizeof out->note, "%s; the %s is not chained", reason,
                     kinds[kind].what);
        return MISSING;
    }
    found = look(kind, library, shown, spoken, out);
    if (found != USED)
        dlclose(library);
    return found;
}

static void search_names(enum st_next_kind kind, const char *chosen, int spoken,
                         struct result *result)
{
    struct st_next_library *out = &result->library;
    const char *set = getenv(kinds[kind].variable);
    enum found found = OURSELVES;

    if (chosen && *chosen) {
        found = try_name(kind, chosen, spoken, out);
        if ((found == MISSING && !out->note[0]) || found == OURSELVES)
            snprintf(out->note, sizeof out->note, "%s=%.80s: %s; no %s is chained",
                     kinds[kind].next, chosen,
                     found == MISSING ? "no such library" : "this is symtuner itself",
                     kinds[kind].what);
        out->wrong = out->note[0] != '\0';
        result->over = true;
        return;
    }
    if (set && *set)
        found = try_name(kind, set, spoken, out);
    if (found == OURSELVES) /* the variable is unset or names symtuner: try NCCL's default name */
        found = try_name(kind, NULL, spoken, out);
    result->over = found == USED || found == REFUSED;
}

/* Look into the NET library if NCCL has loaded it; do not load it. */
static void search_net(enum st_next_kind kind, int spoken, struct result *result)
{
    const char *set = getenv("NCCL_NET_PLUGIN"), *name = set ? set : "libnccl-net.so";

    while (name && *name && strcasecmp(name, "none") != 0) {
        char one[FILE_MAX], note[8];
        size_t n = strcspn(name, ",");
        void *library;

        snprintf(one, sizeof one, "%.*s", (int)(n < ST_NCCL_NAME_MAX ? n : ST_NCCL_NAME_MAX), name);
        library =
            n ? load("libnccl-net", one, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, note, sizeof note)
              : NULL;
        if (library) {
            struct st_next_library found = {0};

            if (look(kind, library, one, spoken, &found) == USED) {
                result->library = found;
                return;
            }
            dlclose(library); /* no message, because few NET libraries have a tuner or profiler */
        }
        name += n + (name[n] == ',');
    }
}

const struct st_next_library *st_next_find(enum st_next_kind kind, const char *chosen, int spoken,
                                           bool net)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct result *known = &searches[kind][spoken].result, mine;

    pthread_mutex_lock(&lock);
    mine = *known;
    pthread_mutex_unlock(&lock);
    /* Search without our lock. The loader has a lock of its own, which another thread may hold
     * while it runs a constructor that calls us. If two threads search at once, both find the same
     * library. */
    if (!mine.named)
        search_names(kind, chosen, spoken, &mine);
    mine.named = true;
    if (net && !mine.over && !mine.net) {
        mine.net = true;
        search_net(kind, spoken, &mine);
    }
    pthread_mutex_lock(&lock);
    if (!known->named) {
        *known = mine;
    } else if (mine.net && !known->net && !known->over) {
        known->net = true;
        if (mine.library.table)
            known->library = mine.library;
    }
    pthread_mutex_unlock(&lock);
    return &known->library;
}

const char *st_next_name(const struct st_next_library *library)
{
    const char *name = *(const char *const *)library->table;

    return name ? name : "(no name)";
}

void st_next_say(enum st_next_kind kind, const struct st_next_library *library)
{
    /* ${library} is the first member of the first member of its struct search. */
    struct search *search = (struct search *)(uintptr_t)library;

    if ((!library->table && !library->note[0]) || atomic_exchange(&search->said, true))
        return;
    if (library->table)
        st_info("behind this %s: \"%s\" (v%d) of %s", kinds[kind].what, st_next_name(library),
                library->version, library->path);
    else
        (library->wrong ? st_warn : st_info)("%s", library->note);
}

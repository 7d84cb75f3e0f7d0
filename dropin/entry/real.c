/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/entry/real.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- entries --------------------------------------------------------------------------------- */

struct st_real st_reals[ST_REALS];
static atomic_int real_count;
static _Atomic(struct st_real *) others; /* the copies that the drop-in does not follow */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Four functions that every NCCL has. A library that defines all four is a copy of NCCL. Some other
 * libraries define functions of NCCL, too, to intercept calls as we do, but all that we know lack
 * at least one of the four. We look up ncclGetErrorString first, because none of those libraries
 * defines it. */
#define LANDMARK "ncclGetErrorString"
static const char *const others_of_nccl[] = {"ncclGetUniqueId", "ncclCommInitRank",
                                             "ncclGroupStart"};

static const void *base_of(const void *symbol)
{
    Dl_info info;

    return symbol && dladdr(symbol, &info) ? info.dli_fbase : NULL;
}

/* dl_iterate_phdr calls this for each library. If the library is that of the entry ${self}, write
 * into the entry where the library's code begins and ends. */
static int find_text(struct dl_phdr_info *info, size_t size, void *self)
{
    struct st_real *real = self;
    uintptr_t here = (uintptr_t)real->base;
    bool ours = false;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        ours |= info->dlpi_phdr[i].p_type == PT_LOAD &&
                here - (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) < info->dlpi_phdr[i].p_memsz;
    for (int i = 0; i < info->dlpi_phnum && ours; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        real->text = info->dlpi_addr + part->p_vaddr;
        real->text_end = real->text + part->p_memsz;
    }
    return ours;
}

/* Fill an entry with the functions found in ${scope}, which is the library or RTLD_NEXT. */
static void fill(struct st_real *real, void *scope)
{
    st_dlsym *find = st_real_dlsym();
    int (*version)(int *) = NULL;

    for (int i = 0; i < ST_KNOWN; i++)
        real->function[i] = find(scope, st_known_name[i]);
    *(void **)&real->comm_count = find(real->library, "ncclCommCount");
    *(void **)&real->comm_rank = find(real->library, "ncclCommUserRank");
    *(void **)&real->comm_device = find(real->library, "ncclCommCuDevice");
    *(void **)&version = find(real->library, "ncclGetVersion");
    if (!version || version(&real->version) != 0)
        real->version = 0;
    dl_iterate_phdr(find_text, real);
}

static struct st_real *known(const void *base)
{
    int count = atomic_load_explicit(&real_count, memory_order_acquire);

    for (int i = 0; i < count; i++)
        if (st_reals[i].base == base)
            return &st_reals[i];
    for (struct st_real *real = atomic_load_explicit(&others, memory_order_acquire); real;
         real = real->next)
        if (real->base == base)
            return real;
    return NULL;
}

/* Store the new entry ${made}, and return it. Returns NULL if memory is short. The caller holds
 * ${lock}. */
static struct st_real *keep(const struct st_real *made)
{
    const int index = real_count;
    struct st_real *real = index < ST_REALS ? &st_reals[index] : malloc(sizeof *real);

    if (!real)
        return NULL;
    *real = *made;
    real->index = index;
    if (index < ST_REALS) {
        atomic_fetch_add_explicit(&real_count, 1, memory_order_release);
    } else {
        real->next = atomic_load(&others);
        atomic_store_explicit(&others, real, memory_order_release);
    }
    return real;
}

/* Return the entry of the copy of NCCL that ${landmark} lies in. ${next}: the program finds this
 * copy through the global scope. Other libraries there may define some of NCCL's functions and come
 * first. So the entry then gets the functions that the program would find there. */
static struct st_real *entry_at(const void *landmark, bool next)
{
    struct st_real made = {0}, *real;
    Dl_info info;

    if (!landmark || !dladdr(landmark, &info))
        return NULL;
    real = known(info.dli_fbase);
    if (real)
        return real;
    /* Fill the entry before we take our lock. The loader has a lock of its own, which another
     * thread may hold while it runs a constructor that calls us. */
    made.base = info.dli_fbase;
    made.library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    made.path = strdup(info.dli_fname);
    if (!made.library) /* NCCL is linked into the program itself */
        made.library = dlopen(NULL, RTLD_LAZY);
    fill(&made, next ? RTLD_NEXT : made.library);
    pthread_mutex_lock(&lock);
    real = known(made.base);
    if (!real) {
        real = keep(&made);
        if (real)
            made.library = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (made.library) { /* another thread has made the entry meanwhile, or memory is short */
        free((void *)made.path);
        dlclose(made.library);
    }
    return real;
}

static struct st_real *followed(struct st_real *real)
{
    return real && real->index < ST_REALS ? real : NULL;
}

struct st_real *st_real_at(const void *symbol)
{
    st_dlsym *find = st_real_dlsym();
    const void *base = base_of(symbol), *landmark = NULL;
    struct st_real *real = base ? known(base) : NULL;
    void *library;
    Dl_info info;

    if (real || !base || !dladdr(symbol, &info))
        return followed(real);
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return NULL;
    landmark = find(library, LANDMARK);
    if (base_of(landmark) != base)
        landmark = NULL;
    for (size_t i = 0; landmark && i < sizeof others_of_nccl / sizeof *others_of_nccl; i++)
        if (base_of(find(library, others_of_nccl[i])) != base)
            landmark = NULL;
    real = landmark ? entry_at(landmark, false) : NULL;
    dlclose(library);
    return followed(real);
}

/* ---- callers --------------------------------------------------------------------------------- */

enum { CALLERS = 1024, TRIES = 8 }; /* CALLERS: a power of two */

/* A cache: the code at the address ${caller} calls the copy of NCCL ${real}. ${real} is written
 * before ${caller}, so a thread that reads ${caller} reads the right ${real}, too. */
static struct {
    _Atomic(const void *) caller;
    _Atomic(struct st_real *) real;
} callers[CALLERS];

static size_t place_of(const void *caller)
{
    return (size_t)(((uint64_t)(uintptr_t)caller * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % CALLERS;
}

static void remember(const void *caller, struct st_real *real)
{
    size_t place = place_of(caller);

    pthread_mutex_lock(&lock);
    for (int i = 0; i < TRIES; i++, place = (place + 1) % CALLERS) {
        if (callers[place].caller)
            continue;
        atomic_store_explicit(&callers[place].real, real, memory_order_relaxed);
        atomic_store_explicit(&callers[place].caller, caller, memory_order_release);
        break;
    }
    pthread_mutex_unlock(&lock);
}

/* Return the copy of NCCL to which the dynamic linker would have bound the caller without the
 * drop-in. */
static struct st_real *look_up(const void *caller)
{
    st_dlsym *find = st_real_dlsym();
    void *landmark = find(RTLD_NEXT, LANDMARK), *library;
    struct link_map *map = NULL;
    Dl_info info;

    if (landmark)
        return entry_at(landmark, true);
    if (dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) && map) {
        library = dlopen(*map->l_name ? map->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
        landmark = library ? find(library, LANDMARK) : NULL;
        if (library)
            dlclose(library);
        if (landmark)
            return entry_at(landmark, false);
    }
    library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        return entry_at(find(library, LANDMARK), false);
    return atomic_load(&real_count) ? &st_reals[0] : NULL;
}

struct st_real *st_real_of(struct st_from from)
{
    size_t place = place_of(from.caller);
    struct st_real *real;

    if (from.real)
        return from.real;
    for (int i = 0; i < TRIES; i++, place = (place + 1) % CALLERS) {
        const void *caller = atomic_load_explicit(&callers[place].caller, memory_order_acquire);

        if (caller == from.caller)
            return atomic_load_explicit(&callers[place].real, memory_order_relaxed);
        if (!caller)
            break;
    }
    real = look_up(from.caller);
    if (real)
        remember(from.caller, real);
    return real;
}

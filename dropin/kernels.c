/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/kernels.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "dropin/settings.h"
#include "nccl/release.h"

static struct st_kernels kernels;
static bool tried;  /* ${kernels} and ${loaded} are set, and do not change any more */
static bool loaded; /* all functions of our kernels were found */
static const struct st_real *user; /* the copy of NCCL that the kernels use */
static bool promised;              /* we told our kernels that NCCL's kernels wait for them */
static bool may_not_wait;          /* NCCL can now run a kernel that does not wait for ours */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

atomic_bool st_promise_gone;

/* Write the path of libsymtuner_ar.so in the drop-in's own folder to ${path}. */
static bool beside(char *path, size_t size)
{
    static const char name[] = "libsymtuner_ar.so";
    const char *slash;
    Dl_info info;

    if (!dladdr((void *)(uintptr_t)st_kernels_for, &info) ||
        !(slash = strrchr(info.dli_fname, '/')))
        return false;
    return snprintf(path, size, "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname, name) <
           (int)size;
}

static bool load(struct st_kernels *k)
{
    st_dlsym *find = st_real_dlsym();
    const char *missing = NULL;
    char path[PATH_MAX];
    void *library;

    if (!beside(path, sizeof path))
        return false;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        st_warn_once("no kernels, so NCCL runs all calls: %s", dlerror());
        return false;
    }
#define X(name) *(void **)&k->name##_ = find(library, "symtuner_ar_" #name);
    ST_KERNELS_LATER_MAP(X)
#undef X
#define X(name)                                                                                    \
    *(void **)&k->name##_ = find(library, "symtuner_ar_" #name);                                   \
    if (!k->name##_)                                                                               \
        missing = "symtuner_ar_" #name;
    ST_KERNELS_MAP(X)
#undef X
    if (missing)
        st_warn_once("%s has no %s, so NCCL runs all calls: install one version of symtuner", path,
                     missing);
    return !missing;
}

/* Store the functions that load() has found, and the copy of NCCL ${real} if our kernels use it
 * (${chosen}). The caller holds ${lock}. */
static void take(const struct st_kernels *found, bool ok, bool chosen, const struct st_real *real)
{
    if (!tried) {
        kernels = *found;
        loaded = ok;
    }
    tried = true;
    if (user || !chosen)
        return;
    user = real;
    if (!may_not_wait && kernels.followers_wait_ && kernels.separate_)
        promised = kernels.followers_wait_(1) == NCCL_ABI_SUCCESS;
}

const struct st_kernels *st_kernels_for(const struct st_real *real)
{
    struct st_kernels found = {0};
    bool ok = false, chosen = false, first, used;

    pthread_mutex_lock(&lock);
    first = !tried;
    pthread_mutex_unlock(&lock);
    /* Load, and make our kernels use ${real}, without our lock. The loader has a lock of its own,
     * which another thread may hold while it runs a constructor that calls us. If two threads load
     * at once, both find the same functions, and our kernels use the copy of NCCL that was named
     * first. */
    if (first)
        ok = load(&found);
    if (ok)
        chosen = found.use_nccl_(real->library) == NCCL_ABI_SUCCESS;
    if (ok && !chosen)
        st_warn_once("NCCL runs all calls: %s", found.error_(NULL));
    pthread_mutex_lock(&lock);
    if (first)
        take(&found, ok, chosen, real);
    used = loaded && user == real;
    pthread_mutex_unlock(&lock);
    return used ? &kernels : NULL;
}

bool st_kernels_loaded(void)
{
    return loaded;
}

/* ---- the kernels that follow ours ------------------------------------------------------------ */

static enum st_pdl_rule pdl_of(const struct st_real *real)
{
    return real->version > 0 ? st_era_of(real->version)->pdl : ST_PDL_ANYWHERE;
}

static void take_back(void)
{
    pthread_mutex_lock(&lock);
    may_not_wait = true;
    if (promised && !atomic_load(&st_promise_gone)) {
        kernels.followers_wait_(0);
        atomic_store(&st_promise_gone, true);
    }
    pthread_mutex_unlock(&lock);
}

void st_followers_comm(const struct st_real *real)
{
    if (pdl_of(real) == ST_PDL_ANYWHERE)
        take_back();
}

void st_followers_window(const struct st_real *real)
{
    if (pdl_of(real) != ST_PDL_WAITS)
        take_back();
}

void st_separate_now(const struct st_real *real, void *stream)
{
    /* We need not check the result. separate_ launches a kernel; if CUDA refuses this one, it will
     * refuse NCCL's kernel, too, and the program sees that error. */
    if (pdl_of(real) != ST_PDL_WAITS)
        kernels.separate_(stream);
}

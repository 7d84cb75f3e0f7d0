/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/verify/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static struct st_cuda cuda;
static bool there;
static atomic_bool tried; /* ${cuda} and ${there} are set, and do not change any more */

/* Find the functions. Returns whether all are there. */
static bool load(struct st_cuda *found)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    bool all = library != NULL;

#define X(name, symbol, params)                                                                    \
    *(void **)&found->name = library ? dlsym(library, symbol) : NULL;                              \
    all = all && found->name;
    ST_CUDA_MAP(X)
#undef X
    return all;
}

/* Load without our lock. The loader has a lock of its own, which another thread may hold while it
 * runs a constructor that calls us. If two threads load at once, both find the same functions. */
static void load_once(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct st_cuda found;
    bool all = load(&found);

    pthread_mutex_lock(&lock);
    if (!atomic_load(&tried)) {
        cuda = found;
        there = all;
        atomic_store(&tried, true);
    }
    pthread_mutex_unlock(&lock);
}

const struct st_cuda *st_cuda(void)
{
    if (!atomic_load_explicit(&tried, memory_order_acquire))
        load_once();
    return there ? &cuda : NULL;
}

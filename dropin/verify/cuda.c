/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/verify/cuda.h"

#include <dlfcn.h>
#include <pthread.h>

static struct st_cuda cuda;
static bool there;

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    there = library != NULL;
#define X(name, symbol, params)                                                                    \
    *(void **)&cuda.name = library ? dlsym(library, symbol) : NULL;                                \
    there = there && cuda.name;
    ST_CUDA_MAP(X)
#undef X
}

const struct st_cuda *st_cuda(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return there ? &cuda : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/verify/cuda.h"

#include <dlfcn.h>

#include "base/set_once.h"

struct found {
    struct st_cuda cuda;
    bool all; /* the driver is loaded, and has all functions */
};

static void load(struct found *f)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    f->all = library != NULL;
#define X(name, symbol, params)                                                                    \
    *(void **)&f->cuda.name = library ? dlsym(library, symbol) : NULL;                             \
    f->all = f->all && f->cuda.name;
    ST_CUDA_MAP(X)
#undef X
}

const struct st_cuda *st_cuda(void)
{
    static struct found found;
    static atomic_bool known;

    if (!st_is_set(&known)) {
        struct found mine;

        load(&mine);
        st_set_once(&known, &found, &mine, sizeof mine);
    }
    return found.all ? &found.cuda : NULL;
}

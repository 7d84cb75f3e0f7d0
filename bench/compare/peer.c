/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - load another project's all-reduce from a shared library. */
#include <dlfcn.h>
#include <stdio.h>

#include "bench/compare/peer.h"

const struct peer_api *peer_load(const char *path)
{
    const struct peer_api *(*get)(void), *api;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        fprintf(stderr, "ar_compare: %s\n", dlerror());
        return NULL;
    }
    *(void **)&get = dlsym(library, "ar_compare_peer");
    api = get != NULL ? get() : NULL;
    if (api == NULL || api->version != PEER_VERSION) {
        fprintf(stderr, "ar_compare: %s: %s\n", path,
                api == NULL ? "exports no ar_compare_peer()"
                            : "is built for another version of peer.h");
        return NULL;
    }
    return api;
}

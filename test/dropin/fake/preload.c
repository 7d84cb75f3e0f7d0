/* SPDX-License-Identifier: Apache-2.0 */
/* preload.c - another preloaded library. It records each ncclAllReduce and passes it on. */
#include <dlfcn.h>
#include <stdio.h>

__attribute__((visibility("default"))) int ncclAllReduce(const void *send, void *recv, size_t count,
                                                         int dtype, int op, void *comm,
                                                         void *stream);

int ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                  void *stream)
{
    int (*next)(const void *, void *, size_t, int, int, void *, void *);

    *(void **)&next = dlsym(RTLD_NEXT, "ncclAllReduce");
    printf("preload:%zu\n", count);
    fflush(stdout);
    return next(send, recv, count, dtype, op, comm, stream);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "test/dropin/play/play.h"

#include <string.h>

#define X(name) int nccl##name(void);
ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) int nccl##name params;
ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args)                                            \
    int nccl##name params __attribute__((weak)); /* weak, because the fake lacks some functions, as
                                                    an old NCCL does */
ST_FORWARDED_MAP(X)
#undef X
int ncclFromTheFuture(int x);
int ncclGetUniqueId(struct nccl_abi_id *id);
struct record *fake_record(void);

void nccl_linked(struct nccl *nccl)
{
#define X(name) nccl->f.name = nccl##name;
    ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) nccl->f.name = nccl##name;
    ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args) nccl->f.name = nccl##name;
    ST_FORWARDED_MAP(X)
#undef X
    nccl->future = ncclFromTheFuture;
    nccl->id = ncclGetUniqueId;
    nccl->record = fake_record();
}

/* Look up ${name}. dlerror must say whether this dlsym has failed, and nothing about what the
 * drop-in itself has looked up. */
static void *look_up(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    MUST((dlerror() == NULL) == (symbol != NULL));
    return symbol;
}

void nccl_opened(struct nccl *nccl, void *library)
{
    struct record *(*record)(void);

#define X(name) *(void **)&nccl->f.name = look_up(library, "nccl" #name);
    ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) *(void **)&nccl->f.name = look_up(library, "nccl" #name);
    ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args)                                            \
    *(void **)&nccl->f.name = look_up(library, "nccl" #name);
    ST_FORWARDED_MAP(X)
#undef X
    *(void **)&nccl->future = dlsym(library, "ncclFromTheFuture");
    *(void **)&nccl->id = dlsym(library, "ncclGetUniqueId");
    *(void **)&record = dlsym(library, "fake_record");
    nccl->record = record();
}

struct record *kernels(void)
{
    void *library = dlopen("libsymtuner_ar.so", RTLD_NOW | RTLD_NOLOAD);
    struct record *(*record)(void) = NULL;

    if (library)
        *(void **)&record = dlsym(library, "fake_kernels");
    return record ? record() : NULL;
}

int play_case(const struct play_case *cases, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(cases[i].name, name) == 0) {
            cases[i].run();
            return 0;
        }
    fprintf(stderr, "no case %s\n", name);
    return 1;
}

const char *said(struct record *record)
{
    static _Thread_local char text[sizeof record->text];

    memcpy(text, record->text, sizeof text);
    record->text[0] = '\0';
    return text;
}

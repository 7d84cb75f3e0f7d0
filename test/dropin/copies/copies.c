/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies.c - opens six libraries that are linked with six copies of NCCL, two more than the drop-in
 * follows. Each call must reach the copy that the caller is linked with, or that it asked dlsym
 * for. This program itself is not linked with NCCL.
 *
 * usage: copies FOLDER    under the drop-in, on copies of the fake NCCL. FOLDER has caller-1.so to
 *                         caller-6.so. Exit 1: stderr says which line failed.
 */
#include <dlfcn.h>

#include "dropin/entry/real.h"
#include "test/dropin/fake/record.h"
#include "test/must.h"

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    MUST(symbol != NULL);
    return symbol;
}

static struct record *record_of(void *library, const char *name)
{
    struct record *(*record)(void);

    *(void **)&record = find(library, name);
    return record();
}

static void wants(struct record *record, const char *text)
{
    if (strcmp(record->text, text) != 0) {
        fprintf(stderr, "heard \"%s\"\n want \"%s\"\n", record->text, text);
        exit(1);
    }
    record->text[0] = '\0';
}

/* Make calls on copy ${number}. NCCL refuses the broadcast of a group, so the group fails. Only the
 * communicators of the first copy get handles: there the all-reduce would run on our kernels after
 * the group, and so it is dropped. */
static void try_copy(const char *folder, int number)
{
    int (*make)(void **), (*call)(void *),
        (*reduce)(const void *, void *, size_t, int, int, void *, void *);
    struct record *record, *kernels;
    float a[64] = {0};
    char path[512];
    void *library, *comm[2];

    snprintf(path, sizeof path, "%s/caller-%d.so", folder, number);
    MUST((library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) != NULL);
    *(void **)&make = find(library, "caller_make");
    *(void **)&call = find(library, "caller_call");
    record = record_of(library, "fake_record");
    MUST(make(comm) == 0);
    kernels = record_of(dlopen("libsymtuner_ar.so", RTLD_NOW | RTLD_NOLOAD), "fake_kernels");
    wants(kernels, number == 1 ? "create:2 " : "");
    /* The drop-in does not see the windows of the fifth copy. */
    MUST(kernels->promises == 1 && kernels->taken_back == (number > ST_REALS));
    record->text[0] = '\0';
    record->fail = 4;
    MUST(call(comm[0]) == 4);
    wants(record, number == 1
                      ? "GroupStart Broadcast:8 GroupEnd GroupStart GroupSimulateEnd Destroy "
                      : "GroupStart Broadcast:8 AllReduce:16 GroupEnd GroupStart GroupSimulateEnd "
                        "Destroy ");
    *(void **)&reduce = find(library, "ncclAllReduce");
    MUST(reduce(a, a, 9, 7, 0, NULL, NULL) == 0);
    wants(record, "AllReduce:9 ");
    wants(kernels, number == 1 ? "query destroy:1 " : "");
}

int main(int argc, char **argv)
{
    MUST(argc == 2);
    for (int i = 1; i <= ST_REALS + 2; i++)
        try_copy(argv[1], i);
    return 0;
}

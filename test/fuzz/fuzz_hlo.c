/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_hlo.c - reads arbitrary bytes as a HloModuleProto, replaces whatever can be replaced, and
 * reads the result again. The editor may not crash, and must keep every demand() below.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jax/hlo/hlo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "broken promise: %s\n", what);
        abort();
    }
}

static void check_groups(const struct symtuner_hlo_call *call)
{
    demand(call->ranks >= 2 && call->ranks <= 16 && call->rows >= 1, "groups have 2 to 16 ranks");
    demand(call->op >= 0 && call->op <= 3 && call->bytes >= 0, "the operator is one of NCCL's");
    for (int row = 0; row < call->rows; row++)
        for (int i = 1; i < call->ranks; i++) {
            const int64_t *id = &call->groups[row * call->ranks + i];

            demand(id[0] > id[-1] && id[-1] >= 0, "a group is sorted and has each device once");
        }
}

/* Return how many of the collectives can be replaced, and mark all of them. */
static int replace_all(struct symtuner_hlo *module, int *collectives)
{
    struct symtuner_hlo_call call;
    int replaced = 0;

    for (*collectives = 0; symtuner_ffi_hlo_call(module, *collectives, &call) == 0;
         (*collectives)++) {
        int can = call.why[0] == '\0';

        if (can)
            check_groups(&call);
        demand((symtuner_ffi_hlo_replace(module, *collectives, "target", can) == 0) == can,
               "what has a reason is not replaced");
        replaced += can;
    }
    return replaced;
}

/* Join calls, and return how many shared calls result. If there are several, undo the first. */
static int join(struct symtuner_hlo *module)
{
    struct symtuner_hlo_joined joined;
    char why[256];
    int shared = 0;

    demand(symtuner_ffi_hlo_join(module, why, sizeof why) == 0, "calls can be joined");
    for (int i = 0; symtuner_ffi_hlo_joined(module, i, &joined) == 0; i++) {
        demand(joined.count == 0 || (joined.count >= 3 && joined.size > 0),
               "at least three share a call, which has attributes");
        shared += joined.count > 0;
    }
    if (shared > 1)
        demand(symtuner_ffi_hlo_part(module, 0) == 0, "a shared call can be parted");
    return shared;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct symtuner_hlo *module = NULL, *again = NULL;
    char why[256] = "", name[64];
    const void *bytes;
    size_t written;
    int before, after, replaced, shared;

    if (symtuner_ffi_hlo_open(data, size, &module, why, sizeof why) != 0) {
        demand(module == NULL && why[0] != '\0', "a refusal has a reason");
        return 0;
    }
    symtuner_ffi_hlo_name(module, name, sizeof name);
    demand(symtuner_ffi_hlo_write(module, &bytes, &written, why, sizeof why) == 0 &&
               (symtuner_ffi_hlo_in_place(module) > 0 ||
                (written == size && (size == 0 || memcmp(bytes, data, size) == 0))),
           "a module without edits is written as it was");
    replaced = replace_all(module, &before);
    shared = join(module);
    demand(symtuner_ffi_hlo_write(module, &bytes, &written, why, sizeof why) == 0,
           "an edited module can be written");
    demand(symtuner_ffi_hlo_open(bytes, written, &again, why, sizeof why) == 0,
           "an edited module can be read");
    demand(replace_all(again, &after) == 0 && after == before - replaced,
           "nothing is left to replace, and nothing else is gone");
    demand(shared == 0 || join(again) == 0, "what shares calls shares no others");
    symtuner_ffi_hlo_close(again);
    symtuner_ffi_hlo_close(module);
    return 0;
}

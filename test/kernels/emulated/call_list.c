/* SPDX-License-Identifier: Apache-2.0 */
/* call_list.c - makes lists of random calls, which all ranks make one after the other. */
#include "test/kernels/emulated/call_list.h"

#include <string.h>

#include "kernels/choose/families.h"
#include "kernels/shared/coll.h"
#include "kernels/shared/dtypes.h"
#include "test/kernels/emulated/call_make.h"

unsigned list_draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 9) % below;
}

/* Choose the alignment of ${c} by its number in the list, c->salt. 48 calls in a row are three sets
 * of 16. The sets differ in whether calls are in place, and in whether all ranks' buffers are
 * aligned alike. In each set, buffers begin at every byte at which they may begin. */
static void align_every_way(struct call *c)
{
    static const size_t counts[] = {15, 16, 17, 31, 47, 48, 64, 119, 120, 121, 240, 1000, 1013};
    bool floats = strstr(c->kernel, "lamport") != NULL;

    c->dtype = floats ? AR_BF16 : AR_U8;
    c->shift = (size_t)c->salt * (floats ? 2 : 1) % 16;
    c->count = counts[(size_t)c->salt * 5 % (sizeof counts / sizeof *counts)];
    c->in_place = c->salt / 16 % 3 != 0;
    c->registered = false;
    c->apart = c->salt / 16 % 3 != 1;
}

const char *const list_kernels[LIST_KERNELS] = {
    "one_ll8",     "one_ll128", "one_lamport", "two_ll8", "two_ll128",
    "two_lamport", "chunked",   "tma_staged",  "tma_ipc", /* the kernels up to here take buffers at
                                                             any address */
    "pull",        "pull_one",  "copy",        "tma",     "tma_engines"};

/* The kernels of reduce-scatter and of all-gather. */
static const char *const scatters[] = {"one_ll8", "one_ll128", "one_lamport", "chunked",
                                       "pull",    "tma",       "tma_staged",  "tma_ipc"};
static const char *const gathers[] = {"one_ll8", "one_ll128",  "chunked", "pull",   "copy",
                                      "tma",     "tma_staged", "engines", "tma_ipc"};
enum { SCATTERS = sizeof scatters / sizeof *scatters, GATHERS = sizeof gathers / sizeof *gathers };

/* Make a third of the calls reduce-scatters, and another third all-gathers. */
static void draw_coll(struct call *c, unsigned *state, const char *only)
{
    c->coll = (int)list_draw(state, AR_COLLS);
    if (c->coll == AR_REDUCE_SCATTER)
        c->kernel = scatters[list_draw(state, SCATTERS)];
    else if (c->coll == AR_ALL_GATHER)
        c->kernel = gathers[list_draw(state, GATHERS)];
    if (only != NULL && ar_family_needs(ar_family_by_name(only), c->coll) != 0)
        c->kernel = only;
}

/* Take each kernel in turn. With each, take every float type in turn, and every operator that is
 * listed here. */
static void add_every_way(struct call *c)
{
    static const int floats[] = {AR_F64, AR_F32, AR_BF16, AR_F16, AR_F8E5M2, AR_F8E4M3};
    static const int ops[] = {AR_SUM, AR_AVG, AR_PREMUL, AR_PROD};
    bool lamport = strstr(c->kernel, "lamport") != NULL;
    int turn = c->salt / LIST_KERNELS;

    c->dtype = floats[lamport ? 1 + turn % 3 : (turn + c->salt % LIST_KERNELS) % 6];
    c->op = lamport ? turn % 2 ? AR_AVG : AR_SUM : ops[turn % 4];
    c->ctas = 1;
    c->threads = 32 << turn % 2;
    c->count %= 300;
    c->count += 16;
}

void list_make(struct call *list, int calls, const struct list_kind *kind, unsigned seed, int ranks,
               const char *only)
{
    unsigned state = seed;

    for (int i = 0; i < calls; i++) {
        struct call *c = &list[i];
        int aligned;

        c->kernel = only != NULL
                        ? only
                        : list_kernels[kind->every_sum ? i % LIST_KERNELS
                                                       : (int)list_draw(&state, LIST_KERNELS)];
        if (kind->three_colls)
            draw_coll(c, &state, only);
        aligned = strcmp(c->kernel, "pull") == 0 || strcmp(c->kernel, "pull_one") == 0 ||
                  strcmp(c->kernel, "copy") == 0 || strcmp(c->kernel, "tma") == 0 ||
                  strcmp(c->kernel, "tma_engines") == 0;
        c->dtype =
            /* In one of three calls take f32, because its sums are rounded. */
            list_draw(&state, 3) ? (int)list_draw(&state, AR_DTYPES) : AR_F32;
        c->op = kind->every_product ? AR_PREMUL : (int)list_draw(&state, AR_OPS + 1);
        if (strstr(c->kernel, "lamport") != NULL) {
            static const int floats[] = {AR_F32, AR_F16, AR_BF16};

            c->dtype = floats[list_draw(&state, 3)];
            c->op = kind->every_product || !list_draw(&state, 3) ? AR_PREMUL
                    : list_draw(&state, 2)                       ? AR_AVG
                                                                 : AR_SUM;
        }
        c->ctas = 1 + (int)list_draw(&state, 2);
        c->threads = (strncmp(c->kernel, "tma", 3) == 0 ? 128 : 32) << list_draw(&state, 2);
        c->count = 1 + list_draw(&state, list_draw(&state, 3) ? 1000 : MAX_BYTES / 8);
        c->salt = i;
        if (kind->every_sum)
            add_every_way(c);
        c->shift = aligned ? 0
                           : list_draw(&state, 16 / (unsigned)ar_dtype_bytes(c->dtype)) *
                                 (unsigned)ar_dtype_bytes(c->dtype);
        /* Make about half of the messages aligned and of whole words. Shorter variants of the
         * kernels run these messages. */
        if (kind->unregistered || list_draw(&state, 2)) {
            c->count = c->count < 16 ? 16 : c->count / 16 * 16;
            c->shift = 0;
        }
        c->registered = aligned || list_draw(&state, 2);
        c->in_place = strcmp(c->kernel, "pull_one") != 0 && list_draw(&state, 3) == 0;
        c->apart = !c->registered && list_draw(&state, 2);
        if (c->coll != AR_ALL_REDUCE)
            c->count = (c->count + (size_t)ranks - 1) / (size_t)ranks;
        if (c->coll != AR_ALL_REDUCE &&
            (strcmp(c->kernel, "tma") == 0 || strcmp(c->kernel, "tma_ipc") == 0))
            c->count = (c->count + 15) / 16 * 16; /* makes the parts whole words */
        if (kind->every_way)
            align_every_way(c);
        if (c->op == AR_PREMUL && !call_may_multiply(c))
            c->op = AR_SUM;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_choices.c - compares every choice of the built-in selection table with a golden file. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/kernels/choose/ask.h"
#include "test/kernels/suites.h"

#define GOLDEN "test/golden/ar/choices.txt"

/* A range of sizes with the same choice, except that the number of blocks may differ. */
struct run {
    unsigned long long first, last;
    int few, many; /* the number of blocks at the first size, and at the last */
    char way[256];
};

static void print_run(FILE *out, const struct run *run)
{
    if (run->way[0] == 0)
        return;
    fprintf(out, "  %9llu..%-9llu ", run->first, run->last);
    if (run->few == run->many)
        fprintf(out, "%d blocks%s\n", run->few, run->way);
    else
        fprintf(out, "%d..%d blocks%s\n", run->few, run->many, run->way);
}

/* A hint says what runs beside the calls (ask.beside). Return whether the hint of ${ask} is not
 * "alone", although the hint "alone" would lead to the same ${choice}. */
static bool as_alone(struct ar_ask ask, const struct ar_force *force,
                     const struct ar_choice *choice)
{
    struct ar_choice alone;
    const bool hinted = ask.beside != AR_BESIDE_NOTHING;

    ask.beside = AR_BESIDE_NOTHING;
    return hinted && ar_select(&ask, force, &alone) == 0 &&
           memcmp(&alone, choice, sizeof alone) == 0;
}

/* Print what is chosen for 2, 3, 5 and 15 times a power of two, and for one byte less and more. */
static void print_choices(FILE *out, struct ar_ask ask, const struct ar_force *force)
{
    static const unsigned parts[] = {16, 20, 24, 30};
    struct run run = {.way = ""};

    for (uint64_t unit = 1; unit <= 32 << 20; unit *= 2)
        for (int i = 0; i < 3 * 4; i++) {
            struct run now = {.way = ""};
            struct ar_choice c;
            char why[200];
            int n = 0;

            ask.bytes = unit * parts[i / 3] + (uint64_t)(i % 3) - 1;
            ask.bytes *= (uint64_t)ar_coll_parts(ask.coll, ask.ranks);
            now.first = now.last = ask.bytes;
            if (ar_select(&ask, force, &c) != 0)
                continue; /* AR_NVLS takes only whole words */
            if (as_alone(ask, force, &c))
                continue;
            now.few = now.many = c.ctas;
            n = snprintf(now.way, sizeof now.way, " of %d: %s", c.threads,
                         ar_family_name(c.family));
            if (c.lag != 0)
                n += snprintf(now.way + n, sizeof now.way - (size_t)n, " lag %d", c.lag);
            if (c.pieces != 1 && ar_families[c.family].rest == 0)
                n += snprintf(now.way + n, sizeof now.way - (size_t)n, " in pieces of %llu",
                              (unsigned long long)c.piece);
            ar_select_why(&ask, &c, why, sizeof why);
            if (strstr(why, " (") != NULL)
                *strstr(why, " (") = 0; /* leave out the words that say who measured this */
            snprintf(now.way + n, sizeof now.way - (size_t)n, "; %s", why);
            if (strcmp(now.way, run.way) == 0) {
                run.last = now.last;
                run.many = now.many;
                continue;
            }
            print_run(out, &run);
            run = now;
        }
    print_run(out, &run);
}

static void print_free_choices(FILE *out)
{
    static const int ranks[] = {2, 3, 4, 5, 16};
    static const char *const links[AR_LINKS] = {
        [AR_LINKS_NVLINK] = "nvlink", [AR_LINKS_PCIE] = "pcie", [AR_LINKS_HOST] = "host"};

    for (int l = 0; l < AR_LINKS; l++)
        for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
            for (int k = 0; k < 4; k++) {
                static const char *const kind[] = {"bf16, registered", "i32, registered",
                                                   "bf16, not registered",
                                                   "bf16, not registered, no communicator"};
                struct ar_ask ask = ask_for(ranks[r], l, 0, k == 1 ? AR_I32 : AR_BF16, AR_SUM);

                ask.dst_mapped = ask.src_mapped = k < 2;
                ask.has_nccl = k < 3;
                fprintf(out, "%s, %d ranks, %s\n", links[l], ranks[r], kind[k]);
                print_choices(out, ask, &free_choice);
            }
}

/* Print what is chosen for reduce-scatter and all-gather. A size is that of all ranks' parts
 * together. */
static void print_choices_of_halves(FILE *out)
{
    static const int ranks[] = {2, 4, 16};
    static const char *const links[AR_LINKS] = {
        [AR_LINKS_NVLINK] = "nvlink", [AR_LINKS_PCIE] = "pcie", [AR_LINKS_HOST] = "host"};

    for (int l = 0; l < AR_LINKS; l++)
        for (int i = 0; i < 3 * 2 * 4; i++) {
            const int coll = AR_REDUCE_SCATTER + i % 2, k = i / 2 % 4;
            struct ar_ask ask = ask_for(ranks[i / 8], l, 0, k == 1 ? AR_I32 : AR_BF16, AR_SUM);

            ask.coll = coll;
            ask.dst_mapped = ask.src_mapped = k < 2;
            ask.has_nccl = k < 3;
            fprintf(out, "%s, %s, %d ranks, %s, %s%s\n",
                    coll == AR_REDUCE_SCATTER ? "reduce-scatter" : "all-gather", links[l],
                    ask.ranks, k == 1 ? "i32" : "bf16", k < 2 ? "registered" : "not registered",
                    k < 3 ? "" : ", no communicator");
            print_choices(out, ask, &free_choice);
        }
}

/* Print what the hint "unknown" changes, that is, only sizes for which "alone" leads to another
 * choice. test_long_messages_take_few_blocks_unless_alone compares the hint "compute" with
 * "unknown". */
static void print_hinted_choices(FILE *out)
{
    static const int ranks[] = {2, 4, 16};

    for (int i = 0; i < AR_COLLS * AR_LINKS * 3; i++) {
        struct ar_ask ask = ask_for(ranks[i % 3], i / 3 % AR_LINKS, 0, AR_BF16, AR_SUM);

        ask.coll = i / 3 / AR_LINKS;
        ask.has_nccl = 1;
        ask.beside = AR_BESIDE_UNKNOWN;
        fprintf(out, "beside: unknown, collective %d, links %d, %d ranks\n", ask.coll, ask.links,
                ask.ranks);
        print_choices(out, ask, &free_choice);
    }
}

/* Set ${ask} so that its ranks can map unregistered buffers. */
static void let_map(struct ar_ask *ask)
{
    ask->has_ipc = 1;
    ask->half[AR_REGION_IPC] = 4 << 20;
}

/* Print what is chosen for buffers that are not registered, but that peers may map. */
static void print_mapped_choices(FILE *out)
{
    for (int i = 0; i < AR_COLLS * 2 * 4; i++) {
        struct ar_ask ask = ask_for(2 + i % 2, AR_LINKS_NVLINK, 0, AR_BF16, AR_SUM);
        const int k = i / 2 % 4;

        ask.coll = i / 8;
        ask.dst_mapped = ask.src_mapped = 0;
        ask.dtype = k == 1 ? AR_I32 : AR_BF16;
        ask.has_nccl = 1;
        ask.has_multicast = k == 2;
        ask.beside = k == 3 ? AR_BESIDE_NOTHING : AR_BESIDE_COMPUTE;
        let_map(&ask);
        fprintf(out, "mapped, collective %d, %d ranks, %s%s%s\n", ask.coll, ask.ranks,
                k == 1 ? "i32" : "bf16", k == 2 ? ", multicast" : "", k == 3 ? ", alone" : "");
        print_choices(out, ask, &free_choice);
    }
}

/* Print the tables as symtuner_ar_describe shows them. */
static void print_tables(FILE *out, int beside)
{
    for (int links = 0; links < AR_LINKS; links++)
        for (int ranks = 2; ranks <= (beside == AR_BESIDE_NOTHING ? 5 : 2); ranks++) {
            struct ar_ask ask = ask_for(ranks, links, 0, AR_BF16, AR_SUM);
            char text[8192];

            ask.has_nccl = 1;
            ask.beside = beside;
            let_map(&ask);
            must(ar_select_print(&ask, text, sizeof text) < sizeof text);
            fprintf(out, "links %d, %d ranks\n%s", links, ranks, text);
        }
}

static void print_forced_choices(FILE *out)
{
    for (int f = 0; f < AR_FAMILIES; f++)
        for (int k = 0; k < 4; k++) { /* two or five ranks, each in place and out of place */
            struct ar_ask ask = ask_for(k & 1 ? 5 : 2, AR_LINKS_NVLINK, 0, AR_F16, AR_SUM);
            const struct ar_force force = {.family = f, .threads = k & 1 ? 1024 : 0};

            ask.in_place = k / 2;
            ask.has_nvls = ask.has_nccl = 1;
            let_map(&ask);
            fprintf(out, "forced %s, %d ranks, %s\n", ar_family_name(f), ask.ranks,
                    k / 2 ? "in place" : "out of place");
            print_choices(out, ask, &force);
        }
}

/* Print what is chosen if the start-up probe found stores slow, stores broken, or the copy engine
 * best. */
static void print_probed_choices(FILE *out)
{
    static const struct ar_probe probes[] = {
        {.push = 1000, .pull = 20000, .copy = 10000},
        {.push = AR_PROBE_BROKEN, .pull = 20000, .copy = 10000},
        {.push = 10000, .pull = 10000, .copy = 40000},
    };

    for (size_t p = 0; p < sizeof probes / sizeof *probes; p++)
        for (int k = 0; k < 4; k++) {
            struct ar_ask ask =
                ask_for(k & 1 ? 4 : 2, AR_LINKS_PCIE, 0, k < 3 ? AR_F32 : AR_I8, AR_SUM);

            ask.probe = probes[p];
            ask.in_place = k / 2;
            fprintf(out, "pcie, %d ranks, %s, %s, probe: push %u, pull %u, copy %u MB/s\n",
                    ask.ranks, k < 3 ? "f32" : "i8", k / 2 ? "in place" : "out of place",
                    probes[p].push, probes[p].pull, probes[p].copy);
            print_choices(out, ask, &free_choice);
        }
}

/* If the selection table changes, the golden file shows the whole effect. GOLDEN_UPDATE=1 rewrites
 * the file; then read its diff. */
START_TEST(test_the_choices_are_those_of_the_golden_file)
{
    const char *update = getenv("GOLDEN_UPDATE");
    char *now = NULL, *then;
    size_t size = 0, at = 0;
    FILE *out = open_memstream(&now, &size), *file;

    print_tables(out, AR_BESIDE_NOTHING);
    print_free_choices(out);
    print_forced_choices(out);
    print_probed_choices(out);
    print_choices_of_halves(out);
    print_tables(out, AR_BESIDE_UNKNOWN);
    print_hinted_choices(out);
    print_mapped_choices(out);
    fclose(out);
    if (update != NULL && strcmp(update, "1") == 0) {
        file = fopen(GOLDEN, "w");
        ck_assert_uint_eq(fwrite(now, 1, size, file), size);
        fclose(file);
    }
    then = calloc(1, size + 2);
    file = fopen(GOLDEN, "r");
    ck_assert_msg(file != NULL, "%s is not here: run it at the root of the repository", GOLDEN);
    fread(then, 1, size + 1, file);
    fclose(file);
    while (now[at] != 0 && now[at] == then[at])
        at++;
    while (at > 0 && now[at - 1] != '\n')
        at--;
    ck_assert_msg(strcmp(now, then) == 0,
                  "chosen now:\n%.200s\nin %s (GOLDEN_UPDATE=1 writes it anew):\n%.200s", now + at,
                  GOLDEN, then + at);
    free(then);
    free(now);
}
END_TEST

Suite *st_suite_choices(void)
{
    Suite *s = suite_create("ar_choices");
    TCase *t = tcase_create("all");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_the_choices_are_those_of_the_golden_file);
    suite_add_tcase(s, t);
    return s;
}

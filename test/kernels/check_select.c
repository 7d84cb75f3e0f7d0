/* SPDX-License-Identifier: Apache-2.0 */
/* check_select.c - the selection table: total, pure, and within what the kernels can do. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host/options.h"
#include "kernels/choose/select.h"
#include "test/kernels/suites.h"

static const struct ar_force free_choice = {.family = -1};

static struct ar_ask ask_for(int ranks, int links, uint64_t bytes, int dtype, int op)
{
    struct ar_ask ask = {.bytes = bytes,
                         .ranks = ranks,
                         .links = links,
                         .dtype = dtype,
                         .op = op,
                         .dst_mapped = 1,
                         .src_mapped = 1,
                         .has_copy = links != AR_LINKS_HOST,
                         .max_ctas = 132};
    uint64_t half[AR_REGIONS] = {1 << 19, 16 << 20, 32 << 20, 256 << 20, 64 << 20};

    if (links == AR_LINKS_HOST)
        half[AR_REGION_LL128] = half[AR_REGION_BULK] = half[AR_REGION_GATHER] = 0;
    memcpy(ask.half, half, sizeof half);
    return ask;
}

/* Whatever is asked, there is an answer of ours, it covers the message in pieces that fit scratch,
 * and pieces end on whole words. */
START_TEST(test_every_call_gets_a_kernel_that_can_run_it)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
        for (int links = 0; links < AR_LINKS; links++)
            for (int dtype = 0; dtype < AR_DTYPES; dtype++)
                for (int op = 0; op < AR_OPS; op++)
                    for (uint64_t bytes = 8; bytes < 1ull << 36; bytes = bytes * 3 + 8)
                        for (int mapped = 0; mapped < 2; mapped++) {
                            struct ar_ask ask = ask_for(ranks, links, bytes, dtype, op);
                            struct ar_choice c;
                            uint64_t room;

                            ask.dst_mapped = ask.src_mapped = mapped;
                            must(ar_select(&ask, &free_choice, &c) == 0);
                            room = ar_capacity(&ask, c.family);
                            if (c.family == AR_NCCL || room == 0 || c.piece > room)
                                ck_abort_msg("ranks %d links %d dtype %d op %d bytes %llu: %s",
                                             ranks, links, dtype, op, (unsigned long long)bytes,
                                             ar_family_name(c.family));
                            must((uint64_t)c.pieces * c.piece >= bytes);
                            must(c.pieces == 1 || c.piece % AR_UNIT == 0);
                            must(c.ctas >= 1 && c.ctas <= ask.max_ctas);
                            must(c.threads >= 32 && c.threads <= 1024 && c.threads % 32 == 0);
                            must(links == AR_LINKS_NVLINK ||
                                 (c.family != AR_ONE_LL128 && c.family != AR_TWO_LL128));
                        }
}
END_TEST

START_TEST(test_pieces_fit_their_scratch)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
        for (int family = AR_ONE_LL8; family <= AR_CHUNKED; family++)
            for (int mapped = 0; mapped < 2; mapped++) {
                struct ar_ask ask = ask_for(ranks, AR_LINKS_NVLINK, 1 << 20, AR_BF16, AR_SUM);
                uint64_t room, need = 0, half = 0;

                ask.dst_mapped = mapped;
                room = ar_capacity(&ask, family);
                ck_assert(room != 0);
                switch (family) {
                case AR_ONE_LL8:
                case AR_ONE_LL128:
                case AR_ONE_LAMPORT:
                    half = ask.half[family - AR_ONE_LL8];
                    need = ar_oneshot_scratch(family - AR_ONE_LL8, room, ranks);
                    break;
                case AR_CHUNKED:
                    half = ask.half[mapped ? AR_REGION_BULK : AR_REGION_GATHER];
                    need = ar_bulk_scratch(room, ranks);
                    break;
                default:
                    half = ask.half[family - AR_TWO_LL8];
                    need = ar_twoshot_scratch(family - AR_TWO_LL8, room, ranks);
                }
                ck_assert_msg(need <= half, "%s, %d ranks: %llu bytes need %llu of %llu",
                              ar_family_name(family), ranks, (unsigned long long)room,
                              (unsigned long long)need, (unsigned long long)half);
                ck_assert_msg(need > half - half / 8, "%s, %d ranks: wastes scratch",
                              ar_family_name(family), ranks);
            }
}
END_TEST

/* Ranks must choose alike, and each has asked other questions before, with other rubbish in its
 * choice: what one rank answers in order, another one must answer in any order. */
START_TEST(test_the_answer_knows_nothing_of_earlier_questions)
{
    enum { QUESTIONS = 1021, STEP = 389 }; /* prime, so that the steps come everywhere */
    static struct ar_ask ask[QUESTIONS];
    static struct ar_choice first[QUESTIONS];
    static const int links[] = {AR_LINKS_NVLINK, AR_LINKS_PCIE, AR_LINKS_HOST};

    for (int i = 0; i < QUESTIONS; i++) {
        ask[i] = ask_for(2 + i % (AR_MAX_RANKS - 1), links[i / 7 % 3], 8 + (1ull << i % 37) * 3,
                         i % AR_DTYPES, i / 3 % AR_OPS);
        ask[i].dst_mapped = i / 2 % 2;
        ask[i].has_nccl = i / 5 % 2;
        ck_assert_int_eq(ar_select(&ask[i], &free_choice, &first[i]), 0);
    }
    for (int k = 0; k < QUESTIONS; k++) {
        int i = k * STEP % QUESTIONS;
        struct ar_choice again;

        memset(&again, 0xee, sizeof again);
        ck_assert_int_eq(ar_select(&ask[i], &free_choice, &again), 0);
        ck_assert_msg(memcmp(&first[i], &again, sizeof again) == 0,
                      "ranks %d links %d bytes %llu: %s, then %s", ask[i].ranks, ask[i].links,
                      (unsigned long long)ask[i].bytes, ar_family_name(first[i].family),
                      ar_family_name(again.family));
    }
}
END_TEST

START_TEST(test_blocks_never_shrink_while_the_kernel_stays)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++) {
        struct ar_choice last = {.family = -1};

        for (uint64_t bytes = 64; bytes < 1ull << 30; bytes += bytes / 7 + 1) {
            struct ar_ask ask = ask_for(ranks, AR_LINKS_NVLINK, bytes, AR_BF16, AR_SUM);
            struct ar_choice c;

            ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
            if (c.family == last.family && c.threads == last.threads && c.pieces == 1)
                ck_assert_int_ge(c.ctas, last.ctas);
            last = c;
        }
    }
}
END_TEST

START_TEST(test_integers_never_travel_as_lamport)
{
    for (int op = 0; op < AR_OPS; op++)
        for (uint64_t bytes = 8; bytes < 1 << 26; bytes *= 2) {
            struct ar_ask ask = ask_for(2, AR_LINKS_NVLINK, bytes, AR_I32, op);
            struct ar_choice c;

            ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
            ck_assert(c.family != AR_ONE_LAMPORT && c.family != AR_TWO_LAMPORT);
        }
}
END_TEST

START_TEST(test_forced_kernel_that_cannot_run_is_refused_by_name)
{
    struct ar_ask ask = ask_for(2, AR_LINKS_NVLINK, 4096, AR_I32, AR_SUM);
    struct ar_force force = {.family = AR_ONE_LAMPORT};
    struct ar_choice c;
    char why[160];

    ck_assert_int_eq(ar_select(&ask, &force, &c), -1);
    ar_select_why(&ask, &c, why, sizeof why);
    ck_assert_ptr_nonnull(strstr(why, "one_lamport cannot run"));
    force.family = AR_NVLS; /* no multicast address */
    ck_assert_int_eq(ar_select(&ask, &force, &c), -1);
    force.family = AR_ONE_LL8;
    force.ctas = 7;
    force.threads = 100;
    ck_assert_int_eq(ar_select(&ask, &force, &c), 0);
    ck_assert_int_eq(c.ctas, 7);
    ck_assert_int_eq(c.threads, 96);
}
END_TEST

/* ---- every choice, as text ------------------------------------------------------------------- */

#define GOLDEN "test/golden/ar/choices.txt"

/* Sizes that follow each other and go the same way, but for the number of blocks. */
struct run {
    unsigned long long first, last;
    int few, many; /* blocks of the first and of the last */
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

/* What is chosen for 2, 3, 5 and 15 times a power of two, and for a byte less and more. */
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
            now.first = now.last = ask.bytes;
            if (ar_select(&ask, force, &c) != 0)
                continue; /* multicast takes whole words only */
            now.few = now.many = c.ctas;
            n = snprintf(now.way, sizeof now.way, " of %d: %s", c.threads,
                         ar_family_name(c.family));
            if (c.lag != 0)
                n += snprintf(now.way + n, sizeof now.way - (size_t)n, " lag %d", c.lag);
            if (c.pieces != 1)
                n += snprintf(now.way + n, sizeof now.way - (size_t)n, " in pieces of %llu",
                              (unsigned long long)c.piece);
            ar_select_why(&ask, &c, why, sizeof why);
            if (strstr(why, " (") != NULL)
                *strstr(why, " (") = 0; /* who measured it is another matter */
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

/* As describe shows it. */
static void print_tables(FILE *out)
{
    for (int links = 0; links < AR_LINKS; links++)
        for (int ranks = 2; ranks <= 5; ranks++) {
            char text[8192];

            must(ar_select_print(ranks, links, text, sizeof text) < sizeof text);
            fprintf(out, "links %d, %d ranks\n%s", links, ranks, text);
        }
}

static void print_forced_choices(FILE *out)
{
    for (int f = 0; f < AR_FAMILIES; f++)
        for (int k = 0; k < 4; k++) { /* in place or not, two ranks or five */
            struct ar_ask ask = ask_for(k & 1 ? 5 : 2, AR_LINKS_NVLINK, 0, AR_F16, AR_SUM);
            const struct ar_force force = {.family = f, .threads = k & 1 ? 1024 : 0};

            ask.in_place = k / 2;
            ask.has_nvls = ask.has_nccl = 1;
            fprintf(out, "forced %s, %d ranks, %s\n", ar_family_name(f), ask.ranks,
                    k / 2 ? "in place" : "out of place");
            print_choices(out, ask, &force);
        }
}

/* A slow push, a broken one, and a copy engine that is best. */
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

/* A change of the table shows here in full: GOLDEN_UPDATE=1 writes it anew; read the diff. */
START_TEST(test_the_choices_are_those_of_the_golden_file)
{
    const char *update = getenv("GOLDEN_UPDATE");
    char *now = NULL, *then;
    size_t size = 0, at = 0;
    FILE *out = open_memstream(&now, &size), *file;

    print_tables(out);
    print_free_choices(out);
    print_forced_choices(out);
    print_probed_choices(out);
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

START_TEST(test_names_lead_back_to_their_kernel)
{
    for (int f = 0; f < AR_FAMILIES; f++) {
        ck_assert_ptr_nonnull(ar_family_name(f));
        ck_assert_int_eq(ar_family_by_name(ar_family_name(f)), f);
    }
    ck_assert_ptr_null(ar_family_name(AR_FAMILIES));
    ck_assert_ptr_null(ar_family_name(-1));
    ck_assert_int_eq(ar_family_by_name("one_ll"), -1);
}
END_TEST

START_TEST(test_printed_table_fits_or_says_how_long_it_is)
{
    char text[8192];
    size_t need = ar_select_print(4, AR_LINKS_NVLINK, text, sizeof text);

    ck_assert(need > 100 && need < sizeof text && strlen(text) == need);
    ck_assert_int_eq(ar_select_print(4, AR_LINKS_NVLINK, text, 0), need);
}
END_TEST

static const struct {
    const char *name, *value, *error;
} bad[] = {
    {"SYMTUNER_AR_KERNEL", "oneshot",
     "SYMTUNER_AR_KERNEL=\"oneshot\" is unknown; write one of nccl"},
    {"SYMTUNER_AR_CTAS", "0", "SYMTUNER_AR_CTAS=\"0\" is not a number from 1 to 512"},
    {"SYMTUNER_AR_CTAS", "-1", "SYMTUNER_AR_CTAS=\"-1\""},
    {"SYMTUNER_AR_CTAS", "8x", "SYMTUNER_AR_CTAS=\"8x\""},
    {"SYMTUNER_AR_CTAS", " +7", "SYMTUNER_AR_CTAS=\" +7\""},
    {"SYMTUNER_AR_CTAS", "+7", "SYMTUNER_AR_CTAS=\"+7\""},
    {"SYMTUNER_AR_TIMEOUT_MS", "10s", "SYMTUNER_AR_TIMEOUT_MS=\"10s\" is not a number"},
    {"SYMTUNER_AR_TRANSPORT", "shm", "write one of auto peer host"},
    {"SYMTUNER_AR_LINKS", "nvswitch", "write one of nvlink pcie"},
};

START_TEST(test_bad_environment_names_the_word_and_the_cure)
{
    struct ar_options options;
    char why[200] = "";

    setenv(bad[_i].name, bad[_i].value, 1);
    ck_assert_int_eq(ar_options_read(&options, why, sizeof why), -1);
    ck_assert_msg(strstr(why, bad[_i].error) != NULL, "row %d: got \"%s\"", _i, why);
    unsetenv(bad[_i].name);
}
END_TEST

START_TEST(test_good_environment_is_taken_over)
{
    struct ar_options options;
    char why[200];

    setenv("SYMTUNER_AR_KERNEL", "two_lamport", 1);
    setenv("SYMTUNER_AR_CTAS", "48", 1);
    setenv("SYMTUNER_AR_TIMEOUT_MS", "2000", 1);
    setenv("SYMTUNER_AR_TRANSPORT", "host", 1);
    ck_assert_int_eq(ar_options_read(&options, why, sizeof why), 0);
    ck_assert_int_eq(options.force.family, AR_TWO_LAMPORT);
    ck_assert_int_eq(options.force.ctas, 48);
    ck_assert_int_eq(options.timeout_ms, 2000);
    ck_assert_int_eq(options.transport, 2);
    ck_assert_int_eq(options.links, -1);
}
END_TEST

/* On every part that there is: never all; and two groups that share GPUs fit. */
START_TEST(test_two_budgets_leave_room)
{
    static const struct {
        int sms, asked, want, together;
    } some[] = {{132, 0, 128, 64}, {132, 128, 128, 64}, {132, 512, 128, 64}, {132, 7, 7, 7},
                {108, 0, 104, 52}, {114, 0, 108, 56},   {78, 0, 72, 36},     {144, 0, 140, 68},
                {148, 0, 144, 72}, {152, 0, 148, 72},   {9, 0, 4, 4},        {9, 9, 4, 4},
                {8, 0, 7, 3},      {8, 8, 7, 3},        {2, 0, 1, 1},        {1, 0, 1, 1},
                {1, 5, 1, 1}};

    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        ck_assert_int_eq(ar_budget(some[i].sms, some[i].asked), some[i].want);
        ck_assert_int_eq(ar_budget_together(some[i].sms, some[i].want), some[i].together);
    }
    for (int sms = 3; sms < 300; sms++)
        for (int asked = 0; asked <= 512; asked++) {
            int budget = ar_budget(sms, asked), together = ar_budget_together(sms, budget);

            ck_assert(budget >= 1 && budget < sms && (asked == 0 || budget <= asked));
            ck_assert(together >= 1 && together <= budget && 2 * together < sms);
        }
}
END_TEST

/* Blocks that the budget takes away come back as threads, where the kernel has them and nobody has
 * said how many: so the sweep's best of 64 blocks. */
START_TEST(test_fewer_blocks_have_more_threads)
{
    static const struct {
        int ranks, most, forced;
        uint64_t bytes;
        int ctas, threads;
    } want[] = {
        {2, 128, 0, 512 << 10, 128, 256}, {2, 64, 0, 512 << 10, 64, 512},
        {2, 64, 0, 1 << 20, 64, 1024},    {2, 32, 0, 1 << 20, 32, 1024},
        {2, 64, 0, 2 << 20, 64, 1024},    {4, 64, 0, 2 << 20, 64, 512},
        {4, 64, 0, 512 << 10, 64, 128},   {4, 64, 0, 32 << 20, 64, 512},
        {2, 48, 0, 512 << 10, 48, 672},   {2, 64, 256, 512 << 10, 64, 256},
        {2, 96, 0, 64 << 10, 64, 64},
    };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct ar_ask ask = ask_for(want[i].ranks, AR_LINKS_NVLINK, want[i].bytes, AR_BF16, AR_SUM);
        struct ar_force force = {.family = -1, .threads = want[i].forced};
        struct ar_choice c;

        ask.max_ctas = want[i].most;
        ck_assert_int_eq(ar_select(&ask, &force, &c), 0);
        ck_assert_msg(c.ctas == want[i].ctas && c.threads == want[i].threads,
                      "row %zu: %d blocks of %d", i, c.ctas, c.threads);
    }
}
END_TEST

/* Where NCCL may let the switch add, long messages of four ranks or more are NCCL's, unmeasured. */
START_TEST(test_multicast_gives_long_messages_to_nccl)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
        for (uint64_t bytes = 1 << 20; bytes <= 1ull << 31; bytes *= 2)
            for (int multicast = 0; multicast < 2; multicast++)
                for (int nccl = 0; nccl < 2; nccl++) {
                    struct ar_ask ask = ask_for(ranks, AR_LINKS_NVLINK, bytes, AR_BF16, AR_SUM);
                    struct ar_choice c;
                    char why[160];
                    bool theirs = ranks >= 4 && bytes > 32 << 20 && multicast && nccl;

                    ask.has_multicast = multicast;
                    ask.has_nccl = nccl;
                    ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
                    ck_assert_int_eq(c.family == AR_NCCL, theirs);
                    ar_select_why(&ask, &c, why, sizeof why);
                    ck_assert_int_eq(strstr(why, "unmeasured: multicast is there") != NULL, theirs);
                }
}
END_TEST

START_TEST(test_families_that_add_otherwise_say_so)
{
    for (int f = 0; f < AR_FAMILIES; f++) {
        bool nvls = f == AR_NVLS || f == AR_NVLS_ONE;

        ck_assert_str_eq(ar_order_note(f), f == AR_NCCL ? "; NCCL adds in an order of its own"
                                           : nvls ? "; the switch adds, in an order of its own"
                                                  : "");
    }
}
END_TEST

Suite *st_suite_select(void)
{
    Suite *s = suite_create("ar_select");
    TCase *t = tcase_create("all");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_every_call_gets_a_kernel_that_can_run_it);
    tcase_add_test(t, test_pieces_fit_their_scratch);
    tcase_add_test(t, test_the_answer_knows_nothing_of_earlier_questions);
    tcase_add_test(t, test_blocks_never_shrink_while_the_kernel_stays);
    tcase_add_test(t, test_integers_never_travel_as_lamport);
    tcase_add_test(t, test_forced_kernel_that_cannot_run_is_refused_by_name);
    tcase_add_test(t, test_the_choices_are_those_of_the_golden_file);
    tcase_add_test(t, test_names_lead_back_to_their_kernel);
    tcase_add_test(t, test_printed_table_fits_or_says_how_long_it_is);
    tcase_add_loop_test(t, test_bad_environment_names_the_word_and_the_cure, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(t, test_good_environment_is_taken_over);
    tcase_add_test(t, test_two_budgets_leave_room);
    tcase_add_test(t, test_fewer_blocks_have_more_threads);
    tcase_add_test(t, test_multicast_gives_long_messages_to_nccl);
    tcase_add_test(t, test_families_that_add_otherwise_say_so);
    suite_add_tcase(s, t);
    return s;
}

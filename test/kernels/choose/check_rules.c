/* SPDX-License-Identifier: Apache-2.0 */
/* check_rules.c - checks [kernels] rules in the library: which rule decides, and when no rule may
 * decide. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/host/options.h"
#include "kernels/choose/arenas.h"
#include "nccl/names.h"
#include "test/kernels/choose/read_rules.h"
#include "test/kernels/fake/capture_stderr.h"
#include "test/kernels/suites.h"

static const struct ar_force free_choice = {.family = -1};

static struct ar_ask ask_for(uint64_t bytes)
{
    struct ar_ask ask = {.bytes = bytes,
                         .ranks = 4,
                         .links = AR_LINKS_NVLINK,
                         .dtype = AR_BF16,
                         .op = AR_SUM,
                         .dst_mapped = 1,
                         .src_mapped = 1,
                         .registered = 1,
                         .has_nccl = 1,
                         .has_copy = 1,
                         .max_ctas = 132,
                         .half = {1 << 19, 16 << 20, 32 << 20, 256 << 20, 64 << 20}};
    return ask;
}

START_TEST(test_the_language_knows_the_kernels_by_the_same_numbers)
{
    ck_assert_int_eq(st_kernel_words.count, AR_FAMILIES);
    for (int f = 0; f < AR_FAMILIES; f++)
        ck_assert_str_eq(st_kernel_words.word[f], ar_family_name(f));
    ck_assert_int_eq(st_op_words.count, AR_OPS);
    ck_assert_int_eq(st_dtype_words.count, AR_DTYPES);
}
END_TEST

START_TEST(test_the_first_rule_that_covers_a_call_acts)
{
    symtuner_rules *rules = rules_of("kernels bytes=..8KiB kernel=nccl; "
                                     "kernels bytes=..64KiB kernel=two_ll128 ctas=3 threads=96");
    struct ar_ask ask = ask_for(64 << 10);
    struct ar_choice c, table;

    ck_assert_ptr_nonnull(rules);
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_TWO_LL128);
    ck_assert_int_eq(c.ctas, 3);
    ck_assert_int_eq(c.threads, 96);
    ck_assert_str_eq(why_of(rules, &ask, &c), "rules: SYMTUNER_RULE:1 \"inline:2\"");
    ask = ask_for(8 << 10);
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_NCCL);
    ask = ask_for((64 << 10) + 2); /* longer than the messages of any rule */
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(ar_select(&ask, &free_choice, &table), 0);
    ck_assert_int_eq(memcmp(&c, &table, sizeof c), 0);
    symtuner_rules_free(rules);
}
END_TEST

/* An arena is a part of the scratch memory. Ranks may learn at different times that they cannot
 * have one (kernels/scratch), and the drop-in asks at other times than the library. So a missing
 * arena may change which kernel of ours runs, but not whether NCCL runs the call. */
START_TEST(test_arenas_do_not_change_who_runs_a_call)
{
    for (int f = 0; f <= AR_FAMILIES; f++) {
        char line[80];
        symtuner_rules *rules;

        snprintf(line, sizeof line, "kernels bytes=1MiB.. kernel=%s",
                 ar_family_name(f < AR_FAMILIES ? f : 0));
        rules = f < AR_FAMILIES ? rules_of(line) : NULL; /* the last round has no rules, only the
                                                            table */
        for (unsigned i = 0; i < 1u << 10; i++) {
            struct ar_ask all = ask_for((4096ull << i % 16) + 8);
            struct ar_choice before, after;

            all.ranks = i >> 4 & 1 ? 4 : 2;
            all.dst_mapped = all.src_mapped = i >> 5 & 1;
            all.dtype = i >> 6 & 1 ? AR_BF16 : AR_F64;
            all.beside = i >> 7 & 1 ? AR_BESIDE_NOTHING : AR_BESIDE_UNKNOWN;
            all.coll = (int)(i >> 8) % 3;
            ck_assert_int_eq(ar_rules_select(rules, &all, &free_choice, &before), 0);
            for (unsigned without = 2; without < 1u << AR_ARENAS; without += 2) {
                struct ar_ask ask = all;

                ask.without = without;
                for (int r = 0; r < AR_REGIONS; r++) {
                    ask.half[r] = 0;
                    for (int a = 0; a < AR_ARENAS; a++) {
                        uint64_t half = ar_scratch_half(a, r, ask.ranks, 256 << 20, false);

                        if (!(without >> a & 1) && half > ask.half[r])
                            ask.half[r] = half;
                    }
                }
                ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &after), 0);
                if ((before.family == AR_NCCL) != (after.family == AR_NCCL))
                    ck_abort_msg("%s: %llu bytes: %s with all arenas, %s without %x", line,
                                 (unsigned long long)ask.bytes, ar_family_name(before.family),
                                 ar_family_name(after.family), without);
            }
        }
        symtuner_rules_free(rules);
    }
}
END_TEST

/* A number of blocks in a rule is an upper limit, as in the table. A forced number is exact. */
START_TEST(test_a_short_message_gets_no_idle_blocks_from_a_rule)
{
    symtuner_rules *rules = rules_of("kernels kernel=one_ll8 ctas=64 threads=128");
    struct ar_ask ask = ask_for(1 << 10);
    struct ar_force forced = {.family = -1, .ctas = 64};
    struct ar_choice c;

    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.ctas, 1);
    ck_assert_int_eq(ar_rules_select(rules, &ask, &forced, &c), 0);
    ck_assert_int_eq(c.family, AR_ONE_LL8);
    ck_assert_int_eq(c.ctas, 64);
    forced.family = AR_TWO_LL8; /* SYMTUNER_AR_KERNEL wins over every rule */
    ck_assert_int_eq(ar_rules_select(rules, &ask, &forced, &c), 0);
    ck_assert_int_eq(c.family, AR_TWO_LL8);
    ck_assert_ptr_nonnull(strstr(why_of(rules, &ask, &c), "forced"));
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_a_rule_that_cannot_run_gives_way_to_the_table_and_says_so)
{
    symtuner_rules *rules = rules_of("kernels op=max kernel=one_lamport; kernels kernel=copy");
    struct ar_ask ask = ask_for(64 << 10);
    struct ar_choice c, table;

    ask.op = AR_MAX;
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(ar_select(&ask, &free_choice, &table), 0);
    ck_assert_int_eq(c.family, table.family);
    ck_assert_int_eq(c.ctas, table.ctas);
    ck_assert_ptr_nonnull(
        strstr(why_of(rules, &ask, &c),
               "rules: SYMTUNER_RULE:1: one_lamport cannot run this call; table"));
    ask.op = AR_SUM;
    ask.dst_mapped = 0;
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_ptr_nonnull(strstr(why_of(rules, &ask, &c), "copy cannot run"));
    symtuner_rules_free(rules);
    rules = rules_of("kernels kernel=nccl");
    ask.has_nccl = 0;
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_ne(c.family, AR_NCCL);
    symtuner_rules_free(rules);
}
END_TEST

/* A rule may set what runs beside its calls (beside). It may also apply only to calls beside which
 * something particular runs (when-beside). */
START_TEST(test_rules_say_what_runs_beside)
{
    symtuner_rules *rules = rules_of("kernels when-beside=compute kernel=pull; "
                                     "kernels bytes=..32MiB beside=alone");
    struct ar_ask ask = ask_for(16 << 20), alone = ask;
    struct ar_choice c, table;
    char text[400];

    alone.beside = AR_BESIDE_NOTHING;
    ck_assert_int_eq(ar_select(&alone, &free_choice, &table), 0);
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_ne(c.family, AR_NCCL);
    ck_assert_int_eq(c.family, table.family);
    ck_assert_int_eq(c.ctas, table.ctas);
    ck_assert_ptr_nonnull(strstr(why_of(rules, &ask, &c), "\" (beside: alone)"));
    ask.bytes = 64 << 20; /* no rule is for this size */
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_NCCL);
    ck_assert_ptr_nonnull(strstr(why_of(rules, &ask, &c), "; beside: unknown)"));
    ask.beside = AR_BESIDE_COMPUTE;
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_PULL);
    ar_rules_print(rules, "two", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, ", when beside compute: pull"));
    ck_assert_ptr_nonnull(strstr(text, ", taken as beside alone: the table's kernel"));
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_conditions_on_the_call_hold)
{
    symtuner_rules *rules = rules_of("kernels dtype=f32,f16 kernel=one_ll8; "
                                     "kernels registered=no kernel=two_ll8; "
                                     "kernels op=prod kernel=two_ll128");
    struct ar_ask ask = ask_for(1 << 10);
    struct ar_choice c;

    ask.dtype = AR_F16;
    ar_rules_select(rules, &ask, &free_choice, &c);
    ck_assert_int_eq(c.family, AR_ONE_LL8);
    ask.dtype = AR_BF16;
    ar_rules_select(rules, &ask, &free_choice, &c);
    ck_assert_ptr_nonnull(strstr(why_of(rules, &ask, &c), "table:"));
    ask.registered = 0;
    ar_rules_select(rules, &ask, &free_choice, &c);
    ck_assert_int_eq(c.family, AR_TWO_LL8);
    ask.registered = 1;
    ask.op = AR_PROD;
    ar_rules_select(rules, &ask, &free_choice, &c);
    ck_assert_int_eq(c.family, AR_TWO_LL128);
    symtuner_rules_free(rules);
}
END_TEST

/* Rules can only choose kernels that can run the call. So what check_select.c tests must still
 * hold, whatever the rules are. */
START_TEST(test_whatever_the_rules_say_there_is_a_kernel)
{
    for (int f = -1; f < AR_FAMILIES; f++) {
        char line[160];
        symtuner_rules *rules;

        snprintf(line, sizeof line, "kernels kernel=%s ctas=512 threads=1024",
                 f < 0 ? "leave" : ar_family_name(f));
        rules = rules_of(line);
        for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
            for (int links = 0; links < AR_LINKS; links++)
                for (int dtype = 0; dtype < AR_DTYPES; dtype++)
                    for (uint64_t bytes = 8; bytes < 1ull << 33; bytes = bytes * 5 + 8)
                        for (int bits = 0; bits < 16; bits++) {
                            struct ar_ask ask = ask_for(bytes);
                            struct ar_choice c;

                            ask.ranks = ranks;
                            ask.links = links;
                            ask.dtype = dtype;
                            ask.op = bits & 8 ? AR_MIN : AR_SUM;
                            ask.dst_mapped = bits & 1;
                            ask.src_mapped = bits >> 1 & 1;
                            ask.has_nccl = bits >> 2 & 1;
                            ask.has_copy = links != AR_LINKS_HOST;
                            if (links == AR_LINKS_HOST)
                                ask.half[AR_REGION_LL128] = ask.half[AR_REGION_BULK] =
                                    ask.half[AR_REGION_GATHER] = 0;
                            must(ar_rules_select(rules, &ask, &free_choice, &c) == 0);
                            must(c.family != AR_NCCL || ask.has_nccl);
                            must(ar_capacity(&ask, c.family) >= c.piece && c.piece > 0);
                            must(c.family == AR_NCCL ||
                                 (c.ctas >= 1 && c.ctas <= ask.max_ctas && c.threads >= 32 &&
                                  c.threads <= 1024 && c.threads % 32 == 0));
                            must(links == AR_LINKS_NVLINK ||
                                 (c.family != AR_ONE_LL128 && c.family != AR_TWO_LL128));
                        }
        symtuner_rules_free(rules);
    }
}
END_TEST

/* ---- reading --------------------------------------------------------------------------------- */

START_TEST(test_nothing_is_read_unless_asked_for)
{
    ck_assert_ptr_null(ar_rules_read(22809, 4, note));
    ck_assert_str_eq(note, "");
    setenv("SYMTUNER_MODE", "observe", 1);
    ck_assert_ptr_null(rules_of("kernels kernel=nccl"));
    ck_assert_str_eq(note, "not read: SYMTUNER_MODE=observe");
    unsetenv("SYMTUNER_MODE");
    ck_assert_ptr_null(rules_of("allreduce prefer=general:ring/ll"));
    ck_assert_str_eq(note, "no [kernels] rules in SYMTUNER_RULE");
}
END_TEST

/* If SYMTUNER_MODE is unknown, the plugin warns and steers, that is, it follows the rules. The
 * library must do the same. Otherwise only one of them would follow the rules file. */
START_TEST(test_a_mode_that_is_none_is_named_and_steers)
{
    static const char *const modes[] = {"of", "OFF", ""};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        symtuner_rules *rules;

        setenv("SYMTUNER_MODE", modes[i], 1);
        rules = rules_of("kernels kernel=nccl");
        ck_assert_ptr_nonnull(rules);
        symtuner_rules_free(rules);
    }
    setenv("SYMTUNER_MODE", "of", 1);
    capture_stderr();
    for (int i = 0; i < 3; i++) /* as three ranks of one process do */
        ck_assert_ptr_null(rules_of("kernels kernel=nccl; x"));
    ck_assert_str_eq(captured_stderr(),
                     "symtuner_ar: warning: SYMTUNER_MODE=of: write one of steer|observe|off; "
                     "using \"steer\"\n"
                     "symtuner_ar: warning: SYMTUNER_RULE:1:22: unknown collective \"x\"; known: "
                     "broadcast, reduce, allgather, reducescatter, allreduce\n");
}
END_TEST

/* No code reads a misspelt variable, so the library warns about it. Otherwise nobody would notice
 * it. */
START_TEST(test_a_misspelt_variable_is_named_once)
{
    static const char *const real[] = {"KERNEL",     "CTAS",         "TRANSPORT", "LINKS",
                                       "TIMEOUT_MS", "LAG",          "OVERLAP",   "PROBE",
                                       "PROBE_FILE", "TEST_STALL_US"};
    struct ar_options options;
    char why[200], name[64];

    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        snprintf(name, sizeof name, "SYMTUNER_AR_%s", real[i]);
        setenv(name, "", 1);
    }
    setenv("SYMTUNER_AR_KERNL", "pull", 1);
    setenv("SYMTUNER_AR_QWERTZ", "1", 1);
    capture_stderr();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ar_options_read(&options, why, sizeof why), 0);
    ck_assert_str_eq(captured_stderr(),
                     "symtuner_ar: warning: SYMTUNER_AR_KERNL=pull: there is no such variable; did "
                     "you mean SYMTUNER_AR_KERNEL?\n"
                     "symtuner_ar: warning: SYMTUNER_AR_QWERTZ=1: there is no such variable; "
                     "docs/kernels.md lists them\n");
}
END_TEST

START_TEST(test_wrong_and_foreign_rules_leave_the_table_alone)
{
    char path[] = "/tmp/symtuner-rules-XXXXXX";
    int file = mkstemp(path);
    static const char *const foreign[] = {"gpu = NVIDIA H100*", "links = pcie", "multicast = yes",
                                          "nccl = 2.29"};

    ck_assert_ptr_null(rules_of("kernels kernel=one_ll9"));
    ck_assert_str_eq(note, "not used: SYMTUNER_RULE:1:16: unknown kernel \"one_ll9\"; did you mean "
                           "one_ll8?");
    unsetenv("SYMTUNER_RULE");
    setenv("SYMTUNER_RULES", "/nowhere/at/all.rules", 1);
    ck_assert_ptr_null(ar_rules_read(22809, 4, note));
    ck_assert_ptr_nonnull(strstr(note, "not used: /nowhere/at/all.rules: No such file"));
    setenv("SYMTUNER_RULES", path, 1);
    close(file);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        FILE *out = fopen(path, "w");

        fprintf(out, "[provenance]\n%s\n[kernels a]\nkernel = one_ll8\n", foreign[i]);
        fclose(out);
        ck_assert_ptr_null(ar_rules_read(22809, 4, note));
        ck_assert_msg(strstr(note, i < 3 ? "another machine" : "another release"), "%s", note);
    }
    unlink(path);
}
END_TEST

START_TEST(test_only_rules_for_this_group_are_kept_and_hashed)
{
    symtuner_rules *all = rules_of("kernels ranks=4 kernel=nccl; kernels ranks=8 kernel=one_ll8; "
                                   "kernels links=pcie kernel=one_ll8");
    symtuner_rules *one = rules_of("kernels ranks=4 kernel=nccl");
    symtuner_rules *other = rules_of("kernels ranks=4 kernel=one_ll8");

    ck_assert_int_eq(symtuner_rules_count(all), 1);
    ck_assert(symtuner_rules_hash(all) == symtuner_rules_hash(one));
    ck_assert(symtuner_rules_hash(all) != symtuner_rules_hash(other));
    ck_assert_ptr_null(rules_of("kernels ranks=8 kernel=nccl"));
    ck_assert_ptr_nonnull(strstr(note, "0 for this group"));
    symtuner_rules_free(all);
    symtuner_rules_free(one);
    symtuner_rules_free(other);
}
END_TEST

/* A local group (symtuner_ar_create_local) has no NCCL, so the condition nccl of a rule does not
 * matter. */
START_TEST(test_a_local_group_passes_over_the_release)
{
    symtuner_rules *rules;

    setenv("SYMTUNER_RULE", "kernels nccl=2.29 kernel=one_ll8", 1);
    ck_assert_ptr_null(ar_rules_read(22809, 4, note));
    rules = ar_rules_read(0, 4, note);
    ck_assert_ptr_nonnull(rules);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_rules_are_shown_and_cut_as_asked)
{
    symtuner_rules *rules = rules_of("kernels bytes=1KiB..64KiB dtype=bf16 kernel=one_ll8 ctas=3");
    char text[1024], cut[40];
    size_t need = ar_rules_print(rules, note, text, sizeof text);

    ck_assert_uint_eq(need, strlen(text));
    ck_assert_ptr_nonnull(strstr(text, "rules: 1 for this group, hash 0x"));
    ck_assert_ptr_nonnull(strstr(text, "1KiB to 64KiB, dtype bf16: one_ll8, blocks 3"));
    memset(cut, 'x', sizeof cut);
    ck_assert_uint_eq(ar_rules_print(rules, note, cut, 0), need);
    ck_assert_int_eq(cut[0], 'x');
    ck_assert_uint_eq(ar_rules_print(NULL, "", text, sizeof text), 0);
    ck_assert_ptr_null(strstr(text, "registered"));
    symtuner_rules_free(rules);
    rules = rules_of("kernels registered=yes kernel=pull; kernels bytes=..1MiB network-pieces=0; "
                     "kernels dtype=f16,bf16 registered=no kernel=one_ll8");
    ar_rules_print(rules, note, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "0B to 1MiB over several boxes: network-pieces 0  ("));
    ck_assert_ptr_nonnull(strstr(text, ", dtype f16,bf16: one_ll8"));
    ck_assert_ptr_nonnull(
        strstr(text, "pull, blocks 0, threads 0 (0: the table's), registered  ("));
    ck_assert_ptr_nonnull(
        strstr(text, "one_ll8, blocks 0, threads 0 (0: the table's), not registered  ("));
    symtuner_rules_free(rules);
}
END_TEST

Suite *st_suite_rules(void)
{
    Suite *suite = suite_create("ar_rules");
    TCase *t = tcase_create("rules");

    tcase_add_checked_fixture(t, clean, clean);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_arenas_do_not_change_who_runs_a_call);
    tcase_add_test(t, test_the_language_knows_the_kernels_by_the_same_numbers);
    tcase_add_test(t, test_the_first_rule_that_covers_a_call_acts);
    tcase_add_test(t, test_a_short_message_gets_no_idle_blocks_from_a_rule);
    tcase_add_test(t, test_a_rule_that_cannot_run_gives_way_to_the_table_and_says_so);
    tcase_add_test(t, test_rules_say_what_runs_beside);
    tcase_add_test(t, test_conditions_on_the_call_hold);
    tcase_add_test(t, test_whatever_the_rules_say_there_is_a_kernel);
    tcase_add_test(t, test_nothing_is_read_unless_asked_for);
    tcase_add_test(t, test_a_mode_that_is_none_is_named_and_steers);
    tcase_add_test(t, test_a_misspelt_variable_is_named_once);
    tcase_add_test(t, test_wrong_and_foreign_rules_leave_the_table_alone);
    tcase_add_test(t, test_only_rules_for_this_group_are_kept_and_hashed);
    tcase_add_test(t, test_a_local_group_passes_over_the_release);
    tcase_add_test(t, test_rules_are_shown_and_cut_as_asked);
    suite_add_tcase(suite, t);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_comm.c - tests symtuner_ar_create on test/kernels/fake/nccl.c. One thread drives the
 * communicators of both ranks. Ranks of different processes may read different rules, so the fake
 * gives each rank its own rules.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/host/create.h"
#include "kernels/host/rank.h"
#include "test/kernels/fake/capture_stderr.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

enum { RANKS = 2, CARDS = 2 /* in their second all-gather the ranks exchange their settings */ };

static int endless_at, keep, say, sms, transport; /* try_group passes these to the fakes and to the
                                                     next group */

/* Each row has a situation, and how our kernel must start in it. AR_EARLY: the GPU sets our kernel
 * up while the previous kernel of the stream runs. This needs sm_90, a driver that can capture this
 * kind of launch (CUDA 12.3), and a GPU that no other rank uses. AR_EARLY_BOTH: the next kernel may
 * start early, too, because NCCL's release or the program promises that it waits for ours. */
static const struct start {
    const char *asked, *kernel;
    int arch, driver, nccl;
    bool one_gpu;
    enum ar_start want;
    enum ar_follower said;
} starts[] = {
    {NULL, NULL, 80, 13000, 22809, false, AR_SERIAL, AR_FOLLOWER_UNKNOWN},
    {NULL, NULL, 90, 13000, 22809, false, AR_EARLY, AR_FOLLOWER_UNKNOWN},
    {NULL, NULL, 120, 13000, 22809, false, AR_EARLY, AR_FOLLOWER_UNKNOWN},
    {NULL, NULL, 90, 12030, 23006, false, AR_EARLY, AR_FOLLOWER_UNKNOWN},
    {NULL, NULL, 90, 12030, 23007, false, AR_EARLY_BOTH, AR_FOLLOWER_UNKNOWN},
    {NULL, NULL, 90, 12029, 23007, false, AR_SERIAL, AR_FOLLOWER_UNKNOWN},
    {NULL, NULL, 90, 13000, 23007, true, AR_SERIAL, AR_FOLLOWER_UNKNOWN},
    {"0", NULL, 90, 13000, 23007, false, AR_SERIAL, AR_FOLLOWER_UNKNOWN},
    {"1", NULL, 90, 13000, 23007, false, AR_EARLY, AR_FOLLOWER_UNKNOWN},
    {"2", NULL, 90, 13000, 22809, false, AR_EARLY_BOTH, AR_FOLLOWER_UNKNOWN},
    {"2", NULL, 80, 13000, 22809, false, AR_SERIAL, AR_FOLLOWER_UNKNOWN},
    {"2", "chunked", 90, 13000, 22809, false, AR_SERIAL, AR_FOLLOWER_UNKNOWN},
    {NULL, NULL, 90, 13000, 22809, false, AR_EARLY_BOTH, AR_FOLLOWER_WAITS},
    {NULL, NULL, 90, 13000, 23006, false, AR_EARLY_BOTH, AR_FOLLOWER_WAITS},
    {NULL, NULL, 80, 13000, 22809, false, AR_SERIAL, AR_FOLLOWER_WAITS},
    {NULL, NULL, 90, 12029, 22809, false, AR_SERIAL, AR_FOLLOWER_WAITS},
    {NULL, NULL, 90, 13000, 22809, true, AR_SERIAL, AR_FOLLOWER_WAITS},
    {"1", NULL, 90, 13000, 22809, false, AR_EARLY, AR_FOLLOWER_WAITS},
    {NULL, NULL, 90, 13000, 22809, false, AR_EARLY, AR_FOLLOWER_MAY_NOT_WAIT},
    {NULL, NULL, 90, 13000, 23007, false, AR_EARLY, AR_FOLLOWER_MAY_NOT_WAIT},
    {"2", NULL, 90, 13000, 23007, false, AR_EARLY_BOTH, AR_FOLLOWER_MAY_NOT_WAIT},
};
static const struct start *start; /* NULL: use the defaults of the fakes */

static bool no_pin, no_symmetric;

static ncclResult_t try_group(symtuner_ar **h, const char *first_rule, const char *second_rule)
{
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2};
    const struct symtuner_ar_config config = {
        .size = sizeof config, .bulk_bytes = 1 << 20, .transport = transport};

    memset(&fake, 0, sizeof fake);
    fake_nccl_reset(RANKS);
    fake_nccl.keep = keep;
    fake_nccl.say = say;
    fake_nccl.no_symmetric = no_symmetric;
    if (start != NULL) {
        fake.arch = start->arch;
        fake.driver = start->driver;
        fake_nccl.version = start->nccl;
        fake_nccl.one_gpu = start->one_gpu;
    }
    fake.no_pin = no_pin;
    fake.devices = RANKS;
    fake.peers = 1;
    fake.endless_at = endless_at;
    fake.sms = sms;
    setenv("SYMTUNER_LOG", "off", 1);
    setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", 1);
    fake_nccl.rule_of[0] = first_rule;
    fake_nccl.rule_of[1] = second_rule;
    return symtuner_ar_create(h, comms, RANKS, &config);
}

static void make_group(symtuner_ar **h, const char *first_rule, const char *second_rule)
{
    ck_assert_msg(try_group(h, first_rule, second_rule) == ncclSuccess, "%s",
                  symtuner_ar_error(NULL));
}

/* Return what symtuner_ar_query answers. Both ranks must get the same answer. */
static struct symtuner_ar_plan plan_of(symtuner_ar **h)
{
    struct symtuner_ar_plan plan[RANKS];
    static char memory[4096];

    for (int r = 0; r < RANKS; r++) {
        plan[r] = (struct symtuner_ar_plan){.size = sizeof plan[r]};
        ck_assert_int_eq(
            symtuner_ar_query(memory, memory, 1024, ncclFloat, ncclSum, h[r], &plan[r]),
            ncclSuccess);
    }
    ck_assert_int_eq(memcmp(&plan[0], &plan[1], sizeof plan[0]), 0);
    return plan[0];
}

START_TEST(test_ranks_with_the_same_rules_use_them)
{
    static const char text[] = "kernels ranks=2 kernel=two_ll8; kernels ranks=8 kernel=nccl";
    symtuner_ar *h[RANKS];

    make_group(h, text, "  kernels ranks=2   kernel=two_ll8"); /* the same rule for 2 ranks */
    ck_assert_str_eq(plan_of(h).kernel, "two_ll8");
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

START_TEST(test_ranks_with_different_rules_use_none)
{
    static const char *const other[] = {NULL, "kernels kernel=two_ll128", "kernels kernel=two_l8",
                                        "kernels gpu=H100 kernel=two_ll8"};
    char text[4096];
    symtuner_ar *h[RANKS];

    for (size_t i = 0; i < 2 * sizeof other / sizeof *other; i++) {
        const char *mine = "kernels kernel=two_ll8", *theirs = other[i / 2];

        make_group(h, i % 2 ? mine : theirs, i % 2 ? theirs : mine);
        ck_assert_ptr_nonnull(strstr(plan_of(h).why, "table"));
        for (int r = 0; r < RANKS; r++) {
            symtuner_ar_describe(h[r], text, sizeof text);
            ck_assert_ptr_nonnull(strstr(text, "rules: not used: ranks 0 and 1 have different"));
        }
        symtuner_ar_destroy(h, RANKS);
    }
}
END_TEST

START_TEST(test_ranks_with_different_settings_are_told_which)
{
    static const char *const other[][2] = {{"SYMTUNER_AR_KERNEL", "two_ll8"},
                                           {"SYMTUNER_AR_CTAS", "3"},
                                           {"SYMTUNER_AR_PROBE", "0"},
                                           {"SYMTUNER_AR_TRANSPORT", "peer"}};
    symtuner_ar *h[RANKS];

    keep = CARDS;
    make_group(h, NULL, NULL);
    symtuner_ar_destroy(h, RANKS);
    keep = 0;
    say = CARDS;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        setenv(other[i][0], other[i][1], 1);
        ck_assert_int_eq(try_group(h, NULL, NULL), ncclInvalidUsage);
        unsetenv(other[i][0]);
        ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "ranks 0 and 1 differ in "));
        ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), other[i][0]));
        ck_assert_int_eq(fake.live, 0);
    }
    /* no variable is set any more, so rank 0 has the settings that the fake sends for rank 1 */
    make_group(h, NULL, NULL);
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

/* All ranks take the smallest limit of CTAs (SYMTUNER_AR_MAX_CTAS) and the smallest number of
 * multiprocessors of any rank. In rows 2 and 3, rank 1 sends its data of row 1 again. */
START_TEST(test_ranks_agree_on_the_least_budget)
{
    static const struct {
        const char *budget;
        int sms, least_budget, least_sms;
    } row[] = {{"40", 100, 40, 100}, {"8", 60, 8, 60}, {"100", 132, 40, 100}};
    symtuner_ar *h[RANKS];

    for (int i = 0; i < 3; i++) {
        keep = i == 0 ? CARDS : 0;
        say = i == 0 ? 0 : CARDS;
        sms = row[i].sms;
        setenv("SYMTUNER_AR_MAX_CTAS", row[i].budget, 1);
        make_group(h, NULL, NULL);
        for (int r = 0; r < RANKS; r++)
            ck_assert(h[r]->budget == row[i].least_budget && h[r]->sms == row[i].least_sms);
        symtuner_ar_destroy(h, RANKS);
    }
    unsetenv("SYMTUNER_AR_MAX_CTAS");
    say = sms = 0;
    make_group(h, NULL, NULL);
    ck_assert_int_eq(h[1]->budget, 128);
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

/* If kernels of one handle may overlap, their CTAs together stay within SYMTUNER_AR_MAX_CTAS. */
START_TEST(test_overlapped_kernels_keep_the_budget)
{
    static char memory[1 << 14];
    static const struct {
        int ctas;
        enum ar_start want;
        unsigned capture; /* not 0: a captured call; it overlaps captured calls only */
    } row[] = {{32, AR_EARLY_BOTH, 0}, {32, AR_EARLY_BOTH, 0}, {33, AR_SERIAL, 0},
               {64, AR_EARLY, 0},      {4, AR_EARLY_BOTH, 0},  {60, AR_EARLY, 0},
               {1, AR_EARLY_BOTH, 0},  {64, AR_EARLY, 7},      {64, AR_SERIAL, 0},
               {32, AR_EARLY_BOTH, 7}, {64, AR_EARLY, 0},      {64, AR_SERIAL, 7}};
    symtuner_ar *h[RANKS];

    setenv("SYMTUNER_AR_OVERLAP", "2", 1);
    setenv("SYMTUNER_AR_MAX_CTAS", "64", 1);
    start = &starts[9];
    make_group(h, NULL, NULL);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const struct fake_launch *l = &fake.launch[fake.launches % FAKE_LAUNCHES];

        symtuner_ar_force(h[0], "one_ll8", row[i].ctas, 32);
        fake.capture = row[i].capture;
        symtuner_ar_all_reduce(memory, memory, 4096, ncclFloat, ncclSum, h[0], NULL);
        ck_assert_int_eq(l->ctas, row[i].ctas);
        ck_assert_msg((int)l->args.overlap == (int)row[i].want, "row %zu", i);
        ck_assert_int_eq(l->early, row[i].want != AR_SERIAL);
    }
    fake.capture = 0;
    fake_graph_gone(7);
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

START_TEST(test_a_transport_that_is_asked_for_is_had_or_no_group)
{
    symtuner_ar *h[RANKS];
    char text[4096];

    for (transport = SYMTUNER_AR_AUTO; transport <= SYMTUNER_AR_HOST; transport++) {
        keep = CARDS;
        say = 0;
        make_group(h, NULL, NULL);
        symtuner_ar_destroy(h, RANKS);
        keep = 0;
        say = CARDS;
        fake_nccl.said[0] ^= 1; /* now rank 1 seems to be on another host */
        if (transport == SYMTUNER_AR_AUTO) {
            make_group(h, NULL, NULL);
            symtuner_ar_describe(h[1], text, sizeof text);
            ck_assert_ptr_nonnull(
                strstr(text, "every call goes to NCCL: the ranks span several nodes"));
            symtuner_ar_destroy(h, RANKS);
            continue;
        }
        ck_assert_int_eq(try_group(h, NULL, NULL), ncclInvalidUsage);
        ck_assert_ptr_nonnull(
            strstr(symtuner_ar_error(NULL), transport == SYMTUNER_AR_PEER
                                                ? "transport peer was asked for"
                                                : "transport host was asked for"));
        ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "span several nodes"));
        ck_assert_int_eq(fake.live, 0);
    }
    transport = say = 0;
}
END_TEST

START_TEST(test_no_transport_is_no_error_unless_one_was_asked_for)
{
    symtuner_ar *h[RANKS];
    char text[4096];

    no_pin = true;
    for (transport = SYMTUNER_AR_AUTO; transport <= SYMTUNER_AR_HOST; transport += 2) {
        no_symmetric = true;
        if (transport == SYMTUNER_AR_AUTO) {
            make_group(h, NULL, NULL);
            symtuner_ar_describe(h[0], text, sizeof text);
            ck_assert_ptr_nonnull(strstr(text, "no peer memory (rank 0: NCCL gave no symmetric"));
            ck_assert_ptr_nonnull(strstr(text, "and no pinned host memory (rank 0: pin host scr"));
            symtuner_ar_destroy(h, RANKS);
            continue;
        }
        ck_assert_int_eq(try_group(h, NULL, NULL), ncclInvalidUsage);
        ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "rank 0: pin host scratch: "));
    }
    transport = 0;
    no_pin = no_symmetric = false;
}
END_TEST

START_TEST(test_ranks_probe_together_and_agree)
{
    symtuner_ar *h[RANKS];
    char text[RANKS][4096];

    setenv("SYMTUNER_AR_PROBE", "1", 1);
    make_group(h, NULL, NULL);
    unsetenv("SYMTUNER_AR_PROBE");
    ck_assert_int_eq(fake.launches, 3 * RANKS); /* each rank launches push, check and pull */
    for (int r = 0; r < RANKS; r++) {
        symtuner_ar_describe(h[r], text[r], sizeof text[r]);
        ck_assert_ptr_nonnull(strstr(text[r], "start-up probe"));
    }
    ck_assert_str_eq(strstr(text[0], "start-up probe"), strstr(text[1], "start-up probe"));
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

START_TEST(test_a_probe_that_never_ends_is_an_error_in_time)
{
    symtuner_ar *h[RANKS];

    setenv("SYMTUNER_AR_PROBE", "1", 1);
    endless_at = 5; /* the launch of rank 0's pull kernel */
    ck_assert_int_eq(try_group(h, NULL, NULL), ncclUnhandledCudaError);
    ck_assert_ptr_nonnull(fake.endless);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "did not answer the probe"));
    unsetenv("SYMTUNER_AR_PROBE");
    endless_at = 0;
}
END_TEST

START_TEST(test_a_rule_may_give_calls_to_nccl)
{
    symtuner_ar *h[RANKS];

    make_group(h, "kernels nccl=2.29 kernel=nccl", "kernels nccl=2.29.1 kernel=nccl");
    ck_assert_ptr_nonnull(strstr(plan_of(h).why, "table")); /* the texts of the rules differ */
    symtuner_ar_destroy(h, RANKS);
    make_group(h, "kernels nccl=2.29 kernel=nccl", "kernels nccl=2.29 kernel=nccl");
    ck_assert_str_eq(plan_of(h).kernel, "nccl");
    ck_assert_ptr_nonnull(strstr(plan_of(h).why, "; NCCL adds in an order of its own"));
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

START_TEST(test_what_nccl_misreads_is_said_once)
{
    static char memory[RANKS][4096] __attribute__((aligned(4096)));
    static const struct {
        int type, op, at, registered;
    } call[] = {
        {ncclHalf, ncclSum, 4, 1}, {ncclFloat, ncclSum, 4, 1}, {ncclHalf, ncclSum, 2, 0},
        {ncclInt8, ncclSum, 3, 1}, {ncclHalf, ncclMax, 2, 1},  {ncclHalf, ncclSum, 6, 1},
    };
    const int calls = sizeof call / sizeof *call;
    void *const buffers[RANKS] = {memory[0], memory[1]};
    symtuner_ar *h[RANKS];

    make_group(h, "kernels kernel=nccl", "kernels kernel=nccl");
    for (int i = 0; i < calls; i++) {
        char *p = memory[0] + call[i].at;

        if (call[i].registered)
            ck_assert_int_eq(symtuner_ar_register(h, buffers, NULL, RANKS, 4096), ncclSuccess);
        capture_stderr();
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(symtuner_ar_all_reduce(p, p, 513, (ncclDataType_t)call[i].type,
                                                    (ncclRedOp_t)call[i].op, h[0], NULL),
                             ncclSuccess);
        ck_assert_str_eq(captured_stderr(),
                         i < calls - 1
                             ? ""
                             : "symtuner_ar: warning: kernel nccl: NCCL 2.29.1: small "
                               "symmetric kernels (LL) give wrong results for 8-bit and 16-bit "
                               "types, and for AllGather with any type, if a buffer does not begin "
                               "at a multiple of 4 bytes: align the buffers, or use NCCL 2.30.3, "
                               "or use another kernel\n");
        if (call[i].registered)
            ck_assert_int_eq(symtuner_ar_deregister(h, buffers, RANKS), ncclSuccess);
    }
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

START_TEST(test_faults_of_nccl_are_those_of_its_release)
{
    static const char said[] =
        "symtuner_ar: warning: kernel nccl: NCCL 2.31.2: AllReduce with ncclAvg on two symmetric "
        "windows fails, because NCCL picks a kernel that does not exist (CUDA says: invalid device "
        "function): use ncclSum and scale, or keep these buffers out of windows, or use another "
        "kernel\n";
    static char p[8] __attribute__((aligned(8)));

    capture_stderr();
    ar_nccl_warn(22907, ncclFloat, ncclAvg, p, p);
    ar_nccl_warn(23002, ncclFloat, ncclAvg, p, p);
    ar_nccl_warn(23203, ncclHalf, ncclSum, p, p + 2);
    ar_nccl_warn(23102, ncclHalf, ncclSum, p, p + 2);
    ar_nccl_warn(23102, ncclInt8, ncclAvg, p, p);
    ar_nccl_warn(23102, ncclDouble, ncclAvg, p, p);
    ar_nccl_warn(23102, ncclFloat, ncclAvg, p, p);
    ar_nccl_warn(23102, ncclFloat8e5m2, ncclAvg, p, p);
    ck_assert_str_eq(captured_stderr(), said);
}
END_TEST

/* LeakSanitizer ignores what is allocated below functions named *never_ends* (main.c). */
static __attribute__((noinline)) void make_what_never_ends(symtuner_ar **h)
{
    static char memory[4096];

    make_group(h, "kernels nccl=2.29 kernel=nccl", "kernels nccl=2.29 kernel=nccl");
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(
            symtuner_ar_all_reduce(memory, memory, 1024, ncclFloat, ncclSum, h[r], NULL),
            ncclSuccess);
    ck_assert_int_eq(fake_nccl.reduces, RANKS);
}

START_TEST(test_destroy_does_not_wait_for_ever_for_nccl)
{
    symtuner_ar *h[RANKS];
    int live, mine;

    make_what_never_ends(h);
    live = fake.live;
    __atomic_store_n(&fake.busy, 1, __ATOMIC_RELEASE); /* GPU 0, which rank 0 uses, stays busy */
    h[0]->timeout_ns = _i == 0 ? 1 : 2500000000; /* in case 1 only the first wait is that long */
    ck_assert_int_eq(_i == 0 || symtuner_ar_synchronize(h[0]) == ncclRemoteError, 1);
    ck_assert_int_eq(symtuner_ar_destroy(&h[0], 1), ncclRemoteError);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "0 frees nothing: GPU 0 is not idle"));
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "after 2000 ms"));
    ck_assert_ptr_null(h[0]);
    ck_assert_int_eq(fake.live, live);
    ck_assert_int_eq(symtuner_ar_destroy(&h[1], 1), ncclSuccess); /* the GPU of rank 1 is idle */
    mine = live - fake.live;
    ck_assert_int_gt(mine, 0);
    __atomic_store_n(&fake.busy, 0, __ATOMIC_RELEASE); /* the work ends, but destroy has given up */
    usleep(50000);
    ck_assert_int_eq(live - fake.live, mine);
}
END_TEST

START_TEST(test_destroy_waits_for_work_that_ends)
{
    symtuner_ar *h[RANKS];
    int idles;

    make_what_never_ends(h);
    idles = fake.idles;
    ck_assert_int_eq(symtuner_ar_destroy(h, RANKS), ncclSuccess);
    ck_assert_int_eq(fake.idles - idles, RANKS);
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

START_TEST(test_a_kernel_starts_early_where_that_is_safe)
{
    static const char *const words[] = {"launches: 0, no kernel starts early\n",
                                        "launches: 1, ours may start early\n",
                                        "launches: 2, ours and the next ones may start early\n"};
    static char memory[4096], text[1 << 14];
    const struct start *row = &starts[_i];
    const struct fake_launch *l;
    symtuner_ar *h[RANKS];

    setenv("SYMTUNER_AR_OVERLAP", row->asked ? row->asked : "", 1);
    setenv("SYMTUNER_AR_KERNEL", row->kernel ? row->kernel : "", 1);
    setenv("SYMTUNER_AR_SHARE_GPU", "1", 1);
    start = row;
    make_group(h, NULL, NULL);
    if (row->said != AR_FOLLOWER_UNKNOWN) /* this also changes handles that already exist */
        symtuner_ar_followers_wait(row->said == AR_FOLLOWER_WAITS);
    ck_assert_int_eq(symtuner_ar_all_reduce(memory, memory, 1024, ncclFloat, ncclSum, h[0], NULL),
                     ncclSuccess);
    l = &fake.launch[(fake.launches - 1) % FAKE_LAUNCHES];
    ck_assert_int_eq(l->args.overlap, row->want);
    ck_assert_int_eq(l->early, row->want != AR_SERIAL);
    symtuner_ar_describe(h[0], text, sizeof text);
    if (row->kernel == NULL) /* chunked never starts early, whatever symtuner_ar_describe prints */
        ck_assert_msg(strstr(text, words[row->want]) != NULL, "%s", text);
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

Suite *st_suite_comm(void)
{
    Suite *suite = suite_create("ar_comm");
    TCase *t = tcase_create("rules");

    tcase_set_timeout(t, 30);
    tcase_add_test(t, test_ranks_with_the_same_rules_use_them);
    tcase_add_test(t, test_ranks_with_different_rules_use_none);
    tcase_add_test(t, test_ranks_with_different_settings_are_told_which);
    tcase_add_test(t, test_ranks_agree_on_the_least_budget);
    tcase_add_test(t, test_overlapped_kernels_keep_the_budget);
    tcase_add_test(t, test_a_transport_that_is_asked_for_is_had_or_no_group);
    tcase_add_test(t, test_no_transport_is_no_error_unless_one_was_asked_for);
    tcase_add_test(t, test_ranks_probe_together_and_agree);
    tcase_add_test(t, test_a_probe_that_never_ends_is_an_error_in_time);
    tcase_add_test(t, test_a_rule_may_give_calls_to_nccl);
    tcase_add_test(t, test_what_nccl_misreads_is_said_once);
    tcase_add_test(t, test_faults_of_nccl_are_those_of_its_release);
    tcase_add_loop_test(t, test_destroy_does_not_wait_for_ever_for_nccl, 0, 2);
    tcase_add_test(t, test_destroy_waits_for_work_that_ends);
    tcase_add_loop_test(t, test_a_kernel_starts_early_where_that_is_safe, 0,
                        sizeof starts / sizeof *starts);
    suite_add_tcase(suite, t);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_probe.c - checks how the bandwidths that the start-up probe measured change the choice of a
 * kernel, and the file that keeps these bandwidths. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/choose/families.h"
#include "kernels/choose/probe.h"
#include "kernels/choose/select.h"
#include "test/kernels/choose/ask.h"
#include "test/kernels/suites.h"

#define MiB ((uint64_t)1 << 20)

static const unsigned all_bulk =
    1u << AR_CHUNKED | 1u << AR_PULL | 1u << AR_PULL_ONE | 1u << AR_COPY;
/* What the probe measured on three machines, in MB/s. ${even}: PCIe 5 as it should be. ${collapse}:
 * stores of several writers at the same time are slow (a Turin CPU behind a switch). ${no_loads}:
 * loads do not work. */
static const struct ar_probe even = {40000, 36000, 44000}, collapse = {2700, 40000, 2700},
                             no_loads = {12000, 0, 11000};
static char path[64], why[200];

static void make_path(void)
{
    snprintf(path, sizeof path, "/tmp/check-probe-%d", (int)getpid());
    unlink(path);
    unsetenv("SYMTUNER_AR_PROBE");
    unsetenv("SYMTUNER_AR_PROBE_FILE");
}

static void drop_path(void)
{
    unlink(path);
    make_path();
}

START_TEST(test_a_link_that_keeps_its_promise_changes_nothing)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
        for (uint64_t bytes = MiB / 16; bytes < 1024 * MiB; bytes *= 2)
            ck_assert_int_eq(
                ar_probe_choose(&even, AR_CHUNKED, all_bulk & ~(1u << AR_COPY), ranks, bytes),
                AR_CHUNKED);
}
END_TEST

/* The predicted times for 1 MB among four ranks. Each rank moves 750000 bytes, at 1000 MB/s (push),
 * 2000 MB/s (pull) or 4000 MB/s (copy). */
static const struct {
    int family;
    double us;
} priced[] = {
    {AR_ONE_LL8, 5 + 4 * 1500},  {AR_TWO_LL8, 8 + 3000},  {AR_ONE_LAMPORT, 5 + 4 * 750},
    {AR_TWO_LAMPORT, 8 + 1500},  {AR_CHUNKED, 12 + 1500}, {AR_PULL, 12 + 750 + 375},
    {AR_PULL_ONE, 12 + 4 * 375}, {AR_COPY, 60 + 375},     {AR_NCCL, -1},
    {AR_ONE_LL128, -1},          {AR_TWO_LL128, -1},      {AR_NVLS, -1},
    {AR_NVLS_ONE, -1},
};

START_TEST(test_a_price_is_hops_and_bytes_over_what_was_measured)
{
    static const struct ar_probe rates = {.push = 1000, .pull = 2000, .copy = 4000}, none = {0};
    double us = ar_probe_cost(&rates, priced[_i].family, 4, 1000000);

    ck_assert_msg(us == priced[_i].us, "%s: %g us", ar_family_name(priced[_i].family), us);
    ck_assert(ar_probe_cost(&none, priced[_i].family, 4, MiB) == -1);
    if (us < 0) /* if the time of its family cannot be predicted, a call keeps this family */
        ck_assert_int_eq(ar_probe_choose(&even, priced[_i].family, all_bulk, 4, 64 * MiB),
                         priced[_i].family);
}
END_TEST

START_TEST(test_where_stores_collapse_everybody_loads)
{
    for (int ranks = 2; ranks <= 8; ranks++)
        ck_assert_int_eq(ar_probe_choose(&collapse, AR_CHUNKED, all_bulk, ranks, 16 * MiB),
                         AR_PULL_ONE);
    /* pull_one does not work in place; half of pull's traffic is loads, so pull is the next best */
    ck_assert_int_eq(
        ar_probe_choose(&collapse, AR_COPY, all_bulk & ~(1u << AR_PULL_ONE), 4, 64 * MiB), AR_PULL);
    ck_assert_int_eq(ar_probe_choose(&collapse, AR_TWO_LAMPORT, all_bulk, 4, MiB), AR_PULL_ONE);
}
END_TEST

START_TEST(test_where_loads_fail_nobody_loads)
{
    static const int families[] = {AR_ONE_LAMPORT, AR_TWO_LAMPORT, AR_CHUNKED, AR_COPY};

    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (int ranks = 2; ranks <= 16; ranks++)
            for (uint64_t bytes = MiB / 16; bytes < 1024 * MiB; bytes *= 2) {
                int family = ar_probe_choose(&no_loads, families[f], all_bulk, ranks, bytes);

                ck_assert_int_ne(family, AR_PULL);
                ck_assert_int_ne(family, AR_PULL_ONE);
            }
}
END_TEST

START_TEST(test_where_loads_fail_no_half_loads)
{
    static const int halves[] = {AR_REDUCE_SCATTER, AR_ALL_GATHER};
    const struct ar_probe *probes[] = {&even, &no_loads};
    int pulls[2] = {0, 0};

    for (int p = 0; p < 2; p++)
        for (int ranks = 2; ranks <= 16; ranks++)
            for (uint64_t bytes = MiB; bytes < 1024 * MiB; bytes *= 2) {
                struct ar_ask ask = ask_for(ranks, AR_LINKS_PCIE, bytes, AR_BF16, AR_SUM);
                struct ar_choice choice;

                ask.coll = halves[ranks % 2];
                ask.has_copy = 0; /* so that the kernels that the table names cannot run */
                ask.half[AR_REGION_BULK] = 0;
                ask.probe = *probes[p];
                ck_assert_int_eq(ar_select(&ask, &free_choice, &choice), 0);
                pulls[p] += choice.family == AR_PULL;
            }
    ck_assert_int_gt(pulls[0], 0);
    ck_assert_int_eq(pulls[1], 0);
}
END_TEST

START_TEST(test_a_small_difference_is_noise)
{
    struct ar_probe near = {20000, 0, 23000}, far = {20000, 0, 40000};

    ck_assert_int_eq(ar_probe_choose(&near, AR_CHUNKED, all_bulk, 4, 256 * MiB), AR_CHUNKED);
    ck_assert_int_eq(ar_probe_choose(&far, AR_CHUNKED, all_bulk, 4, 256 * MiB), AR_COPY);
    ck_assert_int_eq(ar_probe_choose(&far, AR_CHUNKED, all_bulk, 4, MiB / 4), AR_CHUNKED);
}
END_TEST

/* For each family f that a table may name, and many measured bandwidths: the choice must be f
 * itself, or a family of the set ${can} whose time can be predicted. */
static void choose_of(unsigned can)
{
    for (int i = 0; i < 5 * 5 * 5 * AR_FAMILIES; i++) {
        const int f = i / 125;
        struct ar_probe p = {(unsigned)(i % 5) * 7000, (unsigned)(i / 5 % 5) * 7000,
                             (unsigned)(i / 25 % 5) * 7000};
        int got = ar_probe_choose(&p, f, can, 4, 32 * MiB);

        must(got == f || ((can >> got & 1) != 0 && ar_probe_cost(&p, got, 4, 32 * MiB) > 0));
    }
}

/* Try each set of families whose time can be predicted, together with none, one or all of the other
 * families. Trying all sets of all families would take twice as long with each new family. */
START_TEST(test_only_what_can_run_and_is_known_is_chosen)
{
    struct ar_probe none = {0, 0, 0};
    unsigned known = 0, set, all = (1u << AR_FAMILIES) - 1;

    for (int f = 0; f < AR_FAMILIES; f++)
        known |= (unsigned)(ar_families[f].latency != 0) << f;
    set = known;
    do {
        choose_of(set);
        choose_of(set | (all & ~known));
        for (int f = 0; f < AR_FAMILIES; f++)
            if ((known >> f & 1) == 0)
                choose_of(set | 1u << f);
        set = (set - 1) & known;
    } while (set != known);
    for (int f = 0; f < AR_FAMILIES; f++)
        ck_assert_int_eq(ar_probe_choose(&none, f, ~0u, 4, 32 * MiB), f);
}
END_TEST

START_TEST(test_the_slowest_rank_counts)
{
    struct ar_probe p = ar_probe_slower(even, collapse);

    ck_assert_uint_eq(p.push, 2700);
    ck_assert_uint_eq(p.pull, 36000);
    ck_assert_uint_eq(p.copy, 2700);
}
END_TEST

START_TEST(test_the_table_gives_way_on_pcie_only)
{
    struct ar_ask ask = {.bytes = 8 * MiB,
                         .ranks = 4,
                         .links = AR_LINKS_PCIE,
                         .dtype = AR_BF16,
                         .dst_mapped = 1,
                         .src_mapped = 1,
                         .has_copy = 1,
                         .max_ctas = 132,
                         .half = {1 << 19, 16 << 20, 32 << 20, 256 << 20, 64 << 20},
                         .probe = collapse};
    struct ar_choice c;

    ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_PULL_ONE);
    ar_select_why(&ask, &c, why, sizeof why);
    ck_assert_ptr_nonnull(strstr(why, "push 2700, pull 40000, copy 2700; the table says chunked"));
    ck_assert(c.ctas > 0 && c.ctas <= 16 && c.threads <= 512);
    for (int f = 0; f < AR_FAMILIES; f++) /* a kernel that a user asked for stays */
        if (ar_select(&ask, &(struct ar_force){.family = f}, &c) == 0)
            ck_assert_int_eq(c.family, f);
    ask.src_mapped = 0; /* loads need a registered buffer */
    ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_CHUNKED);
    ask.src_mapped = 1;
    ask.bytes = 1024; /* a message so short that only the latency matters */
    ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_ONE_LL8);
    ask.bytes = 8 * MiB;
    ask.links = AR_LINKS_NVLINK;
    ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_TWO_LAMPORT);
}
END_TEST

static void write_text(const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

START_TEST(test_figures_come_back_from_the_file)
{
    struct ar_probe p = {0, 0, 0};
    uint64_t key = ar_probe_key(0, "0000:01:00.0");

    ck_assert_int_eq(ar_probe_read(path, key, &p, why, sizeof why), 0);
    ck_assert_int_eq(ar_probe_write(path, key, &collapse, why, sizeof why), 0);
    ck_assert_int_eq(ar_probe_read(path, ar_probe_key(key, "x"), &p, why, sizeof why), 0);
    ck_assert_uint_eq(p.push, 0);
    ck_assert_int_eq(ar_probe_read(path, key, &p, why, sizeof why), 1);
    ck_assert(p.push == 2700 && p.pull == 40000 && p.copy == 2700);
}
END_TEST

START_TEST(test_a_file_of_another_kind_is_refused_by_name)
{
    static const char *const texts[] = {"", "hello\n",
                                        "symtuner-ar-probe 2 gpus 0 push 1 pull 1 copy 1",
                                        "symtuner-ar-probe 1 gpus 0 push 1 pull 1"};
    struct ar_probe p;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text(texts[i]);
        ck_assert_int_eq(ar_probe_read(path, 0, &p, why, sizeof why), -1);
        ck_assert_ptr_nonnull(strstr(why, path));
        ck_assert_ptr_nonnull(strstr(why, "delete it"));
    }
    ck_assert_int_eq(ar_probe_write("/no/such/folder/f", 0, &even, why, sizeof why), -1);
    ck_assert_ptr_nonnull(strstr(why, "/no/such/folder/f"));
}
END_TEST

START_TEST(test_a_pipe_is_refused_and_not_waited_for)
{
    struct ar_probe p;

    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(ar_probe_read(path, 0, &p, why, sizeof why), -1);
    ck_assert_ptr_nonnull(strstr(why, "is no plain file"));
}
END_TEST

#ifdef ST_AR_API
#include "kernels/host/create.h"
#include "kernels/host/rank.h"
#include "test/kernels/fake/cuda.h"

static const int devices[2] = {0, 1};

static ncclResult_t make_group(symtuner_ar **handles)
{
    struct symtuner_ar_config config = {.size = sizeof config, .bulk_bytes = 1 << 20};

    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    fake.peers = 1;
    return symtuner_ar_create_local(handles, devices, 2, &config);
}

START_TEST(test_a_group_takes_the_figures_of_the_file)
{
    symtuner_ar *handles[2];
    char text[4096];
    uint64_t key = ar_probe_key(ar_probe_key(0, "0000:00:00.0"), "0000:01:00.0");

    setenv("SYMTUNER_AR_PROBE", "1", 1);
    setenv("SYMTUNER_AR_PROBE_FILE", path, 1);
    ck_assert_int_eq(ar_probe_write(path, key, &collapse, why, sizeof why), 0);
    ck_assert_int_eq(make_group(handles), ncclSuccess);
    ck_assert_int_eq(fake.launches, 0);
    symtuner_ar_describe(handles[1], text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "push 2700, pull 40000, copy 2700 (from "));
    symtuner_ar_destroy(handles, 2);
    write_text("something else");
    ck_assert_int_eq(make_group(handles), ncclInvalidUsage);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "delete it"));
    ck_assert_int_eq(fake.live, 0);
    setenv("SYMTUNER_AR_PROBE", "2", 1);
    ck_assert_int_eq(make_group(handles), ncclInvalidArgument);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "SYMTUNER_AR_PROBE=\"2\""));
}
END_TEST

/* Instead of an exchange between ranks, write the bandwidths of each rank to ${all}. ${all} has
 * more elements than the group has ranks. The elements behind those of the group must not count. */
static ncclResult_t exchange_here(void *handles, struct ar_probe *all)
{
    for (int r = 0; r < 2; r++)
        all[r] = ((symtuner_ar **)handles)[r]->probe;
    all[2] = (struct ar_probe){.push = AR_PROBE_FAILED};
    return ncclSuccess;
}

START_TEST(test_all_blocks_count)
{
    symtuner_ar *handles[2];
    const struct ar_probe_group group = {exchange_here, handles, 0};
    unsigned blocks, want;

    setenv("SYMTUNER_AR_PROBE", "1", 1);
    ck_assert_int_eq(make_group(handles), ncclSuccess);
    blocks = (unsigned)fake.launch[0].ctas;
    want = 1000 * blocks * (blocks + 1) / 2 * 1000 / (70 * blocks);
    ck_assert_uint_gt(blocks, 1);
    fake.probed = (struct ar_probe_seen){.bytes = 1000, .ns = 70};
    for (int wrong = 0; wrong < 2; wrong++) {
        fake.probed.wrong = (uint64_t)wrong;
        handles[0]->probe = handles[1]->probe = (struct ar_probe){0, 0, 0};
        ck_assert_int_eq(ar_probe_run(handles, 2, &group, NULL),
                         wrong ? ncclInvalidUsage : ncclSuccess);
        ck_assert_uint_eq(handles[0]->probe.push, wrong ? AR_PROBE_BROKEN : want);
        ck_assert_uint_eq(handles[1]->probe.pull, wrong ? 0 : want);
    }
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(handles[0]), "does not arrive"));
    symtuner_ar_destroy(handles, 2);
}
END_TEST

START_TEST(test_only_pcie_is_probed_unless_asked)
{
    symtuner_ar *handles[2];
    char text[4096];

    ck_assert_int_eq(make_group(handles), ncclSuccess);
    ck_assert_int_eq(fake.launches, 0);
    symtuner_ar_describe(handles[0], text, sizeof text);
    ck_assert_ptr_null(strstr(text, "probe"));
    symtuner_ar_destroy(handles, 2);
    setenv("SYMTUNER_AR_LINKS", "pcie", 1);
    ck_assert_int_eq(make_group(handles), ncclSuccess);
    unsetenv("SYMTUNER_AR_LINKS");
    ck_assert_int_eq(fake.launches, 6); /* two ranks with three kernels each: push, check, pull */
    for (int i = 0; i < 6; i++) {
        const struct ar_args *args = &fake.launch[i].args;
        const struct ar_layout *l = &handles[0]->arena[AR_ARENA_BULK].layout;

        ck_assert_uint_gt(args->shard, 0); /* the slots of all ranks must fit into scratch memory */
        ck_assert_uint_le(args->shard * 2, l->half[AR_REGION_BULK]);
        ck_assert_uint_eq(args->region, l->first[AR_REGION_BULK]);
        ck_assert_uint_eq(args->timeout_ns, fake.launch[0].args.timeout_ns);
        ck_assert_uint_gt(args->timeout_ns, 0);
        ck_assert_ptr_nonnull(args->out);
        ck_assert_int_eq(args->lag, fake.launch[i / 2 * 2].args.lag);
    }
    symtuner_ar_destroy(handles, 2);
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

START_TEST(test_a_probe_that_breaks_leaves_nothing_behind)
{
    symtuner_ar *handles[2];
    struct symtuner_ar_config config = {.size = sizeof config, .bulk_bytes = 1 << 20};
    ncclResult_t result = ncclInternalError;

    setenv("SYMTUNER_AR_PROBE", "1", 1);
    for (int at = 1; result != ncclSuccess; at++) {
        memset(&fake, 0, sizeof fake);
        fake.devices = 2;
        fake.peers = 1;
        fake.fail_at = at;
        result = symtuner_ar_create_local(handles, devices, 2, &config);
        ck_assert_msg(result != ncclSuccess || fake.calls < at, "call %d fails unnoticed", at);
        if (result == ncclSuccess)
            symtuner_ar_destroy(handles, 2);
        ck_assert_int_eq(fake.live, 0);
        ck_assert_int_lt(at, 1000);
    }
}
END_TEST

/* The probe's loads never end, and the fake CUDA ends the test if anything waits for them. Takes 5
 * s. */
START_TEST(test_a_kernel_that_never_ends_is_an_error_and_not_waited_for)
{
    symtuner_ar *handles[2];
    struct symtuner_ar_config config = {.size = sizeof config, .bulk_bytes = 1 << 20};

    setenv("SYMTUNER_AR_PROBE", "1", 1);
    setenv("SYMTUNER_LOG", "off", 1);
    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    fake.peers = 1;
    fake.endless_at = 6; /* the sixth launch is rank 1's pull, after push and check */
    ck_assert_int_eq(symtuner_ar_create_local(handles, devices, 2, &config),
                     ncclUnhandledCudaError);
    ck_assert_ptr_nonnull(fake.endless);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "did not answer the probe"));
    ck_assert_int_gt(fake.live, 0); /* nothing was freed, because freeing would have waited for the
                                       kernel */
}
END_TEST

static ncclResult_t other_is_stuck(void *handle, struct ar_probe *all)
{
    all[0] = ((symtuner_ar *)handle)->probe;
    all[1] = (struct ar_probe){.push = AR_PROBE_STUCK};
    return ncclSuccess;
}

START_TEST(test_where_another_rank_never_ends_nothing_is_freed)
{
    symtuner_ar *handles[2];
    struct ar_probe_group group = {.exchange = other_is_stuck};
    int live;

    setenv("SYMTUNER_AR_PROBE", "0", 1);
    ck_assert_int_eq(make_group(handles), ncclSuccess);
    group.ranks = handles[0];
    ck_assert_int_eq(ar_probe_run(handles, 1, &group, NULL), ncclRemoteError);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(handles[0]), "rank 1 could not probe"));
    ck_assert(handles[0]->stuck && !handles[1]->stuck);
    live = fake.live;
    ar_rank_free(handles[0]);
    ck_assert_int_eq(fake.live, live);
}
END_TEST
#endif

Suite *st_suite_probe(void)
{
    Suite *suite = suite_create("ar_probe");
    TCase *t = tcase_create("probe");

    tcase_add_checked_fixture(t, make_path, drop_path);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, test_a_price_is_hops_and_bytes_over_what_was_measured, 0,
                        (int)(sizeof priced / sizeof *priced));
    tcase_add_test(t, test_a_link_that_keeps_its_promise_changes_nothing);
    tcase_add_test(t, test_where_stores_collapse_everybody_loads);
    tcase_add_test(t, test_where_loads_fail_nobody_loads);
    tcase_add_test(t, test_where_loads_fail_no_half_loads);
    tcase_add_test(t, test_a_small_difference_is_noise);
    tcase_add_test(t, test_only_what_can_run_and_is_known_is_chosen);
    tcase_add_test(t, test_the_slowest_rank_counts);
    tcase_add_test(t, test_the_table_gives_way_on_pcie_only);
    tcase_add_test(t, test_figures_come_back_from_the_file);
    tcase_add_test(t, test_a_file_of_another_kind_is_refused_by_name);
    tcase_add_test(t, test_a_pipe_is_refused_and_not_waited_for);
#ifdef ST_AR_API
    tcase_add_test(t, test_a_group_takes_the_figures_of_the_file);
    tcase_add_test(t, test_only_pcie_is_probed_unless_asked);
    tcase_add_test(t, test_all_blocks_count);
    tcase_add_test(t, test_a_probe_that_breaks_leaves_nothing_behind);
    tcase_add_test(t, test_a_kernel_that_never_ends_is_an_error_and_not_waited_for);
    tcase_add_test(t, test_where_another_rank_never_ends_nothing_is_freed);
#endif
    suite_add_tcase(suite, t);
    return suite;
}

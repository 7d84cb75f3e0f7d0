/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_comm.c - symtuner_ar_create on an NCCL of a page: two communicators that one thread drives.
 * Ranks of other processes read their own files, so here every rank gets rules of its own.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ar_handle.h"
#include "test/ar/fake_cuda.h"
#include "test/ar/suites.h"

enum { RANKS = 2, WINDOWS = 4 };
#define EXPORT __attribute__((visibility("default"))) /* the library asks dlsym */

/* nccl.h has these for other compilers or later releases only */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p);

static const char *rule_of[RANKS]; /* what SYMTUNER_RULE holds in the process of each rank */

static struct {
    const void *send[RANKS];
    char *recv[RANKS];
    size_t bytes;
    void *memory[WINDOWS][RANKS];
    int windows[RANKS];
} nccl;

static int rank_of(ncclComm_t comm)
{
    return (int)(uintptr_t)comm - 1;
}

EXPORT ncclResult_t ncclGetVersion(int *version)
{
    *version = 22901;
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommCount(const ncclComm_t c, int *n)
{
    (void)c;
    *n = RANKS;
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t c, int *d)
{
    *d = rank_of(c);
    return ncclSuccess;
}
EXPORT const char *ncclGetErrorString(ncclResult_t r)
{
    (void)r;
    return "fake";
}
EXPORT ncclResult_t ncclGroupStart(void)
{
    return ncclSuccess;
}
EXPORT ncclResult_t ncclMemFree(void *p)
{
    ck_assert_ptr_null(fake.endless); /* would wait for it */
    free(p);
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w)
{
    (void)c, (void)w;
    ck_assert_ptr_null(fake.endless);
    return ncclSuccess;
}

/* Asked before the rank reads its rules: from here on we are in its process. */
EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = rank_of(comm);
    if (rule_of[*rank])
        setenv("SYMTUNER_RULE", rule_of[*rank], 1);
    else
        unsetenv("SYMTUNER_RULE");
    return ncclSuccess;
}

EXPORT ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t bytes,
                                           ncclWindow_t *window, int flags)
{
    int r = rank_of(comm), w = nccl.windows[r]++;

    (void)bytes, (void)flags;
    nccl.memory[w][r] = p;
    *window = (ncclWindow_t)nccl.memory[w];
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p)
{
    *p = (char *)((void **)window)[rank] + offset;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    (void)type;
    ck_assert(fake.endless == NULL || stream != fake.endless);
    nccl.send[rank_of(comm)] = send;
    nccl.recv[rank_of(comm)] = recv;
    nccl.bytes = count;
    return ncclSuccess;
}

/* What rank 1 says of itself first: kept in one group, said again in another. */
static struct {
    bool keep, say;
    char card[4096];
} first;

EXPORT ncclResult_t ncclGroupEnd(void)
{
    if (nccl.bytes && first.keep)
        memcpy(first.card, nccl.send[1], nccl.bytes);
    if (nccl.bytes && first.say)
        nccl.send[1] = first.card;
    if (nccl.bytes)
        first.keep = first.say = false;
    for (int r = 0; r < RANKS && nccl.bytes; r++)
        for (int s = 0; s < RANKS; s++)
            memcpy(nccl.recv[r] + (size_t)s * nccl.bytes, nccl.send[s], nccl.bytes);
    nccl.bytes = 0;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    return ncclSuccess;
}

static int endless_at; /* of the fake, for the next group */

static ncclResult_t try_group(symtuner_ar **h, const char *first_rule, const char *second_rule)
{
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2};
    const struct symtuner_ar_config config = {.size = sizeof config, .bulk_bytes = 1 << 20};

    memset(&fake, 0, sizeof fake);
    memset(&nccl, 0, sizeof nccl);
    fake.devices = RANKS;
    fake.peers = 1;
    fake.endless_at = endless_at;
    setenv("SYMTUNER_LOG", "off", 1);
    setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", 1);
    rule_of[0] = first_rule;
    rule_of[1] = second_rule;
    return symtuner_ar_create(h, comms, RANKS, &config);
}

static void make_group(symtuner_ar **h, const char *first_rule, const char *second_rule)
{
    ck_assert_msg(try_group(h, first_rule, second_rule) == ncclSuccess, "%s",
                  symtuner_ar_error(NULL));
}

/* The kernel and its reason, which must be the same on both ranks. */
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

    make_group(h, text, "  kernels ranks=2   kernel=two_ll8"); /* same for this group */
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

    first.keep = true;
    make_group(h, NULL, NULL);
    symtuner_ar_destroy(h, RANKS);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        setenv(other[i][0], other[i][1], 1);
        first.say = true;
        ck_assert_int_eq(try_group(h, NULL, NULL), ncclInvalidUsage);
        unsetenv(other[i][0]);
        ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "ranks 0 and 1 differ in "));
        ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), other[i][0]));
        ck_assert_int_eq(fake.live, 0);
    }
    first.say = true; /* the same card */
    make_group(h, NULL, NULL);
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

START_TEST(test_ranks_probe_together_and_agree)
{
    symtuner_ar *h[RANKS];
    char text[RANKS][4096];

    setenv("SYMTUNER_AR_PROBE", "1", 1);
    make_group(h, NULL, NULL);
    unsetenv("SYMTUNER_AR_PROBE");
    ck_assert_int_eq(fake.launches, 3 * RANKS); /* push, check, pull */
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
    endless_at = 5; /* pull of rank 0 */
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
    ck_assert_ptr_nonnull(strstr(plan_of(h).why, "table")); /* written differently is different */
    symtuner_ar_destroy(h, RANKS);
    make_group(h, "kernels nccl=2.29 kernel=nccl", "kernels nccl=2.29 kernel=nccl");
    ck_assert_str_eq(plan_of(h).kernel, "nccl");
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
    tcase_add_test(t, test_ranks_probe_together_and_agree);
    tcase_add_test(t, test_a_probe_that_never_ends_is_an_error_in_time);
    tcase_add_test(t, test_a_rule_may_give_calls_to_nccl);
    suite_add_tcase(suite, t);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_alloc.c - runs the plugin again and again, each time with one more allocation that succeeds
 * before all others fail. Nothing may crash, and no job may fail.
 *
 * The linker replaces malloc, calloc, open and open_memstream (WRAPPED in test/test.mk). The
 * replacements fail only between refuse_from() and refused().
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/env.h"
#include "plugin/process.h"
#include "rules/box.h"
#include "plugin/profiler.h"
#include "plugin/tuner.h"
#include "rules/match.h"
#include "rules/sources.h"
#include "symtuner.h"
#include "test/suites.h"

static int left = -1; /* how many allocations still succeed; -1: all do */
static int failed;    /* how many allocations were refused */

static int refuse(void)
{
    if (left < 0)
        return 0;
    if (left > 0) {
        left--;
        return 0;
    }
    failed++;
    errno = ENOMEM;
    return 1;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int __real_open(const char *path, int flags, ...);
FILE *__real_open_memstream(char **text, size_t *size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_open(const char *path, int flags, ...);
FILE *__wrap_open_memstream(char **text, size_t *size);

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuse() ? NULL : __real_calloc(count, size);
}

int __wrap_open(const char *path, int flags, ...)
{
    return refuse() ? -1 : __real_open(path, flags, 0644);
}

FILE *__wrap_open_memstream(char **text, size_t *size)
{
    return refuse() ? NULL : __real_open_memstream(text, size);
}

/* From now on let ${n} allocations succeed, and all later ones fail. */
static void refuse_from(int n)
{
    left = n;
    failed = 0;
}

static int refused(void)
{
    left = -1;
    return failed;
}

/* More allocations than any test makes, so in the last round none fails. */
enum { ALLOCATIONS = 24 };

/* ---- tests ---------------------------------------------------------------------------------- */

START_TEST(test_reading_rules_reports_out_of_memory)
{
    symtuner_rules *rules = NULL;
    char error[SYMTUNER_ERROR_MAX] = "";
    enum symtuner_status status;

    refuse_from(0);
    status = symtuner_rules_parse("[rule a]\ncoll = any\n", "t", &rules, error, sizeof error);
    ck_assert_int_eq(refused(), 1);
    ck_assert_int_eq(status, SYMTUNER_ENOMEM);
    ck_assert_str_eq(error, "t: out of memory");
    ck_assert_ptr_null(rules);
}
END_TEST

START_TEST(test_loading_a_file_survives_every_refusal)
{
    symtuner_rules *rules = NULL;
    char error[SYMTUNER_ERROR_MAX] = "";
    enum symtuner_status status;

    refuse_from(_i);
    status = symtuner_rules_load("test/golden/rules/everything.rules", &rules, error,
                                 sizeof error);
    if (refused()) {
        ck_assert_msg(status == SYMTUNER_ENOMEM || status == SYMTUNER_EIO, "%d", status);
        ck_assert_ptr_null(rules);
        ck_assert_str_ne(error, "");
    } else {
        ck_assert_int_eq(status, SYMTUNER_OK);
        symtuner_rules_free(rules);
    }
}
END_TEST

/* Run the plugin from init to finalize with only ${_i} allocations. Every call must succeed, and
 * the table must be either steered or untouched. */
START_TEST(test_a_plugin_without_memory_lets_nccl_decide)
{
    float table[21];
    int channels = 0, mask = 0, wrong = 0, missing;
    void *tuner[2] = {&table, &table}, *profiler = &table;
    uint64_t id = (uint64_t)getpid(); /* an id that no other running test uses */
    struct st_tuner_init init = {.abi = 5, .comm_id = id, .ranks = 2, .nodes = 1};
    struct st_profiler_init events = {.abi = 5, .comm_id = id, .ranks = 2, .nodes = 1,
                                      .mask = &mask};
    char ledger[] = "/tmp/symtuner-check-XXXXXX";
    struct nccl_abi_event_v5 event = {.type = NCCL_ABI_EV_COLL_API,
                                      .u.api = {"AllReduce", 1024, "ncclFloat32", 0, NULL, false}};
    void *handle = &table;

    for (int i = 0; i < 21; i++)
        table[i] = (float)(i + 1);
    mkstemp(ledger);
    setenv("SYMTUNER_LEDGER", ledger, 1);
    setenv("SYMTUNER_LOG", "off", 1);
    setenv("SYMTUNER_MACHINE", "gpu=x", 1);
    setenv("SYMTUNER_RULE", "allreduce prefer=general:ring/ll", 1);
    setenv("SYMTUNER_RULES", "test/golden/rules/per_rank.rules", 1);

    refuse_from(_i); /* assert only after refused(), because libcheck allocates, too */
    wrong |= st_profiler_open(&events, &profiler);
    for (int rank = 0; rank < 2; rank++)
        wrong |= st_tuner_open(&init, &tuner[rank]);
    wrong |= st_profiler_event_v5(profiler, &handle, &event);
    wrong |= st_tuner_decide(tuner[1], SYMTUNER_ALLREDUCE, 4096, 1, (float **)(void *)table, 7, 3,
                             0, &channels);
    st_env_get("NCCL_SYM_CTAS");
    for (int rank = 0; rank < 2; rank++)
        wrong |= st_tuner_close(tuner[rank]);
    wrong |= st_profiler_close(profiler);
    missing = refused();

    ck_assert_int_eq(wrong, NCCL_ABI_SUCCESS);
    ck_assert_int_eq(channels, 0);
    ck_assert_ptr_null(handle);
    for (int i = 0; i < 21; i++) /* ring/ll is entry 3; the entries before it were cheaper */
        ck_assert_msg(table[i] == (float)(i + 1) || (i < 3 && table[i] == 8.0f),
                      "entry %d became %f", i, (double)table[i]);
    if (missing == 0)
        ck_assert_msg(table[0] == 8.0f, "with all its memory the rule did not act");
    unlink(ledger);
    if (_i == ALLOCATIONS - 1)
        ck_assert_msg(missing == 0, "raise ALLOCATIONS: this life makes more");
}
END_TEST

static void read_and_give_back(void)
{
    static const char *const texts[] = {"[rule a]\ncoll = any\n", "[rule a]\ncoll = n\n"};
    const struct st_group group = {.nccl = 22809, .ranks = 2, .nodes = 1};
    struct symtuner_machine machine;
    symtuner_rules *rules;

    for (int i = 0; i < 2; i++)
        if (symtuner_rules_parse(texts[i], "t", &rules, NULL, 0) == SYMTUNER_OK) {
            free(st_index_build(rules, &group));
            symtuner_rules_free(rules);
        }
    for (int i = 0; i < 2; i++)
        if (symtuner_rules_load(i ? "/dev/null/x" : "test/golden/rules/everything.rules", &rules,
                                NULL, 0) == SYMTUNER_OK)
            symtuner_rules_free(rules);
    if (st_rules_sources("allreduce", "test/golden/rules/two.inline", NULL, &rules, NULL, 0) ==
            SYMTUNER_OK ||
        st_rules_sources("allreduce", "test/golden/rules/everything.rules", NULL, &rules, NULL,
                         0) == SYMTUNER_OK)
        symtuner_rules_free(rules);
    st_machine_read("gpu=x", &machine, NULL, 0);
    st_machine_read("gpu", &machine, NULL, 0);
    st_machine_read("gpus=1..4", &machine, NULL, 0);
}

/* With sanitizers this test checks nothing, because they have allocators of their own, so mallinfo2
 * gives 0 before and after. */
START_TEST(test_what_is_read_is_given_back)
{
    size_t before;

    read_and_give_back(); /* in the first run, libc allocates memory that it keeps */
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < 20; i++)
        read_and_give_back();
    ck_assert_uint_lt(mallinfo2().uordblks + mallinfo2().hblkhd, before + 4096);
}
END_TEST

Suite *alloc_suite(void)
{
    Suite *suite = suite_create("allocation failure");
    TCase *rules = tcase_create("rules"), *plugin = tcase_create("plugin");

    tcase_add_test(rules, test_what_is_read_is_given_back);
    tcase_add_test(rules, test_reading_rules_reports_out_of_memory);
    tcase_add_loop_test(rules, test_loading_a_file_survives_every_refusal, 0, 4);
    tcase_add_loop_test(plugin, test_a_plugin_without_memory_lets_nccl_decide, 0, ALLOCATIONS);
    suite_add_tcase(suite, rules);
    suite_add_tcase(suite, plugin);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_rollcall.c - checks what the plugin concludes from the entries of ranks, and the shared
 * memory that holds these entries. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/ranks/rollcall.h"
#include "test/suites.h"

/* The members of struct st_roll_entry are rules, min_ctas, sym_ctas, gpus, asked and first. */
#define LIKE {7, 16, 24, 2, true, true}

static const struct {
    const char *what;
    int count, ranks;
    struct st_roll_entry entry[3];
    enum st_roll_verdict verdict;
    int ctas;
} judged[] = {
    {"two alike", 2, 2, {LIKE, LIKE}, ST_ROLL_ALIKE, 24},
    {"one missing", 1, 2, {LIKE}, ST_ROLL_MISSING, 0},
    {"none there", 0, 2, {{0}}, ST_ROLL_MISSING, 0},
    {"one too many", 3, 2, {LIKE, LIKE, LIKE}, ST_ROLL_MISSING, 0},
    {"rules of the last differ", 3, 3,
     {{7, 0, 24, 3, true, true}, {7, 0, 24, 3, true, true}, {8, 0, 24, 3, true, true}},
     ST_ROLL_DIFFER, 24},
    {"rules of the first differ", 2, 2, {{8, 16, 24, 2, true, true}, LIKE}, ST_ROLL_DIFFER, 24},
    {"counts differ", 2, 2, {LIKE, {7, 16, 20, 2, true, true}}, ST_ROLL_ALIKE, 0},
    {"one wants none", 2, 2, {LIKE, {7, 16, 0, 2, true, true}}, ST_ROLL_ALIKE, 0},
    {"nobody wants one", 2, 2, {{7, 16, 0, 2, true, true}, {7, 16, 0, 2, true, true}},
     ST_ROLL_ALIKE, 0},
    {"not the first communicator of one", 2, 2, {LIKE, {7, 16, 24, 2, true, false}},
     ST_ROLL_ALIKE, 0},
    {"one is not asked", 2, 2, {LIKE, {7, 16, 24, 2, false, true}}, ST_ROLL_ALIKE, 0},
    {"half of the box", 2, 2, {{7, 0, 24, 4, true, true}, {7, 0, 24, 4, true, true}},
     ST_ROLL_ALIKE, 0},
    {"one sees another box", 2, 2, {LIKE, {7, 16, 24, 4, true, true}}, ST_ROLL_ALIKE, 0},
    {"unknown box", 2, 2, {{7, 0, 24, 0, true, true}, {7, 0, 24, 0, true, true}}, ST_ROLL_ALIKE, 0},
    {"floors differ, nobody wants a count", 2, 2,
     {{0, 16, 0, 2, true, true}, {0, 0, 0, 2, true, true}}, ST_ROLL_ALIKE, ST_ROLL_REPAIR_CTAS},
    {"floors differ, all want one", 2, 2, {LIKE, {7, 0, 24, 2, true, true}}, ST_ROLL_ALIKE, 24},
    {"floors differ, one cannot be told", 2, 2,
     {{0, 16, 0, 2, true, true}, {0, 0, 0, 2, false, true}}, ST_ROLL_ALIKE, 0},
};

START_TEST(test_a_verdict_follows_from_the_entries)
{
    ck_assert_msg(st_roll_judge(judged[_i].entry, judged[_i].count, judged[_i].ranks) ==
                      judged[_i].verdict, "%s", judged[_i].what);
    ck_assert_msg(st_roll_judge_ctas(judged[_i].entry, judged[_i].count, judged[_i].ranks) ==
                      judged[_i].ctas, "%s", judged[_i].what);
}
END_TEST

static uint64_t id(void)
{
    return 0x70110000u | (uint64_t)getpid() << 32;
}

START_TEST(test_the_first_verdict_is_everybody_s)
{
    const struct st_roll_entry entry = LIKE;
    struct st_roll *one = st_roll_join(id(), 2, &entry), *other;
    int present = -1;

    ck_assert_ptr_nonnull(one);
    ck_assert_int_eq(st_roll_ctas_given(one), 0);
    ck_assert_int_eq(st_roll_rules(one, &present), ST_ROLL_MISSING);
    ck_assert_int_eq(present, 1);
    ck_assert_int_eq(st_roll_ctas(one), 0);
    /* this rank comes too late; in NCCL a barrier prevents that */
    other = st_roll_join(id(), 2, &entry);
    ck_assert_int_eq(st_roll_rules(other, &present), ST_ROLL_MISSING);
    ck_assert_int_eq(present, 2);
    ck_assert_int_eq(st_roll_ctas(other), 0);
    ck_assert_int_eq(st_roll_ctas_given(other), 0);
    st_roll_leave(one);
    st_roll_leave(other);
}
END_TEST

START_TEST(test_all_there_and_alike)
{
    const struct st_roll_entry entry = LIKE;
    struct st_roll *one = st_roll_join(id(), 2, &entry), *other = st_roll_join(id(), 2, &entry);
    int present = -1;

    ck_assert_int_eq(st_roll_rules(other, &present), ST_ROLL_ALIKE);
    ck_assert_int_eq(present, 2);
    ck_assert_int_eq(st_roll_rules(one, &present), ST_ROLL_ALIKE);
    ck_assert_int_eq(st_roll_ctas_given(one), 0);
    ck_assert_int_eq(st_roll_ctas(other), 24);
    ck_assert_int_eq(st_roll_ctas_given(one), 24);
    ck_assert_int_eq(st_roll_ctas(one), 24);
    ck_assert(!st_roll_min_differs(one));
    st_roll_leave(other); /* ${one} has not left yet */
    ck_assert_int_eq(st_roll_ctas(one), 24);
    st_roll_leave(one);
    st_roll_leave(NULL);
}
END_TEST

START_TEST(test_floors_that_differ_are_seen_once_all_are_there)
{
    const struct st_roll_entry told = {0, 16, 0, 2, true, true},
                               not_told = {0, 0, 0, 2, true, true};
    struct st_roll *one = st_roll_join(id(), 2, &told), *other;

    ck_assert(!st_roll_min_differs(one));
    other = st_roll_join(id(), 2, &not_told);
    ck_assert(st_roll_min_differs(one) && st_roll_min_differs(other));
    st_roll_leave(one);
    st_roll_leave(other);
}
END_TEST

START_TEST(test_another_communicator_or_size_is_another_roll_call)
{
    const struct st_roll_entry entry = LIKE;
    struct st_roll *roll[] = {st_roll_join(id(), 2, &entry), st_roll_join(id() + 1, 2, &entry),
                              st_roll_join(id(), 3, &entry)};
    int present;

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(st_roll_rules(roll[i], &present), ST_ROLL_MISSING);
        ck_assert_int_eq(present, 1);
        st_roll_leave(roll[i]);
    }
    ck_assert_ptr_null(st_roll_join(id(), 1 << 20, &entry)); /* no host has so many ranks */
}
END_TEST

/* The plugin must not use a shared memory object that other users may read, or that is not a file
 * of the right size. */
START_TEST(test_a_name_that_is_not_ours_is_not_used)
{
    const struct st_roll_entry entry = LIKE;
    char name[64];
    int fd;

    snprintf(name, sizeof name, "/symtuner-1-%u-%016llx-2", (unsigned)geteuid(),
             (unsigned long long)id());
    fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fchmod(fd, 0644), 0);
    ck_assert_ptr_null(st_roll_join(id(), 2, &entry));
    close(fd);
    shm_unlink(name);
}
END_TEST

Suite *rollcall_suite(void)
{
    Suite *suite = suite_create("roll call");
    TCase *pure = tcase_create("judging"), *shared = tcase_create("meeting");

    t_add_rows(pure, test_a_verdict_follows_from_the_entries, judged);
    tcase_add_test(shared, test_the_first_verdict_is_everybody_s);
    tcase_add_test(shared, test_all_there_and_alike);
    tcase_add_test(shared, test_floors_that_differ_are_seen_once_all_are_there);
    tcase_add_test(shared, test_another_communicator_or_size_is_another_roll_call);
    tcase_add_test(shared, test_a_name_that_is_not_ours_is_not_used);
    suite_add_tcase(suite, pure);
    suite_add_tcase(suite, shared);
    return suite;
}

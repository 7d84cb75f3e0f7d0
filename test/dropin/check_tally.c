/* SPDX-License-Identifier: Apache-2.0 */
/* check_tally.c - tests the file in which the processes of a job count their NCCL calls. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dropin/tally.h"
#include "test/suites.h"

static char folder[32], path[64], error[256];

static struct st_tally *create(void)
{
    struct st_tally *tally;

    strcpy(folder, "/tmp/check-tally-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tally", folder);
    tally = st_tally_create(path, error, sizeof error);
    ck_assert_msg(tally != NULL, "%s", error);
    return tally;
}

static void drop(struct st_tally *tally)
{
    st_tally_close(tally);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* Run ${job} in a child, which then ends by SIGKILL. */
static void child(void (*job)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        job();
        raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void count_three(void)
{
    struct st_tally *tally = st_tally_open(path, error, sizeof error);
    struct st_tally_slot *slot = tally ? st_tally_claim(tally, "child") : NULL;

    st_tally_count(slot, ST_TALLY_ALL_REDUCE, ST_WHY_OURS, 4096);
    st_tally_count(slot, ST_TALLY_ALL_REDUCE, ST_WHY_OURS, 0);
    st_tally_count(slot, ST_TALLY_BROADCAST, ST_WHY_COLLECTIVE, UINT64_MAX / 2);
    st_tally_time(slot, false, 8191);
    st_tally_time(slot, true, 0);
    st_tally_time(slot, true, 1);
    st_tally_note(slot, "first");
    st_tally_note(slot, "second");
}

START_TEST(test_survives_kill)
{
    struct st_tally *tally = create();
    const struct st_tally_slot *slot = &tally->slot[0];

    ck_assert_int_eq(st_tally_used(tally), 0);
    child(count_three);
    ck_assert_int_eq(st_tally_used(tally), 1);
    ck_assert_int_gt(slot->pid, 0);
    ck_assert_str_eq(slot->program, "child");
    ck_assert_str_eq(st_tally_noted(slot), "first");
    ck_assert_uint_eq(slot->call[ST_TALLY_ALL_REDUCE][ST_WHY_OURS].calls, 2);
    ck_assert_uint_eq(slot->call[ST_TALLY_ALL_REDUCE][ST_WHY_OURS].bytes, 4096);
    ck_assert_uint_eq(slot->timed[0][12], 1);
    ck_assert_uint_eq(slot->timed[1][0], 2);
    ck_assert_uint_eq(slot->call[ST_TALLY_BROADCAST][ST_WHY_COLLECTIVE].calls, 1);
    ck_assert_str_eq(st_tally_noted(&tally->slot[1]), "");
    drop(tally);
}
END_TEST

START_TEST(test_slots_run_out)
{
    struct st_tally *tally = create();

    for (int i = 0; i < ST_TALLY_SLOTS; i++)
        ck_assert_ptr_eq(st_tally_claim(tally, "p"), &tally->slot[i]);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(st_tally_claim(tally, "p"));
    ck_assert_int_eq(st_tally_used(tally), ST_TALLY_SLOTS);
    ck_assert_uint_eq(tally->claimed, ST_TALLY_SLOTS + 1);
    st_tally_count(NULL, ST_TALLY_OTHER, ST_WHY_OURS, 1);
    st_tally_note(NULL, "nobody");
    drop(tally);
}
END_TEST

/* Opening refuses a file that is missing, of another version, too short or a link. Creating never
 * overwrites an existing file. */
START_TEST(test_refuses)
{
    struct st_tally *tally = create(), *none;
    char link_path[80];

    none = st_tally_create(path, error, sizeof error);
    ck_assert_ptr_null(none);
    ck_assert_msg(strstr(error, strerror(EEXIST)) != NULL, "%s", error);
    snprintf(link_path, sizeof link_path, "%s.link", path);
    ck_assert_int_eq(symlink(path, link_path), 0);
    none = st_tally_open(link_path, error, sizeof error);
    ck_assert_ptr_null(none);
    unlink(link_path);
    tally->version++;
    ck_assert_ptr_null(st_tally_open(path, error, sizeof error));
    tally->version--;
    none = st_tally_open(path, error, sizeof error);
    ck_assert_ptr_nonnull(none);
    st_tally_close(none);
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert_ptr_null(st_tally_open(path, error, sizeof error));
    ck_assert_msg(strstr(error, "symtuner run") != NULL, "%s", error);
    drop(tally);
    ck_assert_ptr_null(st_tally_open(path, error, sizeof error));
    ck_assert_msg(strstr(error, strerror(ENOENT)) != NULL, "%s", error);
}
END_TEST

START_TEST(test_words)
{
    for (int i = 0; i < ST_TALLY_COLLS; i++)
        ck_assert(*st_tally_coll_word(i) && *st_tally_coll_name(i));
    for (int i = 0; i < ST_WHYS; i++)
        ck_assert(*st_tally_why_text(i));
    ck_assert_str_eq(st_tally_coll_word(ST_TALLY_ALL_GATHER), "allgather");
    ck_assert_str_eq(st_tally_coll_name(ST_TALLY_ALL_GATHER), "ncclAllGather");
}
END_TEST

Suite *tally_suite(void)
{
    Suite *suite = suite_create("tally");
    TCase *tcase = tcase_create("file");

    tcase_add_test(tcase, test_survives_kill);
    tcase_add_test(tcase, test_slots_run_out);
    tcase_add_test(tcase, test_refuses);
    tcase_add_test(tcase, test_words);
    suite_add_tcase(suite, tcase);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_probe_file.c - checks how the file that keeps the probe's figures is replaced. */
#include <check.h>
#include <glob.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/choose/probe.h"
#include "test/kernels/suites.h"

static const struct ar_probe even = {40000, 36000, 44000};
static char path[64], why[200];

static void make_path(void)
{
    snprintf(path, sizeof path, "/tmp/check-probe-file-%d", (int)getpid());
    unlink(path);
}

static void drop_path(void)
{
    unlink(path);
}

/* Return how many files have a name that begins with ${path} and a dot. */
static int beside(void)
{
    char pattern[80];
    glob_t found;
    int n = 0;

    snprintf(pattern, sizeof pattern, "%s.*", path);
    if (glob(pattern, 0, NULL, &found) == 0) {
        n = (int)found.gl_pathc;
        globfree(&found);
    }
    return n;
}

START_TEST(test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it)
{
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(ar_probe_write(path, 0x2a, &even, why, sizeof why), -1);
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_ptr_nonnull(strstr(why, "cannot be written"));
    ck_assert_int_eq(beside(), 0);
}
END_TEST

/* Return the name of file ${i} that another process with our number may have. */
static const char *other_name(int i)
{
    static char name[128];

    snprintf(name, sizeof name, "%s.%ld.2a.%d", path, (long)getpid(), i);
    return name;
}

/* Another process may be writing a file of that name, for example in another container, where it
 * has the same process number. */
START_TEST(test_a_file_beside_it_is_left_alone)
{
    const int before = 7;
    struct stat about;
    struct ar_probe p;

    umask(027);
    for (int i = 0; i < before; i++)
        ck_assert_int_eq(symlink("/no/such/file", other_name(i)), 0);
    ck_assert_int_eq(ar_probe_write(path, 0x2a, &even, why, sizeof why), 0);
    ck_assert_int_eq(ar_probe_read(path, 0x2a, &p, why, sizeof why), 1);
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert_int_eq(about.st_mode & 07777, 0640);
    ck_assert_int_eq(beside(), before);
    for (int i = 0; i < before; i++)
        ck_assert_int_eq(unlink(other_name(i)), 0);
}
END_TEST

/* Each thread writes other figures. They have different lengths, so mixed figures would show. */
static void *write_often(void *figure)
{
    const uint32_t n = (uint32_t)(uintptr_t)figure;
    const struct ar_probe mine = {n, n, n};
    char error[200];
    intptr_t failed = 0;

    for (int i = 0; i < 300; i++)
        failed += ar_probe_write(path, 0x2a, &mine, error, sizeof error) != 0;
    return (void *)failed;
}

START_TEST(test_threads_that_write_at_the_same_time)
{
    static const uint32_t figure[] = {7, 4000000000, 12345, 99};
    pthread_t thread[4];
    struct ar_probe p;
    void *failed;

    ck_assert_int_eq(ar_probe_write(path, 0x2a, &(struct ar_probe){7, 7, 7}, why, sizeof why), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(
            pthread_create(&thread[i], NULL, write_often, (void *)(uintptr_t)figure[i]), 0);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(ar_probe_read(path, 0x2a, &p, why, sizeof why), 1);
        ck_assert(p.push == p.pull && p.push == p.copy);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(beside(), 0);
}
END_TEST

Suite *st_suite_probe_file(void)
{
    Suite *suite = suite_create("ar_probe_file");
    TCase *t = tcase_create("probe file");

    tcase_add_checked_fixture(t, make_path, drop_path);
    tcase_add_test(t, test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it);
    tcase_add_test(t, test_a_file_beside_it_is_left_alone);
    tcase_add_test(t, test_threads_that_write_at_the_same_time);
    suite_add_tcase(suite, t);
    return suite;
}

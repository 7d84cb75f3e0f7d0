/* SPDX-License-Identifier: Apache-2.0 */
/* check_files.c - checks rules from pipes, devices and missing files, and from several sources at
 * the same time. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rules/sources.h"
#include "test/lease.h"
#include "test/suites.h"

static char error[SYMTUNER_ERROR_MAX];

static const struct {
    const char *path, *error;
} unreadable[] = {
    {"/nonexistent/x.rules", "/nonexistent/x.rules: No such file or directory"},
    {"/", "/: Is a directory"},
    {"", ": No such file or directory"},
    {"/dev/zero",
     "/dev/zero: a pipe or a device could block the job; write the rules to a file"},
};

START_TEST(test_an_unreadable_file_says_why)
{
    symtuner_rules *rules = NULL;

    ck_assert_int_eq(symtuner_rules_load(unreadable[_i].path, &rules, error, sizeof error),
                     SYMTUNER_EIO);
    ck_assert_str_eq(error, unreadable[_i].error);
    ck_assert_ptr_null(rules);
}
END_TEST

/* Some people write SYMTUNER_RULES=/dev/null for "no file". Then SYMTUNER_RULE must still apply. */
START_TEST(test_dev_null_is_an_empty_text_for_a_job)
{
    symtuner_rules *rules = NULL;

    ck_assert_msg(st_rules_sources("allreduce prefer=symmetric", "/dev/null", "/dev/null", &rules,
                                   error, sizeof error) == SYMTUNER_OK, "%s", error);
    ck_assert_int_eq(symtuner_rules_count(rules), 1);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_a_source_that_is_wrong_leaves_no_rules_of_another)
{
    static const char *const good = "allreduce prefer=symmetric", *const none = "/nonexistent.csv";
    symtuner_rules *rules = NULL;

    ck_assert_int_eq(st_rules_sources(good, "", none, &rules, error, sizeof error), SYMTUNER_EIO);
    ck_assert_ptr_null(rules);
    ck_assert_int_eq(st_rules_sources("x", "docs/example.rules", NULL, &rules, error, sizeof error),
                     SYMTUNER_ESYNTAX);
    ck_assert_ptr_null(rules);
    ck_assert_msg(strncmp(error, "SYMTUNER_RULE:1:1: ", 19) == 0, "%s", error);
}
END_TEST

START_TEST(test_too_many_rules_of_three_sources_are_none)
{
    char path[] = "/tmp/symtuner-check-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    symtuner_rules *rules = NULL;

    for (int i = 0; i < SYMTUNER_RULES_MAX; i++)
        fprintf(file, "[rule r%d]\ncoll = any\n", i);
    fclose(file);
    ck_assert_int_eq(st_rules_sources("allreduce prefer=symmetric", path,
                                      "test/golden/rules/nccl_example.csv", &rules, error,
                                      sizeof error), SYMTUNER_ESYNTAX);
    ck_assert_ptr_null(rules);
    ck_assert_ptr_nonnull(strstr(error, "with the rules before it more than 256 rules"));
    unlink(path);
}
END_TEST

/* A job must not wait for a pipe's writer, since it might wait for ever. A command may wait a
 * while, because the person who names a pipe on its command line also writes to it. */
START_TEST(test_a_pipe_never_holds_a_job_up)
{
    char path[] = "/tmp/symtuner-check-XXXXXX";
    symtuner_rules *rules = NULL;
    int writer;

    close(mkstemp(path));
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(symtuner_rules_load(path, &rules, error, sizeof error), SYMTUNER_EIO);
    ck_assert_ptr_nonnull(strstr(error, "a pipe or a device could block the job"));
    ck_assert_int_eq(st_rules_load_any(path, &rules, error, sizeof error), SYMTUNER_EIO);
    ck_assert_ptr_nonnull(strstr(error, "a pipe that nobody writes to"));
    writer = open(path, O_RDWR); /* on Linux this is both a reader and a writer */
    if (fork() == 0) {
        usleep(50000); /* so that the reader has to wait for the writer */
        _exit(write(writer, "[rule a]\ncoll = any\n", 20) != 20);
    }
    close(writer);
    ck_assert_int_eq(st_rules_load_any(path, &rules, error, sizeof error), SYMTUNER_OK);
    ck_assert_int_eq(symtuner_rules_count(rules), 1);
    symtuner_rules_free(rules);
    wait(NULL);
    unlink(path);
}
END_TEST

/* The writer comes later, as in `generate > fifo & symtuner check fifo`. It may write nothing. */
START_TEST(test_the_writer_of_a_pipe_may_come_later)
{
    char path[] = "/tmp/symtuner-check-XXXXXX";
    symtuner_rules *rules = NULL;
    int ends[2];

    close(mkstemp(path));
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    for (int bytes = 0; bytes <= 20; bytes += 20) {
        if (fork() == 0) {
            int fd;

            usleep(100000);
            fd = open(path, O_WRONLY);
            usleep(bytes ? 1100000 : 0); /* a writer that has opened the pipe may be slow */
            _exit(write(fd, "[rule a]\ncoll = any\n", bytes) != bytes);
        }
        ck_assert_msg(st_rules_load_any(path, &rules, error, sizeof error) == SYMTUNER_OK, "%s",
                      error);
        ck_assert_int_eq(symtuner_rules_count(rules), bytes / 20);
        symtuner_rules_free(rules);
        wait(NULL);
    }
    unlink(path);
    ck_assert_int_eq(pipe(ends), 0); /* this pipe is like <(true) in a shell */
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    ck_assert_int_eq(st_rules_load_any(path, &rules, error, sizeof error), SYMTUNER_OK);
    symtuner_rules_free(rules);
    close(ends[0]);
}
END_TEST

/* A job that has closed its standard input gets file descriptor 0 for the rules file. */
START_TEST(test_a_file_may_be_number_0)
{
    symtuner_rules *rules = NULL;

    close(0);
    ck_assert_msg(symtuner_rules_load("docs/example.rules", &rules, error, sizeof error) ==
                      SYMTUNER_OK, "%s", error);
    symtuner_rules_free(rules);
    /* number 0 is free again, so the file was closed */
    ck_assert_int_eq(open("/dev/null", O_RDONLY), 0);
}
END_TEST

START_TEST(test_a_file_with_a_lease_is_read)
{
    char path[] = "/tmp/symtuner-check-XXXXXX";
    symtuner_rules *rules = NULL;

    close(mkstemp(path));
    ck_assert(t_lease(path, F_WRLCK));
    ck_assert_msg(symtuner_rules_load(path, &rules, error, sizeof error) == SYMTUNER_OK, "%s",
                  error);
    wait(NULL);
    symtuner_rules_free(rules);
    unlink(path);
}
END_TEST

Suite *files_suite(void)
{
    Suite *suite = suite_create("files");
    TCase *files = tcase_create("files"), *sources = tcase_create("sources");
    TCase *pipes = tcase_create("pipes");

    t_add_rows(files, test_an_unreadable_file_says_why, unreadable);
    if (t_leases_here("test_a_file_with_a_lease_is_read"))
        tcase_add_test(files, test_a_file_with_a_lease_is_read);
    tcase_add_test(files, test_a_file_may_be_number_0);
    tcase_add_test(sources, test_dev_null_is_an_empty_text_for_a_job);
    tcase_add_test(sources, test_a_source_that_is_wrong_leaves_no_rules_of_another);
    tcase_add_test(sources, test_too_many_rules_of_three_sources_are_none);
    tcase_add_test(pipes, test_a_pipe_never_holds_a_job_up);
    tcase_add_test(pipes, test_the_writer_of_a_pipe_may_come_later);
    suite_add_tcase(suite, files);
    suite_add_tcase(suite, sources);
    suite_add_tcase(suite, pipes);
    return suite;
}

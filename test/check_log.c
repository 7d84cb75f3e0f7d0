/* SPDX-License-Identifier: Apache-2.0 */
/* check_log.c - what is said, to whom, and when nothing is. */
#include <stdlib.h>
#include <unistd.h>

#include "plugin/log.h"
#include "test/messages.h"
#include "test/suites.h"

static const struct {
    enum st_log level;
    int warnings, infos;
} levels[] = {{ST_LOG_INFO, 1, 1}, {ST_LOG_WARN, 1, 0}, {ST_LOG_OFF, 0, 0}};

START_TEST(test_a_level_lets_through_what_it_names)
{
    setenv("NCCL_DEBUG", "INFO", 1);
    st_log_use(keep_message);
    st_log_use(NULL); /* changes nothing */
    st_log_level(levels[_i].level);
    st_warn("w %d", 1);
    st_info("i %s", "2");
    ck_assert_int_eq(messages.warnings, levels[_i].warnings);
    ck_assert_int_eq(messages.infos, levels[_i].infos);
}
END_TEST

/* Without NCCL_DEBUG NCCL prints nothing, so a warning also goes to stderr; INFO never does. */
static const struct {
    int logger;
    const char *debug, *printed;
} outputs[] = {
    {0, NULL, "symtuner: warning: w\n"},
    {0, "INFO", "symtuner: warning: w\n"},
    {1, NULL, "symtuner: warning: w\n"},
    {1, "WARN", ""},
};

START_TEST(test_a_warning_is_seen_once)
{
    char path[] = "/tmp/symtuner-check-XXXXXX", text[256];
    FILE *file;

    close(mkstemp(path));
    ck_assert_ptr_nonnull(freopen(path, "w", stderr));
    unsetenv("NCCL_DEBUG");
    if (outputs[_i].debug)
        setenv("NCCL_DEBUG", outputs[_i].debug, 1);
    if (outputs[_i].logger)
        st_log_use(keep_message);
    st_log_level(ST_LOG_INFO);
    st_warn("w");
    st_info("i");
    fflush(stderr);
    file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    ck_assert_str_eq(text, outputs[_i].printed);
    ck_assert_int_eq(messages.warnings, outputs[_i].logger);
}
END_TEST

START_TEST(test_a_message_longer_than_the_buffer_is_cut)
{
    char text[5000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    st_log_use(keep_message);
    st_log_level(ST_LOG_INFO);
    st_info("%s", text);
    ck_assert_uint_lt(strlen(messages.text), 1100);
    ck_assert_uint_gt(strlen(messages.text), 1000);
}
END_TEST

Suite *log_suite(void)
{
    Suite *suite = suite_create("log");
    TCase *say = tcase_create("saying");

    t_add_rows(say, test_a_level_lets_through_what_it_names, levels);
    t_add_rows(say, test_a_warning_is_seen_once, outputs);
    tcase_add_test(say, test_a_message_longer_than_the_buffer_is_cut);
    suite_add_tcase(suite, say);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_log.c - checks which messages go to NCCL's logger, which to stderr, and which nowhere. */
#include <stdbool.h>
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
    st_log_use(NULL); /* this call changes nothing */
    st_log_level(levels[_i].level);
    st_warn("w %d", 1);
    st_info("i %s", "2");
    ck_assert_int_eq(messages.warnings, levels[_i].warnings);
    ck_assert_int_eq(messages.infos, levels[_i].infos);
}
END_TEST

/* as_nccl() stands for NCCL's logger. NCCL's logger drops a message if the message is above the
 * logger's level, or if all subsystems of the message are off. */
static int nccl_level, printed_by_nccl;
static unsigned long nccl_mask;

static void as_nccl(int level, unsigned long flags, const char *file, int line, const char *format,
                    ...)
{
    (void)file, (void)line, (void)format;
    printed_by_nccl +=
        level == NCCL_ABI_LOG_WARN && level <= nccl_level && (flags & nccl_mask) != 0;
}

/* NCCL_DEBUG and NCCL_DEBUG_SUBSYS, and the level and mask that NCCL derives from them. */
enum { USUAL = 0x1 | 0x80 | 0x1000, COLL = 0x2, NET = 0x10 };
static const struct {
    const char *debug, *subsys;
    int level;
    unsigned long mask;
} outputs[] = {
    {NULL, NULL, 0, USUAL},
    {"VERSION", NULL, 1, USUAL},
    {"version", "ALL", 1, ~0ul},
    {"loud", NULL, -1, USUAL}, /* NCCL knows no such level */
    {"", NULL, -1, USUAL},
    {"WARN", NULL, 2, USUAL},
    {"warn", NULL, 2, USUAL},
    {"INFO", NULL, 3, USUAL},
    {"TRACE", NULL, 5, USUAL},
    {"ABORT", NULL, 4, USUAL},
    {"WARN", "NET", 2, NET},
    {"INFO", "coll,net", 3, COLL | NET},
    {"WARN", "^NET", 2, ~(unsigned long)NET},
    {"INFO", "^INIT,TUNING,ENV", 3, ~(0x1ul | 0x40ul | 0x80ul)},
    {"INFO", "ALL", 3, ~0ul},
    {"WARN", "^ALL", 2, 0},
    {"WARN", "^NET,ALL", 2, 0},
    {"WARN", "NETT", 2, 0},
    {"WARN", "NETT,NET", 2, NET},
    {"WARN", "", 2, 0},
    {"WARN", "^", 2, ~0ul},
};

START_TEST(test_a_warning_is_seen_once)
{
    bool logger = _i % 2;
    int row = _i / 2;
    char path[] = "/tmp/symtuner-check-XXXXXX", text[256];
    FILE *file;

    close(mkstemp(path));
    ck_assert_ptr_nonnull(freopen(path, "w", stderr));
    unsetenv("NCCL_DEBUG");
    unsetenv("NCCL_DEBUG_SUBSYS");
    if (outputs[row].debug)
        setenv("NCCL_DEBUG", outputs[row].debug, 1);
    if (outputs[row].subsys)
        setenv("NCCL_DEBUG_SUBSYS", outputs[row].subsys, 1);
    nccl_level = outputs[row].level;
    nccl_mask = outputs[row].mask;
    if (logger)
        st_log_use(as_nccl);
    st_log_level(ST_LOG_INFO);
    st_warn("w");
    st_info("i"); /* an info never goes to stderr */
    fflush(stderr);
    file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    ck_assert_msg(strcmp(text, printed_by_nccl ? "" : "symtuner: warning: w\n") == 0,
                  "NCCL_DEBUG=%s NCCL_DEBUG_SUBSYS=%s: by NCCL %d times, on stderr \"%s\"",
                  outputs[row].debug, outputs[row].subsys, printed_by_nccl, text);
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
    tcase_add_loop_test(say, test_a_warning_is_seen_once, 0,
                        2 * (int)(sizeof outputs / sizeof *outputs));
    tcase_add_test(say, test_a_message_longer_than_the_buffer_is_cut);
    suite_add_tcase(suite, say);
    return suite;
}

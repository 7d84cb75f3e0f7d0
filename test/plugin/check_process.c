/* SPDX-License-Identifier: Apache-2.0 */
/* check_process.c - checks that the plugin holds no lock while it calls the dynamic loader
 * (loader.h): a library's constructor may make a communicator meanwhile. */
#include <stdlib.h>

#include "plugin/next/open.h"
#include "plugin/process.h"
#include "test/base/loader.h"
#include "test/suites.h"

extern void (*box_look_up)(void); /* what dlopen and dlsym call first (check_box.c) */

static void log_nothing(int level, unsigned long flags, const char *file, int line,
                        const char *format, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

static void *read_options(void *unused)
{
    st_process();
    return unused;
}

static void *answer(void *unused)
{
    st_process_asked();
    return unused;
}

static void *start(void *unused)
{
    st_process_start(log_nothing, 5);
    return unused;
}

static void *find_next(void *unused)
{
    st_next_find(ST_NEXT_PROFILER, NULL, 5, true);
    return unused;
}

static void *(*const calls[])(void *) = {read_options, answer, start, find_next};

START_TEST(test_a_constructor_and_another_thread_do_not_wait_for_each_other)
{
    unsetenv("SYMTUNER_MACHINE");
    setenv("SYMTUNER_LOG", "off", 1);
    if (calls[_i] == read_options) /* only then are other tuners looked for */
        setenv("NCCL_TUNER_CONFIG_FILE", "/no/such/file", 1);
    box_look_up = loader_enter;
    loader_meet(calls[_i], calls[_i]);
}
END_TEST

Suite *process_suite(void)
{
    Suite *suite = suite_create("process");
    TCase *loader = tcase_create("the loader's lock");

    t_add_rows(loader, test_a_constructor_and_another_thread_do_not_wait_for_each_other, calls);
    suite_add_tcase(suite, loader);
    return suite;
}

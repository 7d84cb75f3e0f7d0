/* SPDX-License-Identifier: Apache-2.0 */
/* check_exit.c - checks that a thread may ask for the status of a handle while the process exits.
 * The status is in memory of CUDA's. The test assumes that CUDA unmaps it then. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/group/handle.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/suites.h"

static struct ar_mailbox *mailbox;
static int asked; /* how often the thread has asked */

/* CUDA gives such a function to atexit. Other threads run for a while after it. */
static void unmap(void)
{
    const int before = __atomic_load_n(&asked, __ATOMIC_RELAXED);

    munmap(mailbox, sizeof *mailbox);
    while (__atomic_load_n(&asked, __ATOMIC_RELAXED) < before + 1000)
        usleep(1000);
}

static void *ask(void *how)
{
    for (;;) {
        if (how)
            symtuner_ar_waits(handles[0]);
        else
            symtuner_ar_status(handles[0]);
        __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void run(void *how)
{
    pthread_t thread;

    atexit(unmap);
    set_up();
    mailbox =
        mmap(NULL, sizeof *mailbox, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(mailbox != MAP_FAILED);
    handles[0]->mailbox = mailbox;
    must(pthread_create(&thread, NULL, ask, how) == 0);
    while (__atomic_load_n(&asked, __ATOMIC_RELAXED) < 1000)
        usleep(1000);
    alarm(20);
    exit(7);
}

START_TEST(test_asking_while_the_process_exits)
{
    const pid_t child = fork();
    int status;

    if (child == 0)
        run(_i ? handles : NULL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status 0x%x", (unsigned)status);
}
END_TEST

Suite *st_suite_exit(void)
{
    Suite *s = suite_create("ar_exit");
    TCase *t = tcase_create("exit");

    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, test_asking_while_the_process_exits, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

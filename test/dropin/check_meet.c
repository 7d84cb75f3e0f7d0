/* SPDX-License-Identifier: Apache-2.0 */
/* check_meet.c - tests ranks that vote at the same time. After each machine instruction of one
 * rank, another rank writes its vote. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dropin/meet.h"
#include "test/suites.h"

/* OTHERS is the number of other ranks. It is more than the number of instructions up to the vote's
 * compare-and-exchange. */
enum { OTHERS = 400, MOST = 1000, NOT_ALLOWED = 77 };

static const struct st_meet_entry entry = {.able = 1, .single = 1};

static void vote_step_by_step(struct st_meet *meet)
{
    double most = MOST;
    bool all;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(NOT_ALLOWED);
    raise(SIGSTOP);
    all = st_meet_vote(meet, true, &most, 1000);
    _exit(all && most == MOST ? 0 : 1);
}

/* The votes of ranks with smaller numbers must not hide the largest number, even if they make the
 * compare-and-exchange of the largest fail. Every rank comes to the meeting as if the communicator
 * had one rank, so that no vote waits. */
START_TEST(test_the_largest_number_wins_every_collision)
{
    const uint64_t key = (uint64_t)getpid() << 8 | 1;
    struct st_meet *mine = st_meet_enter(key, 1), *other[OTHERS];
    int status;
    pid_t child;

    ck_assert_ptr_nonnull(mine);
    for (int k = 0; k < OTHERS; k++)
        ck_assert_ptr_nonnull(other[k] = st_meet_enter(key, 1));
    st_meet_come(mine, 1, 1, &entry);
    for (int k = 0; k < OTHERS; k++)
        st_meet_come(other[k], 1, 1, &entry);
    child = fork();
    if (child == 0)
        vote_step_by_step(mine);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    for (int i = 0; i < OTHERS && WIFSTOPPED(status); i++) {
        double less = 1 + i, most = less;

        ck_assert(st_meet_vote(other[i], true, &most, 1000));
        ck_assert(most == less || most == MOST);
        ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
    }
    if (WIFSTOPPED(status)) {
        ck_assert_int_eq(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
    }
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_ALLOWED)
        fprintf(stderr, "check_meet: not tested, because ptrace is not allowed here\n");
    else
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    st_meet_leave(mine);
    for (int k = 0; k < OTHERS; k++)
        st_meet_leave(other[k]);
}
END_TEST

Suite *meet_suite(void)
{
    Suite *suite = suite_create("meet");
    TCase *tcase = tcase_create("votes");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_the_largest_number_wins_every_collision);
    suite_add_tcase(suite, tcase);
    return suite;
}

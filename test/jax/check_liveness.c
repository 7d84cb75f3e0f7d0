/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_liveness.c [WORD] - checks whether the end of another rank ends this process when it
 * should, and whether the message on stderr is right.
 *
 * Each case runs in a process of its own, which is rank 0 of a group of four. The other ranks are
 * processes that only sleep. Compile this program with time limits of seconds, and put the
 * libcuda.so.1 of fake_driver.c into the library path. FAKE_AR_PATH names the library of fake_ar.c.
 * With WORD, only the cases with this word in their names run.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jax/liveness.h"

#define RANKS   4
#define LATE_MS (FFI_LIVENESS_END_MS + FFI_LIVENESS_LEAVE_MS + 1500) /* no case may take longer */

#define sleep_ms(ms) usleep(1000 * (ms))

static const int64_t ids[RANKS] = {10, 11, 12, 13};
static int pids[RANKS];

static void say(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

/* ---- what a case is made of ------------------------------------------------------------------ */

/* Open a new group with one member. If the table of members is empty, the member gets its first
 * entry. */
static struct ffi_member *open_group(void)
{
    struct ffi_member member = {.ranks = RANKS, .across = 1, .calls = 1};
    char why[256];
    int i = 0;

    memcpy(member.ids, ids, sizeof ids);
    ffi_members_add(&member, 1);
    while (ffi_member_at(i + 1) != NULL)
        i++;
    if (ffi_liveness_watch(ffi_member_at(i), pids, why, sizeof why) != 0)
        say(why);
    return ffi_member_at(i);
}

static void close_all(void)
{
    ffi_members_forget(ffi_members_shut());
}

static void lose(int rank)
{
    kill(pids[rank], SIGKILL);
    sleep_ms(200);
}

static void say_goodbye(int rank)
{
    char why[256];

    if (symtuner_ffi_goodbye(ids, RANKS, rank, why, sizeof why) != 0)
        say(why);
    sleep_ms(50);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Make a call whose kernel waits forever. */
static void call(struct ffi_member *member)
{
    setenv("FAKE_EVENT_PENDING", "1", 1);
    ffi_pending_mark(member, NULL);
}

/* Do something that takes long, like jax.distributed's shutdown. */
static void take_long(void)
{
    sleep_ms(LATE_MS);
    say("not ended by the watch");
}

/* Wait until the watch has seen who died. Then tell it once that this process still waits in JAX's
 * shutdown, as _processes.py does, and wait until the watch ends this process. */
static void ask_late(void)
{
    char why[256];

    sleep_ms(FFI_LIVENESS_END_MS);
    symtuner_ffi_waiting(now_ms(), why, sizeof why);
    sleep_ms(FFI_LIVENESS_LEAVE_MS + 1000);
    say("not ended by the watch");
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void left_then_lost(void)
{
    open_group();
    say_goodbye(1);
    lose(1);
    lose(2);
    symtuner_ffi_ending();
    take_long();
}

static void lost_then_left(void)
{
    open_group();
    lose(2);
    say_goodbye(1);
    lose(1);
    symtuner_ffi_ending();
    take_long();
}

static void two_lost(void)
{
    open_group();
    lose(3);
    lose(1);
    symtuner_ffi_ending();
    take_long();
}

static void all_leave(void)
{
    struct ffi_member *member = open_group();

    for (int rank = 1; rank < RANKS; rank++)
        say_goodbye(rank);
    for (int rank = RANKS - 1; rank > 0; rank--)
        lose(rank);
    if (member->left != 2 || member->lost != 4)
        say("not the first that went");
    symtuner_ffi_ending();
    take_long();
}

/* A rank dies after it has sent its pid, but before we watch it. */
static void lost_before_the_watch(void)
{
    struct ffi_member *member;

    lose(2);
    waitpid(pids[2], NULL, 0);
    member = open_group();
    sleep_ms(200);
    if (__atomic_load_n(&member->lost, __ATOMIC_ACQUIRE) != 3)
        say("calls do not fail");
    symtuner_ffi_ending();
    take_long();
}

static void lost_while_ending(void)
{
    open_group();
    symtuner_ffi_ending();
    lose(3);
    take_long();
}

static void close_group(void)
{
    char why[256];

    symtuner_ffi_ending();
    if (symtuner_ffi_told(ids, RANKS, now_ms(), why, sizeof why) != 0)
        say(why);
    close_all();
}

static void lost_before_close(void)
{
    open_group();
    lose(2);
    close_group();
    take_long();
}

/* A rank dies after we closed the group, so we cannot know whether it has said goodbye. */
static void lost_after_close(void)
{
    open_group();
    close_group();
    lose(2);
    take_long();
}

/* JAX waits for rank 2, which said goodbye but died before it came to JAX's shutdown. */
static void left_and_lost(void)
{
    open_group();
    say_goodbye(2);
    close_group();
    lose(2);
    ask_late();
}

/* Rank 1 said goodbye but never came to JAX's shutdown. Rank 2 died after we had closed the group.
 * JAX waits for both. The message names rank 2, because it said no goodbye, although it died
 * later. */
static void one_left_another_lost_late(void)
{
    open_group();
    say_goodbye(1);
    lose(1);
    close_group();
    lose(2);
    ask_late();
}

/* Rank 2 ended after JAX had stopped waiting. */
static void lost_after_the_wait(void)
{
    char why[256];

    open_group();
    say_goodbye(2);
    close_group();
    symtuner_ffi_waiting(now_ms(), why, sizeof why);
    lose(2);
    take_long();
}

static void slow_goodbye(void)
{
    open_group();
    lose(2);
    symtuner_ffi_ending();
    sleep_ms(FFI_LIVENESS_END_MS / 2);
    say_goodbye(2);
    close_group();
    take_long();
}

/* The time limit counts from when this process began to end, not from rank 2's death. */
static void lost_late_in_the_end(void)
{
    open_group();
    symtuner_ffi_ending();
    sleep_ms(FFI_LIVENESS_END_MS - 200);
    lose(2);
    sleep_ms(FFI_LIVENESS_LEAVE_MS + FFI_LIVENESS_END_MS / 2);
    say("not ended by the watch");
}

static void lives_on(void)
{
    open_group();
    lose(2);
    take_long();
}

static void waits_for_the_lost(void)
{
    call(open_group());
    lose(2);
    take_long();
}

static void make_handle(struct ffi_member *member)
{
    const struct symtuner_ar_config config = {.size = sizeof config, .beside = FFI_BESIDE};
    char why[256];

    if (ffi_ar_load(getenv("FAKE_AR_PATH"), why, sizeof why) != 0 ||
        ffi_ar_get()->create(&member->handle, &member->comm, 1, &config) != 0)
        say("no handle");
}

/* XLA replays a call in a CUDA graph. No event marks the call, but its kernel says that it
 * waits. */
static void replay_waits_for_the_lost(void)
{
    make_handle(open_group());
    setenv("FAKE_AR_WAITS", "1", 1);
    lose(2);
    take_long();
}

static void waits_after_one_left(void)
{
    struct ffi_member *member = open_group();

    say_goodbye(1);
    lose(1);
    sleep_ms(2 * FFI_LIVENESS_STUCK_MS);
    call(member); /* this call was running when rank 1 left */
    lose(2);
    take_long();
}

/* The program closes the group while the watch aborts its handle. The handle must not be destroyed
 * before the abort has ended. */
static void closes_during_the_abort(void)
{
    const int *aborted = dlsym(dlopen(getenv("FAKE_AR_PATH"), RTLD_NOW), "fake_aborted");
    struct ffi_member *member = open_group();

    setenv("FAKE_AR_SLOW", "1", 1);
    make_handle(member);
    call(member);
    say_goodbye(1);
    while (__atomic_load_n(aborted, __ATOMIC_ACQUIRE) == 0)
        sleep_ms(10);
    ffi_members_shut();
    ffi_ar_get()->destroy(&ffi_member_shut(0)->handle, 1);
    take_long();
}

static void calls_go_on(void)
{
    struct ffi_member *member = open_group();

    call(member);
    lose(2);
    for (int ms = 0; ms < 3 * FFI_LIVENESS_STUCK_MS; ms += 100) {
        __atomic_fetch_add(&member->calls, 1, __ATOMIC_RELAXED);
        sleep_ms(100);
    }
    say("not ended by the watch");
}

/* The next group has other ranks, but gets the closed group's entry in the table of members. */
static void place_of_another(void)
{
    struct ffi_member next = {.ranks = 2, .across = 1, .ids = {10, 20}};
    struct ffi_member *member = open_group();

    close_all();
    ffi_members_add(&next, 1);
    call(member);
    say_goodbye(3);
    lose(1);
    if (ffi_member_at(0) != member || member->lost != 0 || member->left != 0)
        say("the next group lost a rank that it has not");
    take_long();
}

/* All ranks close the group and open it again. The first watch ends and closes its files. */
static void opened_again(void)
{
    int first, next;

    open_group();
    first = dup(0);
    close(first);
    for (int turn = 0; turn < 3; turn++) {
        for (int rank = 1; rank < RANKS; rank++)
            say_goodbye(rank);
        close_all();
        open_group();
        sleep_ms(300);
    }
    next = dup(0);
    if (next > first + 2 * RANKS)
        say("files stay open");
    if (ffi_member_at(0)->left != 0)
        say("an old goodbye");
    lose(2);
    symtuner_ffi_ending();
    take_long();
}

/* A group has no watch. Its calls must fail nevertheless. */
static void nobody_watches(void)
{
    struct ffi_member member = {.ranks = RANKS, .across = 1};

    memcpy(member.ids, ids, sizeof ids);
    ffi_members_add(&member, 1);
    say_goodbye(2);
    if (ffi_member_at(0)->left != 3)
        say("a goodbye to a group that nobody watches is lost");
}

static void no_such_rank(void)
{
    char why[256];

    if (symtuner_ffi_goodbye(ids, RANKS, RANKS, why, sizeof why) == 0 ||
        strcmp(why, "there is no rank 4 in a group of 4") != 0 ||
        symtuner_ffi_goodbye(ids, 33, 32, why, sizeof why) == 0 ||
        symtuner_ffi_told(ids, 33, 1, why, sizeof why) == 0)
        say("a rank that no group has");
}

/* ---- all of them ----------------------------------------------------------------------------- */

#define GONE(rank) "symtuner: rank " #rank " is gone. This process "
#define WAITS      " while rank 0 waits for it on GPU 0: "
#define LOST       "symtuner: rank 2 is gone" WAITS
#define LEFT       "symtuner: rank 1 has closed the group or raised an exception" WAITS

static const struct {
    const char *name;
    void (*act)(void);
    int status;
    const char *says;
} cases[] = {
    {"one left, then another lost", left_then_lost, FFI_LIVENESS_EXIT, GONE(2)},
    {"one lost, then another left", lost_then_left, FFI_LIVENESS_EXIT, GONE(2)},
    {"two lost", two_lost, FFI_LIVENESS_EXIT, GONE(3)},
    {"all leave", all_leave, 0, ""},
    {"lost before the watch", lost_before_the_watch, FFI_LIVENESS_EXIT, GONE(2)},
    {"lost while ending", lost_while_ending, FFI_LIVENESS_EXIT, GONE(3)},
    {"lost before the close", lost_before_close, FFI_LIVENESS_EXIT, GONE(2)},
    {"lost after the close", lost_after_close, 0, ""},
    {"left, and lost while JAX waits", left_and_lost, FFI_LIVENESS_EXIT, GONE(2)},
    {"one left, another lost late", one_left_another_lost_late, FFI_LIVENESS_EXIT, GONE(2)},
    {"lost after JAX waited", lost_after_the_wait, 0, ""},
    {"a goodbye slower than the end", slow_goodbye, 0, ""},
    {"lost late in the end", lost_late_in_the_end, FFI_LIVENESS_EXIT, GONE(2)},
    {"nobody waits", lives_on, 0, ""},
    {"waits for the lost", waits_for_the_lost, FFI_LIVENESS_EXIT, LOST},
    {"a replay waits for the lost", replay_waits_for_the_lost, FFI_LIVENESS_EXIT, LOST},
    {"waits after one left", waits_after_one_left, FFI_LIVENESS_EXIT, LEFT},
    {"closes during the abort", closes_during_the_abort, FFI_LIVENESS_EXIT, LEFT},
    {"calls go on", calls_go_on, 0, ""},
    {"the place of another group", place_of_another, 0, ""},
    {"opened again", opened_again, FFI_LIVENESS_EXIT, GONE(2)},
    {"nobody watches", nobody_watches, 0, ""},
    {"no such rank", no_such_rank, 0, ""},
};

#define CASES (sizeof cases / sizeof cases[0])

static struct {
    pid_t pid;
    FILE *said;
} children[CASES];

static void start(size_t i)
{
    children[i].said = tmpfile();
    children[i].pid = fork();
    if (children[i].pid != 0)
        return;
    dup2(fileno(children[i].said), STDERR_FILENO);
    for (int rank = 1; rank < RANKS; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            sleep_ms(30000); /* longer than any case */
            _exit(0);
        }
    }
    cases[i].act();
    exit(0);
}

/* Did case ${i} end with the status in its row of ${cases}, and print one line with the words in
 * that row, or nothing? */
static int judge(size_t i)
{
    char text[2048];
    int status = 0, right;
    size_t n;

    waitpid(children[i].pid, &status, 0);
    rewind(children[i].said);
    n = fread(text, 1, sizeof text - 1, children[i].said);
    text[n] = 0;
    right = WIFEXITED(status) && WEXITSTATUS(status) == cases[i].status &&
            strstr(text, cases[i].says) != NULL && strchr(text, '\n') == strrchr(text, '\n');
    if (cases[i].status == 0)
        right &= n == 0 || strcmp(text, "not ended by the watch\n") == 0;
    if (!right)
        printf("FAILED: %s (wait status %#x, \"%s\")\n", cases[i].name, (unsigned)status, text);
    return right;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;

    for (size_t i = 0; i < CASES; i++)
        if (argc < 2 || strstr(cases[i].name, argv[1]) != NULL)
            start(i);
    for (size_t i = 0; i < CASES; i++)
        if (children[i].pid != 0)
            (*(judge(i) ? &passed : &failed))++;
    printf("jax liveness: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}

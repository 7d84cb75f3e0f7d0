/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c - starts the program and passes signals on to it.
 *
 * The program stays in our process group. So signals of the terminal (Ctrl-C, Ctrl-Z) reach the
 * program without us. We do not pass these on, because the program would get them twice. We pass on
 * signals that another process sends to us. While the program runs, this process blocks all signals
 * and reads them with sigwaitinfo.
 */
#include "cli/run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/text.h"

/* The signal state that we restore for the program. */
struct inherited {
    sigset_t blocked;
    struct sigaction child;
};

static void become(char *const argv[], const struct inherited *inherited, pid_t parent, int report)
{
    int reason;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if SIGKILL ends us, it must end the program, too */
    if (getppid() != parent)
        _exit(ST_RUN_NOT_EXECUTABLE);
    sigaction(SIGCHLD, &inherited->child, NULL);
    sigprocmask(SIG_SETMASK, &inherited->blocked, NULL);
    execvp(argv[0], argv);
    reason = errno;
    while (write(report, &reason, sizeof reason) < 0 && errno == EINTR)
        ;
    _exit(ST_RUN_NOT_EXECUTABLE);
}

/* Did the terminal send this signal? If so, it went to the whole process group. */
static bool of_terminal(const siginfo_t *info)
{
    static const int sent[] = {SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};

    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        if (info->si_signo == sent[i])
            return info->si_code > 0; /* Linux itself, not a process, sent the signal */
    return false;
}

/* Does the program ${pid} stop within 100 ms? It may ignore a stop signal that it has sent to its
 * process group, and so to us. */
static bool stopped(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    siginfo_t state = {0};

    for (int i = 0; i < 20 && state.si_pid != pid; i++) {
        nanosleep(&pause, NULL);
        if (waitid(P_PID, (id_t)pid, &state, WSTOPPED | WNOWAIT | WNOHANG) != 0)
            return false;
    }
    return state.si_pid == pid;
}

/* Pass on one signal to the program ${pid}. */
static void pass(const siginfo_t *info, pid_t pid)
{
    bool stops =
        info->si_signo == SIGTSTP || info->si_signo == SIGTTIN || info->si_signo == SIGTTOU;
    bool by_program = info->si_code <= 0 && info->si_pid == pid;

    /* do not pass on what the program has got already: a signal that the terminal sent to its
     * process group, or one that the program itself sent. A program that stops itself on Ctrl-Z
     * sends the signal to its whole process group, and so to us */
    if (!by_program && (!of_terminal(info) || getpgid(pid) != getpgrp()))
        kill(pid, info->si_signo);
    /* stop ourselves, too: otherwise the shell would not notice that the program has stopped */
    if (stops && (!by_program || stopped(pid)))
        kill(getpid(), SIGSTOP);
}

/* Collect children that have ended. The first process of a container also inherits orphans, so
 * there may be other children than the program. Returns true and fills ${status_out} if the program
 * has ended. */
static bool ended(pid_t pid, int *status_out)
{
    int status;
    pid_t one;

    while ((one = waitpid(-1, &status, WNOHANG)) > 0)
        if (one == pid) {
            *status_out = status;
            return true;
        }
    return false;
}

static struct st_run_end wait_for(pid_t pid, const sigset_t *all)
{
    siginfo_t info;
    int status;

    for (;;) {
        int number = sigwaitinfo(all, &info); /* fails with EINTR when we continue after a stop */

        if (number == SIGCHLD && ended(pid, &status))
            return WIFEXITED(status)
                       ? (struct st_run_end){WEXITSTATUS(status), 0}
                       : (struct st_run_end){128 + WTERMSIG(status), WTERMSIG(status)};
        if (number > 0 && number != SIGCHLD)
            pass(&info, pid);
    }
}

bool st_run_find(const char *program, char file[ST_PATH])
{
    const char *path = getenv("PATH");
    struct stat found;

    for (const char *at = strchr(program, '/') || !path ? "" : path;; at++) {
        int n = (int)strcspn(at, ":");

        snprintf(file, ST_PATH, "%.*s%s%.500s", n < 500 ? n : 0, at, n ? "/" : "", program);
        if (access(file, X_OK) == 0 && stat(file, &found) == 0 && S_ISREG(found.st_mode))
            return true;
        at += n;
        if (*at == '\0')
            return false;
    }
}

/* Write into ${text} the interpreter that the first line of the script ${file} names. Returns false
 * if ${file} is no script. */
static bool interpreter(const char *file, char text[ST_PATH])
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, ST_PATH - 1);
    char *at = text + 2;

    if (fd >= 0)
        close(fd);
    if (n < 2 || text[0] != '#' || text[1] != '!')
        return false;
    text[n] = '\0';
    at += strspn(at, " \t");
    memmove(text, at, strlen(at) + 1);
    text[strcspn(text, " \t\n")] = '\0';
    return true;
}

/* The user may have forgotten "./" or python3: if there is a file ${name} in the current folder, or
 * if ${name} is a script in Python that is not executable, say what to write. */
static void print_cure(const char *name)
{
    size_t n = strlen(name);
    bool python = n > 3 && strcmp(name + n - 3, ".py") == 0;
    struct stat file;

    if (stat(name, &file) != 0 || !S_ISREG(file.st_mode) ||
        (!python && (strchr(name, '/') || access(name, X_OK) != 0)))
        return;
    fprintf(stderr, "; write %s", python ? "python3 " : "./");
    st_text_plain(stderr, name);
}

/* Say why ${name} was not started. If a script is there and its interpreter is not, as in a Python
 * environment that was moved, Linux gives the same error as for a missing script. */
static bool not_started(const char *name, int reason, struct st_run_end *end)
{
    char file[ST_PATH], missing[ST_PATH];

    fprintf(stderr, "symtuner run: ");
    if (reason == ENOENT && st_run_find(name, file)) {
        st_text_plain(stderr, file);
        fprintf(stderr, " needs ");
        st_text_plain(stderr, interpreter(file, missing) ? missing : "the loader that it names");
        fprintf(stderr, ": %s", strerror(reason));
    } else {
        st_text_plain(stderr, name);
        fprintf(stderr, ": %s", strerror(reason));
        if (reason == ENOENT || reason == EACCES)
            print_cure(name);
    }
    fputc('\n', stderr);
    *end = (struct st_run_end){reason == ENOENT ? ST_RUN_NOT_FOUND : ST_RUN_NOT_EXECUTABLE, 0};
    return false;
}

bool st_run_program(char *const argv[], struct st_run_end *end)
{
    struct sigaction normal = {.sa_handler = SIG_DFL};
    struct inherited inherited;
    int report[2], reason = 0;
    pid_t parent = getpid(), pid;
    sigset_t all;

    sigfillset(&all);
    if (pipe2(report, O_CLOEXEC) != 0)
        return not_started(argv[0], errno, end);
    sigprocmask(SIG_BLOCK, &all, &inherited.blocked);
    /* while SIGCHLD is ignored, Linux keeps no exit status of a child */
    sigaction(SIGCHLD, &normal, &inherited.child);
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        become(argv, &inherited, parent, report[1]);
    if (pid < 0)
        reason = errno;
    close(report[1]);
    while (pid > 0 && read(report[0], &reason, sizeof reason) < 0 && errno == EINTR)
        ;
    close(report[0]);
    if (reason) {
        if (pid > 0)
            waitpid(pid, NULL, 0);
        return not_started(argv[0], reason, end);
    }
    *end = wait_for(pid, &all);
    return true;
}

void st_run_die(int number)
{
    struct sigaction normal = {.sa_handler = SIG_DFL};
    sigset_t one;

    fflush(NULL);
    prctl(PR_SET_DUMPABLE, 0); /* no core file, which could replace that of the program */
    sigaction(number, &normal, NULL);
    sigemptyset(&one);
    sigaddset(&one, number);
    kill(getpid(), number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds to wait after SIGKILL: a process that waits inside the driver may die late or never. */
enum { KILLED_S = 3 };

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

void st_child_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool st_child_stop_asked(void)
{
    return stop != 0;
}

static void run(const struct st_child *child, int out, int err)
{
    const char *argv[40] = {"symtuner", "worker"};
    int n = 2;

    if (child->program) {
        argv[0] = child->program;
        n = 1;
    }

    setpgid(0, 0); /* so that Ctrl-C reaches only the parent, which then kills the child */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; child->set && child->set[i]; i++) {
        char pair[1400], *equals;

        snprintf(pair, sizeof pair, "%s", child->set[i]);
        equals = strchr(pair, '=');
        if (!equals) {
            unsetenv(pair);
            continue;
        }
        *equals = '\0';
        setenv(pair, equals + 1, 1);
    }
    for (int i = 0; child->arguments[i] && n < 39; i++)
        argv[n++] = child->arguments[i];
    argv[n] = NULL;
    dup2(out, 1);
    dup2(err, 2);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (child->program)
        execvp(child->program, (char *const *)argv);
    else
        execv("/proc/self/exe", (char *const *)argv);
    _exit(ST_CHILD_NOT_FOUND);
}

double st_child_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Append ${n} bytes of ${more} to ${tail}, and keep only the last ${size} - 1 bytes. */
static void keep_tail(char *tail, size_t size, const char *more, size_t n)
{
    size_t have = strlen(tail);

    if (n >= size - 1) {
        memcpy(tail, more + n - (size - 1), size - 1);
        tail[size - 1] = '\0';
        return;
    }
    if (have + n > size - 1) {
        memmove(tail, tail + (have + n - (size - 1)), size - 1 - n);
        have = size - 1 - n;
    }
    memcpy(tail + have, more, n);
    tail[have + n] = '\0';
}

/* Wait until process ${pid} has ended, but at most until the time ${end}. Returns whether it
 * ended. */
static bool reap(pid_t pid, int *status, double end)
{
    static const struct timespec nap = {.tv_nsec = 2000000};
    pid_t ended;

    while ((ended = waitpid(pid, status, WNOHANG)) == 0 && st_child_now() < end)
        nanosleep(&nap, NULL);
    return ended == pid;
}

static enum st_child_end listen(struct st_child *child, pid_t pid, int out, int err)
{
    struct pollfd file[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    double end = st_child_now() + child->limit_s;
    size_t used = 0, room = 0;
    enum st_child_end how = ST_CHILD_DONE;
    int open = 2, status;
    char part[4096];

    while (open > 0 && how == ST_CHILD_DONE) {
        if (stop)
            how = ST_CHILD_STOPPED;
        else if (st_child_now() > end)
            how = ST_CHILD_TIMEOUT;
        else if (poll(file, 2, 200) <= 0)
            continue;
        for (int i = 0; i < 2 && how == ST_CHILD_DONE; i++) {
            ssize_t n;

            if (file[i].fd < 0 || !(file[i].revents & (POLLIN | POLLHUP | POLLERR)))
                continue;
            n = read(file[i].fd, part, sizeof part);
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0) {
                file[i].fd = -1;
                open--;
            } else if (i == 1) {
                keep_tail(child->error, sizeof child->error, part, (size_t)n);
            } else {
                if (used + (size_t)n + 1 > room) {
                    char *more = realloc(child->output, room = 2 * (used + (size_t)n + 1));

                    if (!more) {
                        how = ST_CHILD_FAILED;
                        break;
                    }
                    child->output = more;
                }
                memcpy(child->output + used, part, (size_t)n);
                used += (size_t)n;
                child->output[used] = '\0';
            }
        }
    }
    /* Unless it must be killed, the child has closed stdout and stderr by now. It may still run,
     * for example because it waits inside the driver, so wait for its end. */
    while (how == ST_CHILD_DONE && !reap(pid, &status, st_child_now() + 0.2))
        how = stop ? ST_CHILD_STOPPED : st_child_now() > end ? ST_CHILD_TIMEOUT : ST_CHILD_DONE;
    if (how != ST_CHILD_DONE) {
        kill(-pid, SIGKILL);
        if (!reap(pid, &status, st_child_now() + KILLED_S)) {
            snprintf(child->error, sizeof child->error,
                     "process %d does not end: it waits inside the driver", (int)pid);
            return how;
        }
    }
    child->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (how == ST_CHILD_DONE && child->status != 0)
        how = ST_CHILD_FAILED;
    return how;
}

enum st_child_end st_child_run(struct st_child *child)
{
    int out[2], err[2];
    enum st_child_end how;
    pid_t pid;

    child->output = calloc(1, 1);
    child->error[0] = '\0';
    child->status = -1;
    if (!child->output || pipe2(out, O_CLOEXEC) != 0)
        return ST_CHILD_FAILED;
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return ST_CHILD_FAILED;
    }
    /* If our parent ignores SIGCHLD, so does this process, and Linux would keep no exit status of
     * the child. So stop ignoring the signal. */
    signal(SIGCHLD, SIG_DFL);
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        run(child, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    if (pid > 0) {
        setpgid(pid, pid);
        how = listen(child, pid, out[0], err[0]);
    } else {
        how = ST_CHILD_FAILED;
    }
    close(out[0]);
    close(err[0]);
    return how;
}

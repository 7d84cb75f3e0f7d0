/* SPDX-License-Identifier: Apache-2.0 */
/* crew.c - start the processes of a crew, talk to them, end them. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/compare/crew.h"

static int failed(struct crew *c, const char *why)
{
    fprintf(stderr, "ar_compare: crew %s: %s\n", c->name, why);
    crew_end(c);
    return 0;
}

static int spawn(struct crew *c, char *const *argv, const char *const *env)
{
    int down[2], up[2], k = c->n;

    if (pipe(down) != 0 || pipe(up) != 0)
        return failed(c, "no more pipes");
    c->pid[k] = fork();
    if (c->pid[k] < 0)
        return failed(c, "cannot fork");
    if (c->pid[k] == 0) {
        dup2(down[0], 0);
        dup2(2, 1); /* keep the output of NCCL and torch out of the table */
        if (up[1] != REPLY_FD)
            dup2(up[1], REPLY_FD);
        /* Close the pipes of other crews. A crew sees the end of its pipe only if no other process
         * has the pipe open. */
        for (int fd = REPLY_FD + 1; fd < 1024; fd++)
            close(fd);
        for (int i = 0; env != NULL && env[i] != NULL; i++)
            putenv((char *)(size_t)env[i]);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    c->to[k] = down[1];
    c->from[k] = up[0];
    c->n++;
    return 1;
}

/* Read one line from process ${k}, without the newline, within ${seconds}. */
static int receive(struct crew *c, int k, char *line, size_t size, int seconds)
{
    for (size_t at = 0; at + 1 < size;) {
        struct pollfd p = {.fd = c->from[k], .events = POLLIN};
        int ready = poll(&p, 1, seconds * 1000);
        ssize_t got = ready > 0 ? read(c->from[k], line + at, 1) : 0;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return failed(c, "no answer in time");
        if (got <= 0)
            return failed(c, "a process ended, see above");
        if (line[at] == '\n') {
            line[at] = 0;
            return 1;
        }
        at++;
    }
    return failed(c, "an answer is too long");
}

static int send_line(struct crew *c, int k, const char *line)
{
    size_t n = strlen(line);

    return write(c->to[k], line, n) == (ssize_t)n ? 1 : failed(c, "a process does not listen");
}

int crew_start(struct crew *c, const struct crew_kind *kind, const struct crew_shape *shape)
{
    static int port = 0;
    char numbers[5][24];
    int processes = kind->torch || shape->apart ? shape->ranks : 1;
    char *peer = (char *)(size_t)kind->peer;

    if (port == 0)
        port = 20000 + (int)(getpid() % 20000);
    port++;
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s/%s", kind->name, shape->apart ? "procs" : "threads");
    for (int k = 0; k < processes; k++) {
        char *ours[] = {shape->self, (char *)(size_t) "--worker", numbers[0], numbers[1],
                        numbers[2],  numbers[3], numbers[4], peer, NULL};
        char *torch[] = {(char *)(size_t) "python3", shape->script, numbers[0], numbers[1],
                         numbers[2], numbers[3], NULL};

        c->timeout_s = kind->peer != NULL ? 8 : 40;
        snprintf(numbers[0], sizeof numbers[0], "%d", shape->ranks);
        snprintf(numbers[1], sizeof numbers[1], "%d", k);
        snprintf(numbers[2], sizeof numbers[2], "%d",
                 kind->torch ? port : shape->ranks / processes);
        snprintf(numbers[3], sizeof numbers[3], "%zu", shape->most);
        snprintf(numbers[4], sizeof numbers[4], "%d", kind->host);
        if (!spawn(c, kind->torch ? torch : ours, kind->env))
            return 0;
    }
    c->torch = kind->torch;
    return 1;
}

int crew_ready(struct crew *c)
{
    char line[600];

    if (c->n == 0)
        return 0;
    if (!c->torch) {
        if (!receive(c, 0, line, sizeof line - 1, 2 * c->timeout_s + 10))
            return 0;
        strcat(line, "\n");
        for (int k = 1; k < c->n; k++)
            if (!send_line(c, k, line))
                return 0;
    }
    for (int k = 0; k < c->n; k++) {
        if (!receive(c, k, line, sizeof line, 2 * c->timeout_s + 10))
            return 0;
        if (strcmp(line, "ready") != 0)
            return failed(c, line);
    }
    return 1;
}

int crew_ask(struct crew *c, char *answer, size_t size, const char *format, ...)
{
    char line[256], other[256];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (int k = 0; k < c->n; k++)
        if (!send_line(c, k, line))
            return 0;
    for (int k = 0; k < c->n; k++) {
        if (!receive(c, k, k == 0 ? answer : other, k == 0 ? size : sizeof other, c->timeout_s))
            return 0;
        if (k > 0 && strncmp(answer, "ok", 2) == 0 && strncmp(other, "no", 2) == 0)
            snprintf(answer, size, "%s", other);
    }
    return c->n > 0;
}

int crew_time(struct crew *c, int slot, int launches, int samples, int warmup, double *us)
{
    char line[256];

    for (int k = 0; k < c->n; k++) {
        snprintf(line, sizeof line, "time %d %d %d %d\n", slot, launches, samples, warmup);
        if (!send_line(c, k, line))
            return 0;
    }
    for (int i = 0; i < samples; i++)
        us[i] = 0;
    for (int k = 0; k < c->n; k++) {
        char *at = line + 2;

        if (!receive(c, k, line, sizeof line, c->timeout_s))
            return 0;
        if (strncmp(line, "us", 2) != 0)
            return failed(c, line);
        for (int i = 0; i < samples; i++) {
            double t = strtod(at, &at);

            us[i] = t > us[i] ? t : us[i];
        }
    }
    return c->n > 0;
}

void crew_end(struct crew *c)
{
    for (int k = 0; k < c->n; k++) {
        close(c->to[k]);
        close(c->from[k]);
        kill(c->pid[k], SIGKILL); /* workers have nothing to clean up */
    }
    for (int k = 0; k < c->n; k++)
        waitpid(c->pid[k], NULL, 0);
    c->n = 0;
}

int crew_floor(const struct crew_shape *shape, double *gbps, double *us)
{
    struct crew c = {.name = "floor"};
    char ranks[24], line[128];
    char *argv[] = {shape->self, (char *)(size_t) "--floor", ranks, NULL};
    int good;

    snprintf(ranks, sizeof ranks, "%d", shape->ranks);
    good = spawn(&c, argv, NULL) && receive(&c, 0, line, sizeof line, 60) &&
           sscanf(line, "%lf %lf", gbps, us) == 2;
    crew_end(&c);
    return good;
}

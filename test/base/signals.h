/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - finds out which threads of this process get its signals. */
#ifndef TEST_SIGNALS_H_
#define TEST_SIGNALS_H_

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Does the thread with the file ${path} (/proc/self/task/ID/status) block SIGUSR1? */
static int blocks_signals(const char *path)
{
    unsigned long long blocked = 0;
    FILE *file = fopen(path, "r");
    char line[256];

    if (!file)
        return 1; /* the thread has ended */
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
            break;
    fclose(file);
    return (int)(blocked >> (SIGUSR1 - 1) & 1);
}

/* Return how many threads of this process do not block SIGUSR1. A new thread blocks all signals
 * until it runs, so give it time. */
static int threads_with_signals(void)
{
    DIR *tasks = opendir("/proc/self/task");
    char path[300];
    int n = 0;

    usleep(100000);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        n += !blocks_signals(path);
    }
    if (tasks)
        closedir(tasks);
    return n;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - for tests of the ledger: makes a file for it (SYMTUNER_LEDGER), and reads the file. */
#ifndef TEST_LEDGER_H_
#define TEST_LEDGER_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/suites.h"

static char path[64];

static void remove_file(void)
{
    unlink(path);
}

static void want_ledger(void)
{
    int fd;

    strcpy(path, "/tmp/symtuner-check-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    atexit(remove_file);
    setenv("SYMTUNER_LEDGER", path, 1);
    setenv("SYMTUNER_MACHINE", "gpu=x", 1);
}

static const char *content(void)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");

    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static int occurrences(const char *text, const char *what)
{
    int count = 0;

    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* capture_stderr.c - see capture_stderr.h. */
#include "test/kernels/fake/capture_stderr.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *ear;
static int mouth;

void capture_stderr(void)
{
    ear = tmpfile();
    ck_assert_ptr_nonnull(ear);
    mouth = dup(STDERR_FILENO);
    dup2(fileno(ear), STDERR_FILENO);
    unsetenv("SYMTUNER_LOG");
}

const char *captured_stderr(void)
{
    static char text[2048];

    dup2(mouth, STDERR_FILENO);
    close(mouth);
    rewind(ear);
    text[fread(text, 1, sizeof text - 1, ear)] = '\0';
    fclose(ear);
    return text;
}

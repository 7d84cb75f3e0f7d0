/* SPDX-License-Identifier: Apache-2.0 */
/* capture_stderr.c - collects what the library prints on stderr. */
#include "test/kernels/fake/capture_stderr.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *captured;
static int saved_stderr;

void capture_stderr(void)
{
    captured = tmpfile();
    ck_assert_ptr_nonnull(captured);
    saved_stderr = dup(STDERR_FILENO);
    dup2(fileno(captured), STDERR_FILENO);
    unsetenv("SYMTUNER_LOG");
}

const char *captured_stderr(void)
{
    static char text[2048];

    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    rewind(captured);
    text[fread(text, 1, sizeof text - 1, captured)] = '\0';
    fclose(captured);
    return text;
}

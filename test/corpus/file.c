/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.c - gives a text file, which may be compressed with xz, as a stream. The xz program
 * decompresses, so that building the tests needs no liblzma.
 */
#include "test/corpus/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

FILE *corpus_open(const char *path, long *child_out)
{
    size_t len = strlen(path);
    struct stat about;
    int ends[2];
    FILE *file;
    pid_t child;

    *child_out = 0;
    if (strcmp(path, "-") == 0)
        return stdin;
    file = fopen(path, "r");
    if (file && fstat(fileno(file), &about) == 0 && S_ISDIR(about.st_mode)) {
        fclose(file);
        errno = EISDIR; /* a folder can be opened, but reads like an empty file */
        return NULL;
    }
    if (!file || len < 3 || strcmp(path + len - 3, ".xz") != 0)
        return file;
    fflush(NULL);
    if (pipe(ends) || (child = fork()) < 0)
        return NULL;
    if (child == 0) {
        dup2(fileno(file), STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("xz", "xz", "-dc", (char *)NULL);
        _exit(127);
    }
    fclose(file);
    close(ends[1]);
    *child_out = child;
    return fdopen(ends[0], "r");
}

bool corpus_close(const char *path, long child, bool quiet)
{
    int status;

    if (child == 0)
        return true;
    while (waitpid((pid_t)child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (quiet)
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        fprintf(stderr, "check-corpus: %s: the program xz is not installed; decompress the file\n",
                path);
    else
        fprintf(stderr, "check-corpus: %s: xz could not decompress it\n", path);
    return false;
}

int corpus_split(char *line, char **field, int room)
{
    int n = 0;

    for (char *at = line;; at++) {
        char *to = at;

        if (n == room)
            return -1;
        field[n++] = at;
        if (*at == '"') {
            for (at++; *at && !(*at == '"' && at[1] != '"'); at++) {
                at += *at == '"';
                *to++ = *at;
            }
            if (*at++ != '"')
                return -1;
        } else {
            while (*at && *at != ',')
                *to++ = *at++;
        }
        if (*at && *at != ',')
            return -1;
        if (*at == '\0') {
            *to = '\0';
            return n;
        }
        *to = '\0';
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/text.h"

enum { CHUNK = 4096 };

/* The state of the filter of one stream. */
struct filter {
    int fd;       /* where the filtered text goes                         */
    char held[5]; /* the bytes of a character that is not complete yet    */
    int holds;    /* how many bytes ${held} has                           */
};

/* Return the length in bytes of a UTF-8 character that begins with the byte ${first}. */
static int wants(unsigned char first)
{
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

/* Filter ${size} bytes of ${in} into ${out}, which has room for ${size} + 4 bytes. Returns the
 * number of bytes written to ${out}. */
static size_t filter(struct filter *plain, const char *in, size_t size, char *out)
{
    char *end = out;

    for (size_t i = 0; i < size; i++) {
        bool broken = plain->holds && (in[i] & 0xc0) != 0x80, shown;

        if (broken) { /* the held character is incomplete, and this byte does not continue it */
            *end++ = '?';
            plain->holds = 0;
        }
        plain->held[plain->holds++] = in[i];
        plain->held[plain->holds] = '\0';
        if (plain->holds < wants((unsigned char)plain->held[0]))
            continue;
        shown = (st_text_character(plain->held, &shown) == plain->holds && shown) ||
                in[i] == '\n' || in[i] == '\t';
        memcpy(end, shown ? plain->held : "?", shown ? (size_t)plain->holds : 1);
        end += shown ? plain->holds : 1;
        plain->holds = 0;
    }
    return (size_t)(end - out);
}

/* The write function for fopencookie: filter ${size} bytes and write the result. Returns ${size},
 * or 0 for an error, with errno set. */
static ssize_t put(void *cookie, const char *text, size_t size)
{
    struct filter *plain = cookie;
    char out[CHUNK + 4];

    for (size_t at = 0, n; at < size; at += n) {
        size_t left, done = 0;

        n = size - at < CHUNK ? size - at : CHUNK;
        left = filter(plain, text + at, n, out);
        while (left > 0) {
            ssize_t written = write(plain->fd, out + done, left);

            if (written < 0 && errno != EINTR)
                return 0;
            if (written > 0) {
                done += (size_t)written;
                left -= (size_t)written;
            }
        }
    }
    return (ssize_t)size;
}

static FILE *guarded(struct filter *plain, FILE *plain_stream, int buffer)
{
    cookie_io_functions_t functions = {.write = put};
    FILE *stream = fopencookie(plain, "w", functions);

    if (!stream)
        return plain_stream;
    setvbuf(stream, NULL, buffer, buffer == _IONBF ? 0 : CHUNK);
    return stream;
}

void st_terminal_guard(void)
{
    static struct filter out = {.fd = STDOUT_FILENO}, error = {.fd = STDERR_FILENO};

    stdout = guarded(&out, stdout, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    stderr = guarded(&error, stderr, _IONBF);
}

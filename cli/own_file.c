/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"

static const char mark[] = "symtuner wrote this file; what is above hashes to 0x";

/* Return the 64-bit FNV-1a hash of ${size} bytes. */
static uint64_t hash_of(const char *text, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

/* Is the text that of a file written by symtuner? It ends with a zero byte. */
static bool is_ours(const char *text, size_t size, const char *first)
{
    const char *line = NULL, *found;
    uint64_t hash;

    if (first && size >= strlen(first) && memcmp(text, first, strlen(first)) == 0)
        return true;
    for (found = text; (found = strstr(found, mark)) != NULL; found++)
        line = found;
    if (!line || sscanf(line + strlen(mark), "%" SCNx64, &hash) != 1)
        return false;
    while (line > text && line[-1] != '\n')
        line--;
    found = strchr(line, '\n');
    return found && found + 1 == text + size && hash_of(text, (size_t)(line - text)) == hash;
}

bool st_own_file_free(const char *command, const char *path, const char *first, bool force)
{
    struct stat is;
    FILE *file;
    char *text;
    bool ours;

    if (force || stat(path, &is) != 0 || !S_ISREG(is.st_mode) || is.st_size == 0)
        return true; /* whether it can be written, the attempt will show */
    file = fopen(path, "r");
    text = calloc(1, (size_t)is.st_size + 1);
    ours = file && text && is_ours(text, fread(text, 1, (size_t)is.st_size, file), first);
    if (!ours)
        fprintf(stderr,
                "symtuner %s: %s is there, and was not written by symtuner or changed since; name "
                "another file, or overwrite it with --force\n",
                command, path);
    free(text);
    if (file)
        fclose(file);
    return ours;
}

bool st_own_file_write(const char *command, const char *path, bool markup,
                       void (*write)(const void *self, FILE *out), const void *self)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size), *file;
    bool good;

    if (memory)
        write(self, memory);
    if (!memory || ferror(memory) | fclose(memory)) {
        free(text);
        return st_fail(false, "symtuner %s: %s: out of memory\n", command, path);
    }
    file = fopen(path, "w");
    good = file && fwrite(text, 1, size, file) == size;
    if (good)
        fprintf(file, "%s%s%016" PRIx64 "%s\n", markup ? "<!-- " : "# ", mark, hash_of(text, size),
                markup ? " -->" : "");
    if (!file || ferror(file) | fclose(file))
        good = st_fail(false, "symtuner %s: %s: %s\n", command, path, strerror(errno));
    free(text);
    return good;
}

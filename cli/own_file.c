/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "cli/commands.h"

static const char mark[] = "symtuner wrote this file; what is above hashes to 0x";

/* Is this the text of a file that symtuner wrote and nobody changed? ${text} ends with a zero
 * byte. */
static bool is_ours(const char *text, size_t size)
{
    const char *line = NULL, *found;
    uint64_t hash;

    for (found = text; (found = strstr(found, mark)) != NULL; found++)
        line = found;
    if (!line || sscanf(line + strlen(mark), "%" SCNx64, &hash) != 1)
        return false;
    while (line > text && line[-1] != '\n')
        line--;
    found = strchr(line, '\n');
    return found && found + 1 == text + size &&
           st_hash(ST_HASH_START, text, (size_t)(line - text)) == hash;
}

/* Return 0, or the error because of which no file can be made in the folder of ${path}. */
static int folder_error(const char *path)
{
    char *name = strdup(path), *slash = name ? strrchr(name, '/') : NULL;
    int error = 0;

    if (slash)
        slash[slash == name] = '\0'; /* keep the "/" of the root folder */
    if (access(slash ? name : ".", W_OK | X_OK) != 0)
        error = errno;
    free(name);
    return error;
}

bool st_own_file_possible(const char *command, const char *path)
{
    struct stat is;
    bool there = stat(path, &is) == 0;
    int error = !there ? folder_error(path) : S_ISDIR(is.st_mode) ? EISDIR : 0;

    return !error || st_fail(false, "symtuner %s: %s: %s\n", command, path, strerror(error));
}

bool st_own_file_free(const char *command, const char *path, bool force)
{
    struct stat is;
    FILE *file;
    char *text;
    bool ours;

    if (force || stat(path, &is) != 0 || !S_ISREG(is.st_mode) || is.st_size == 0)
        return true; /* there is no file to protect; if it cannot be written, the write will fail */
    file = fopen(path, "r");
    text = calloc(1, (size_t)is.st_size + 1);
    ours = file && text && is_ours(text, fread(text, 1, (size_t)is.st_size, file));
    if (!ours)
        fprintf(stderr,
                "symtuner %s: %s exists; symtuner did not write it, or it was changed since then; "
                "name another file, or overwrite it with --force\n",
                command, path);
    free(text);
    if (file)
        fclose(file);
    return ours;
}

/* Open a new file in the folder of ${path}. put() renames the complete file to ${path}, so that
 * nobody reads half a file, and the old file stays if the disk is full. Sets *beside to the new
 * file's name, which the caller frees. If ${path} is not a regular file, or if no file can be made
 * in its folder, opens ${path} itself and sets *beside to NULL. Returns the file descriptor, or
 * -1. */
static int open_out(const char *path, char **beside)
{
    struct stat is;
    bool there = lstat(path, &is) == 0;
    mode_t mask = umask(0);
    size_t size = strlen(path) + sizeof ".XXXXXX";
    int fd = -1;

    umask(mask);
    *beside = there && !S_ISREG(is.st_mode) ? NULL : malloc(size);
    if (*beside) {
        snprintf(*beside, size, "%s.XXXXXX", path);
        fd = mkstemp(*beside);
    }
    if (fd >= 0 && fchmod(fd, there ? is.st_mode & 07777 : 0666 & ~mask) == 0)
        return fd;
    if (fd >= 0) {
        unlink(*beside);
        close(fd);
    }
    free(*beside);
    *beside = NULL;
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* Write ${size} bytes of ${text} as the file ${path}. Returns false, with errno set, on failure. */
static bool put(const char *path, const char *text, size_t size)
{
    char *beside, *real = realpath(path, NULL);
    const char *out = real ? real : path; /* if it is a link, replace the file that it names */
    int fd = open_out(out, &beside), why;
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = file && fwrite(text, 1, size, file) == size;

    good = file && fclose(file) == 0 && good;
    good = good && (!beside || rename(beside, out) == 0);
    why = errno;
    if (beside && !good)
        unlink(beside);
    free(beside);
    free(real);
    errno = why;
    return good;
}

bool st_own_file_write(const char *command, const char *path, bool force, bool markup,
                       void (*write)(const void *self, FILE *out), const void *self)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    bool good;

    if (memory) {
        write(self, memory);
        fflush(memory); /* sets ${text} and ${size} */
        fprintf(memory, "%s%s%016" PRIx64 "%s\n", markup ? "<!-- " : "# ", mark,
                st_hash(ST_HASH_START, text, size), markup ? " -->" : "");
    }
    if (!memory || ferror(memory) | fclose(memory)) {
        free(text);
        return st_fail(false, "symtuner %s: %s: out of memory\n", command, path);
    }
    good = st_own_file_free(command, path, force) &&
           (put(path, text, size) ||
            st_fail(false, "symtuner %s: %s: %s\n", command, path, strerror(errno)));
    free(text);
    return good;
}

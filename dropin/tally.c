/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/tally.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reserve.h"

enum { SIZE = sizeof(struct st_tally) + ST_TALLY_SLOTS * sizeof(struct st_tally_slot) };

static struct st_tally *map(int fd)
{
    void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

struct st_tally *st_tally_create(const char *path, char *error, size_t size)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), status;
    struct st_tally *tally = NULL;

    if (fd < 0) {
        snprintf(error, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    status = st_reserve(fd, SIZE);
    if (status == 0 && !(tally = map(fd)))
        status = errno;
    close(fd);
    if (!tally) {
        snprintf(error, size, "%s: %s", path, strerror(status));
        unlink(path);
        /* The caller reads the reason in errno. posix_fallocate does not set errno, and close may
         * have changed it, so set it here. */
        errno = status;
        return NULL;
    }
    tally->version = ST_TALLY_VERSION;
    tally->slots = ST_TALLY_SLOTS;
    tally->slot_size = sizeof(struct st_tally_slot);
    tally->magic = ST_TALLY_MAGIC;
    return tally;
}

struct st_tally *st_tally_open(const char *path, char *error, size_t size)
{
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    struct st_tally *tally;
    struct stat file;

    if (fd < 0) {
        snprintf(error, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_uid != geteuid() ||
        file.st_size != SIZE || !(tally = map(fd))) {
        snprintf(error, size, "%s is no file that this version of symtuner run has made", path);
        close(fd);
        return NULL;
    }
    close(fd);
    if (tally->magic == ST_TALLY_MAGIC && tally->version == ST_TALLY_VERSION &&
        tally->slots == ST_TALLY_SLOTS && tally->slot_size == sizeof(struct st_tally_slot))
        return tally;
    snprintf(error, size, "%s is no file that this version of symtuner run has made", path);
    st_tally_close(tally);
    return NULL;
}

void st_tally_close(struct st_tally *tally)
{
    if (tally)
        munmap(tally, SIZE);
}

struct st_tally_slot *st_tally_claim(struct st_tally *tally, const char *program)
{
    uint32_t own = atomic_load(&tally->claimed);
    struct st_tally_slot *slot;

    do /* the counter stops at ST_TALLY_SLOTS + 1, so it cannot wrap around */
        if (own > ST_TALLY_SLOTS)
            return NULL;
    while (!atomic_compare_exchange_weak(&tally->claimed, &own, own + 1));
    if (own == ST_TALLY_SLOTS)
        return NULL;
    slot = &tally->slot[own];
    snprintf(slot->program, sizeof slot->program, "%s", program);
    atomic_store(&slot->pid, (int32_t)getpid());
    return slot;
}

int st_tally_used(const struct st_tally *tally)
{
    uint32_t claimed = atomic_load(&tally->claimed);

    return claimed < ST_TALLY_SLOTS ? (int)claimed : ST_TALLY_SLOTS;
}

void st_tally_note(struct st_tally_slot *slot, const char *text)
{
    uint32_t none = 0;

    if (!slot || !atomic_compare_exchange_strong(&slot->noted, &none, 1))
        return;
    snprintf(slot->note, sizeof slot->note, "%s", text);
    atomic_store(&slot->noted, 2);
}

const char *st_tally_noted(const struct st_tally_slot *slot)
{
    return atomic_load(&slot->noted) == 2 ? slot->note : "";
}

const char *st_tally_coll_word(int coll)
{
    static const char *const word[] = {
#define X(name, text, function) text,
        ST_TALLY_COLL_MAP(X)
#undef X
    };

    return word[coll];
}

const char *st_tally_coll_name(int coll)
{
    static const char *const name_of[] = {
#define X(name, word, function) function,
        ST_TALLY_COLL_MAP(X)
#undef X
    };

    return name_of[coll];
}

const char *st_tally_why_text(int why)
{
    static const char *const why_text[] = {
#define X(name, text) text,
        ST_TALLY_WHY_MAP(X)
#undef X
    };

    return why_text[why];
}

const char *st_tally_why_word(int why, char word[ST_TALLY_WORD])
{
    static const char *const name_of[] = {
#define X(name, text) #name,
        ST_TALLY_WHY_MAP(X)
#undef X
    };
    const char *from = name_of[why];
    int at = 0;

    for (; from[at] && at < ST_TALLY_WORD - 1; at++)
        word[at] = from[at] == '_' ? '-' : (char)(from[at] | 0x20); /* small letters */
    word[at] = '\0';
    return word;
}

int st_tally_why_parse(const char *word)
{
    char text[ST_TALLY_WORD];

    for (int why = 0; why < ST_WHYS; why++)
        if (strcmp(st_tally_why_word(why, text), word) == 0)
            return why;
    return -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - choose a family by the probe's figures; read and write the file that keeps them. */
#include "kernels/choose/probe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "kernels/choose/families.h"

/* Add to *time how many microseconds a transfer of ${share} times ${wire} bytes takes at ${rate}
 * MB/s. Returns 0 if there is something to transfer but ${rate} is unknown, else 1. */
static int figure(double share, uint32_t rate, double wire, double *time)
{
    if (share == 0)
        return 1;
    if (rate == 0)
        return 0;
    *time += share * wire / rate;
    return 1;
}

double ar_probe_cost(const struct ar_probe *p, int family, int ranks, uint64_t bytes)
{
    const struct ar_family_row *f = &ar_families[family];
    double wire = (double)bytes * (ranks - 1) / ranks, time = f->latency;

    if (f->latency == 0)
        return -1;
    if (f->shots == 1)
        wire *= ranks;
    return figure(f->push, p->push, wire, &time) && figure(f->pull, p->pull, wire, &time) &&
                   figure(f->copy, p->copy, wire, &time)
               ? time
               : -1;
}

int ar_probe_choose(const struct ar_probe *p, int family, unsigned can, int ranks, uint64_t bytes)
{
    double own = ar_probe_cost(p, family, ranks, bytes), least = own * 0.8;
    int best = family;

    if (own < 0)
        return family;
    for (int f = 0; f < AR_FAMILIES; f++) {
        double time = ar_probe_cost(p, f, ranks, bytes);

        if ((can >> f & 1) != 0 && time >= 0 && time < least) {
            least = time;
            best = f;
        }
    }
    return best;
}

struct ar_probe ar_probe_slower(struct ar_probe a, struct ar_probe b)
{
    return (struct ar_probe){a.push < b.push ? a.push : b.push, a.pull < b.pull ? a.pull : b.pull,
                             a.copy < b.copy ? a.copy : b.copy};
}

uint64_t ar_probe_key(uint64_t key, const char *text)
{
    return st_hash(key ? key : ST_HASH_START, text, strlen(text));
}

#define LINE                                                                                       \
    "symtuner-ar-probe 1 gpus %016" PRIx64 " push %" PRIu32 " pull %" PRIu32 " copy %" PRIu32
#define READ                                                                                       \
    "symtuner-ar-probe 1 gpus %16" SCNx64 " push %" SCNu32 " pull %" SCNu32 " copy %" SCNu32

int ar_probe_read(const char *path, uint64_t key, struct ar_probe *p, char *why, size_t why_size)
{
    struct ar_probe got;
    struct stat about;
    uint64_t whose = 0;
    int fields;
    FILE *f;

    /* Refuse a pipe, because fopen would wait for ever if no process writes to the pipe. */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        snprintf(why, why_size, "SYMTUNER_AR_PROBE_FILE=\"%s\" is no plain file", path);
        return -1;
    }
    f = fopen(path, "re");
    if (f == NULL && errno == ENOENT)
        return 0;
    if (f == NULL) {
        snprintf(why, why_size, "SYMTUNER_AR_PROBE_FILE=\"%s\": %s", path, strerror(errno));
        return -1;
    }
    fields = fscanf(f, READ, &whose, &got.push, &got.pull, &got.copy);
    fclose(f);
    if (fields != 4) {
        snprintf(
            why, why_size,
            "SYMTUNER_AR_PROBE_FILE=\"%s\" holds no figures of a probe; delete it to probe anew",
            path);
        return -1;
    }
    if (whose != key)
        return 0;
    *p = got;
    return 1;
}

/* Open a new file beside ${path}, and write its name to ${part}. Other threads and processes may
 * write a file beside ${path} at the same time, even a process with our number in a container. So
 * each file of this process has another name, and "x" refuses a file that is there. */
static FILE *open_part(const char *path, uint64_t key, char *part, size_t size)
{
    static atomic_uint number;
    FILE *f;

    do {
        if (snprintf(part, size, "%s.%ld.%" PRIx64 ".%u", path, (long)getpid(), key,
                     atomic_fetch_add(&number, 1)) >= (int)size) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        f = fopen(part, "wxe");
    } while (f == NULL && errno == EEXIST);
    return f;
}

int ar_probe_write(const char *path, uint64_t key, const struct ar_probe *p, char *why,
                   size_t why_size)
{
    char part[4096];
    /* Write a new file and rename it, because other groups may read or write ${path} right now. */
    FILE *f = open_part(path, key, part, sizeof part);
    int good;

    good = f != NULL && fprintf(f, LINE " MB/s of each rank to all others at once\n", key, p->push,
                                p->pull, p->copy) > 0;
    if (f != NULL)
        good &= fclose(f) == 0;
    if (good && rename(part, path) == 0)
        return 0;
    snprintf(why, why_size, "SYMTUNER_AR_PROBE_FILE=\"%s\" cannot be written: %s", path,
             strerror(errno));
    if (f != NULL)
        unlink(part);
    return -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - how fast the ranks reach each other's memory when all do so at once.
 *
 * Over PCIe nobody can tell beforehand. Stores from several GPUs to several root ports collapse to
 * a twentieth on some hosts, loads crawl or come back as all-ones on others, and a driver may stage
 * either through system memory although it reports peer access. Single flows and the copy engines
 * do not show it. So when a group is made on PCIe every rank stores to all peers, then loads from
 * all peers, then copies to all peers, for a few ms each, and checks the bytes.
 *
 * Units      MB/s (bytes per microsecond) of one rank to all its peers together, slowest rank.
 * Shared     all ranks use the same figures, or they would wait for each other in different
 * kernels.
 */
#ifndef ST_AR_PROBE_H_
#define ST_AR_PROBE_H_

#include <stddef.h>
#include <stdint.h>

struct st_probe {
    uint32_t push, pull, copy; /* 0: not measured, or wrong bytes came */
};

#define ST_PROBE_BROKEN 1u  /* push: stores do not arrive as sent; slower than any real one */
#define ST_PROBE_FAILED ~0u /* push: the rank could not probe                               */
#define ST_PROBE_STUCK  ~1u /* push: ... because its kernel does not end                    */

#define ST_PROBE_FROM   160  /* bytes: where figures come from, in words */
#define ST_PROBE_MARK   0x40 /* + rank: every byte of that rank's slot */
#define ST_PROBE_UNROLL 4

enum st_probe_step {
    ST_PROBE_FILL,
    ST_PROBE_PUSH,
    ST_PROBE_CHECK,
    ST_PROBE_PULL,
    ST_PROBE_COPY,
    ST_PROBE_STEPS
};

/* What one block of the probe's kernel has seen. */
struct st_probe_seen {
    uint64_t bytes, ns;
    uint64_t wrong; /* 1: a word was not what its rank had written */
};

/* Time of an all-reduce of ${bytes}, microseconds, if the links are all that counts; < 0: the
 * figures say nothing about ${family}, or that it does not work. */
double st_probe_cost(const struct st_probe *p, int family, int ranks, uint64_t bytes);

/* The family for a call of which the table says ${family}: that one, unless another of those that
 * ${can} allows (bit f: family f) takes less than four fifths of its time. */
int st_probe_choose(const struct st_probe *p, int family, unsigned can, int ranks, uint64_t bytes);

/* The lower of both figures, each. */
struct st_probe st_probe_slower(struct st_probe a, struct st_probe b);

/*
 * Figures kept in a file, for one set of GPUs that ${key} stands for. Reading: 1 found, 0 no such
 * file or one for other GPUs, -1 no such kind of file, with a sentence in ${why}. Writing: 0, or -1
 * with the sentence.
 */
int st_probe_read(const char *path, uint64_t key, struct st_probe *p, char *why, size_t why_size);
int st_probe_write(const char *path, uint64_t key, const struct st_probe *p, char *why,
                   size_t why_size);

/* FNV-1a of ${text}, going on from ${key}; 0 starts. */
uint64_t st_probe_key(uint64_t key, const char *text);

#endif

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
#ifndef AR_PROBE_H_
#define AR_PROBE_H_

#include <stddef.h>
#include <stdint.h>

struct ar_probe {
    uint32_t push, pull, copy; /* 0: not measured, or wrong bytes came */
};

#define AR_PROBE_BROKEN 1u  /* push: stores do not arrive as sent; slower than any real one */
#define AR_PROBE_FAILED ~0u /* push: the rank could not probe                               */
#define AR_PROBE_STUCK  ~1u /* push: ... because its kernel does not end                    */

#define AR_PROBE_FROM   160  /* bytes: where figures come from, in words */
#define AR_PROBE_MARK   0x40 /* + rank: every byte of that rank's slot */
#define AR_PROBE_UNROLL 4

enum ar_probe_step {
    AR_PROBE_FILL,
    AR_PROBE_PUSH,
    AR_PROBE_CHECK,
    AR_PROBE_PULL,
    AR_PROBE_COPY,
    AR_PROBE_STEPS
};

/* What one block of the probe's kernel has seen. */
struct ar_probe_seen {
    uint64_t bytes, ns;
    uint64_t wrong; /* 1: a word was not what its rank had written */
};

/* Time of an all-reduce of ${bytes}, microseconds, if the links are all that counts; < 0: the
 * figures say nothing about ${family}, or that it does not work. */
double ar_probe_cost(const struct ar_probe *p, int family, int ranks, uint64_t bytes);

/* The family for a call of which the table says ${family}: that one, unless another of those that
 * ${can} allows (bit f: family f) takes less than four fifths of its time. */
int ar_probe_choose(const struct ar_probe *p, int family, unsigned can, int ranks, uint64_t bytes);

/* The lower of both figures, each. */
struct ar_probe ar_probe_slower(struct ar_probe a, struct ar_probe b);

/*
 * Figures kept in a file, for one set of GPUs that ${key} stands for. Reading: 1 found, 0 no such
 * file or one for other GPUs, -1 no such kind of file, with a sentence in ${why}. Writing: 0, or -1
 * with the sentence.
 */
int ar_probe_read(const char *path, uint64_t key, struct ar_probe *p, char *why, size_t why_size);
int ar_probe_write(const char *path, uint64_t key, const struct ar_probe *p, char *why,
                   size_t why_size);

/* FNV-1a of ${text}, going on from ${key}; 0 starts. */
uint64_t ar_probe_key(uint64_t key, const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - measure how fast the ranks reach each other's memory when all do so at once.
 *
 * On PCIe this cannot be known in advance. When several GPUs store through several root ports, some
 * hosts drop to a twentieth of the rate. On others loads are very slow or return all ones. A driver
 * may also route both through system memory although it reports peer access. Tests of one pair of
 * GPUs, or of the copy engines, do not show this. So when a group is created on PCIe, every rank
 * stores to all peers, then loads from all peers, then copies to all peers, for a few ms each, and
 * checks the bytes.
 *
 * Units      MB/s (bytes per microsecond) between one rank and all its peers together; of all ranks
 *            the slowest counts.
 * Sharing    all ranks use the same figures; otherwise they would choose different kernels and
 *            wait for each other.
 */
#ifndef AR_PROBE_H_
#define AR_PROBE_H_

#include <stddef.h>
#include <stdint.h>

struct ar_probe {
    uint32_t push, pull, copy; /* MB/s; 0: not measured, or the bytes were wrong */
};

#define AR_PROBE_BROKEN 1u  /* push: stores do not arrive as sent; less than any real rate */
#define AR_PROBE_FAILED ~0u /* push: the rank could not probe */
#define AR_PROBE_STUCK  ~1u /* push: the rank could not probe: its kernel does not end */

#define AR_PROBE_FROM   160  /* bytes of the text that says where figures come from */
#define AR_PROBE_MARK   0x40 /* plus the rank: the value of every byte in its slot */
#define AR_PROBE_UNROLL 4

enum ar_probe_step {
    AR_PROBE_FILL,
    AR_PROBE_PUSH,
    AR_PROBE_CHECK,
    AR_PROBE_PULL,
    AR_PROBE_COPY,
    AR_PROBE_STEPS
};

/* What one block of the probe kernel measured. */
struct ar_probe_seen {
    uint64_t bytes, ns;
    uint64_t wrong; /* 1: a word was not what the slot's rank wrote */
};

/* Estimate how many microseconds an all-reduce of ${bytes} takes, from the rates of the links and a
 * fixed latency. Returns < 0 if the figures say nothing about ${family}, or that it does not work.
 */
double ar_probe_cost(const struct ar_probe *p, int family, int ranks, uint64_t bytes);

/* Return the family to use where the table says ${family}: the fastest of those in ${can} (bit f:
 * family f) that take less than four fifths of the time of ${family}, or else ${family}. */
int ar_probe_choose(const struct ar_probe *p, int family, unsigned can, int ranks, uint64_t bytes);

/* Return the lower one of each figure of ${a} and ${b}. */
struct ar_probe ar_probe_slower(struct ar_probe a, struct ar_probe b);

/*
 * Read or write a file with the figures of the GPUs that ${key} stands for. ar_probe_read returns 1
 * if it found them, 0 if there is no file or it is for other GPUs, -1 if the file cannot be read or
 * holds something else. ar_probe_write returns 0, or -1. After -1 ${why} says why.
 */
int ar_probe_read(const char *path, uint64_t key, struct ar_probe *p, char *why, size_t why_size);
int ar_probe_write(const char *path, uint64_t key, const struct ar_probe *p, char *why,
                   size_t why_size);

/* Return the FNV-1a hash of ${text}, continued from ${key}; 0 starts a new hash. */
uint64_t ar_probe_key(uint64_t key, const char *text);

#endif

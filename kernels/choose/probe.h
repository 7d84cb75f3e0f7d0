/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - the start-up probe, which measures how fast the ranks read and write each other's
 * memory if all ranks do so at once.
 *
 * On PCIe these rates cannot be known in advance. When several GPUs store through several root
 * ports, some hosts drop to a twentieth of the rate. On other hosts loads are very slow, or return
 * all ones. A driver may also route loads and stores through system memory although it reports peer
 * access. Tests of one pair of GPUs, or of the copy engines, do not show such faults. So when a
 * group is created on PCIe, every rank stores to all peers, then loads from all peers, then copies
 * to all peers, for a few ms each, and checks the bytes that arrived.
 *
 * Units      rates are MB/s (bytes per microsecond) between one rank and all its peers together.
 *            The rate of the slowest rank counts.
 * Sharing    all ranks use the same figures. With different figures they might choose different
 *            kernels, and then wait for each other for ever.
 */
#ifndef AR_PROBE_H_
#define AR_PROBE_H_

#include <stddef.h>
#include <stdint.h>

struct ar_probe {
    uint32_t push, pull, copy; /* MB/s; 0: not measured, or the bytes were wrong */
};

/* Values of ${push} that are not rates: they say that the rank found a fault or could not probe. */
#define AR_PROBE_BROKEN 1u  /* stores do not arrive as sent; lower than any measured rate */
#define AR_PROBE_FAILED ~0u /* the rank could not probe */
#define AR_PROBE_STUCK  ~1u /* the rank could not probe, because its kernel does not end */

#define AR_PROBE_FROM   160  /* bytes of the text that says where the figures come from */
#define AR_PROBE_MARK   0x40 /* rank r fills its slot with bytes of the value AR_PROBE_MARK + r */
#define AR_PROBE_UNROLL 4    /* how many 16-byte words of a tile each thread handles */

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
    uint64_t wrong; /* 1: at least one word is not what its writer stored */
};

/* Return how many microseconds an all-reduce of ${bytes} would take with ${family}: a fixed latency
 * plus the bytes divided by the rates. Returns a number below 0 if a rate that the family needs is
 * missing. */
double ar_probe_cost(const struct ar_probe *p, int family, int ranks, uint64_t bytes);

/* The built-in table (rows.h) names ${family} for a call. Find the fastest of the families that can
 * run the call. Return it if its predicted time is below four fifths of the time of ${family}.
 * Otherwise return ${family}. Bit f of ${can} says whether family f can run the call. */
int ar_probe_choose(const struct ar_probe *p, int family, unsigned can, int ranks, uint64_t bytes);

/* Return, for each figure, the lower one of its values in ${a} and ${b}. */
struct ar_probe ar_probe_slower(struct ar_probe a, struct ar_probe b);

/*
 * Read or write the file that keeps the figures of a group of GPUs. ${key} identifies these GPUs.
 * ar_probe_read returns 1 if it found the figures, 0 if there is no file or the file is for other
 * GPUs, and -1 if the file cannot be read or holds something else. ar_probe_write returns 0 for
 * success, else -1. After -1 ${why} gives the reason.
 */
int ar_probe_read(const char *path, uint64_t key, struct ar_probe *p, char *why, size_t why_size);
int ar_probe_write(const char *path, uint64_t key, const struct ar_probe *p, char *why,
                   size_t why_size);

/* Return the FNV-1a hash of ${text}. If ${key} is not 0, it is an earlier hash, which this call
 * continues. */
uint64_t ar_probe_key(uint64_t key, const char *text);

#endif

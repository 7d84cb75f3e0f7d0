/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - the arithmetic of a message: words, shards, slots, halves, flags.
 *
 * Pure and shared: the host, the kernels and test/kernels/check_layout.c compile this same file, so what the
 * tests prove for every count, rank number and alignment is what the kernels do.
 *
 * Vocabulary
 *   unit     8 bytes of payload; no element straddles two units, so ranks reduce unit by unit
 *   word     16 bytes as they lie in scratch and cross the link; one thread handles one word
 *   form     how a word carries its own proof of arrival (enum ar_form)
 *   shard    the part of a message that one rank reduces for all (two-shot kernels)
 *   half     scratch is split in two, used by even and odd epochs
 *
 * Units      bytes unless the name says units, words or lines.
 * Errors     none; callers keep arguments in range.
 */
#ifndef AR_LAYOUT_H_
#define AR_LAYOUT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define AR_HD __host__ __device__ __forceinline__
#else
#define AR_HD static inline
#endif

#define AR_UNIT      8  /* bytes */
#define AR_WORD      16 /* bytes */
#define AR_LINE      8  /* words in a 128-byte line */
#define AR_MAX_RANKS 16
#define AR_MAX_CTAS  512 /* flag rows reserved per flag kind */

/*
 * LL8      4 data + 4 flag, twice per word: any data, half the link, needs 8-byte atomic stores.
 * LL128    7.5 words of data + 8 bytes of flag per line: any data, 94 %, needs that the eight
 * 16-byte stores of a line become visible together; true on NVLink, not promised over PCIe. LAMPORT
 * 16 data bytes; all-ones 32-bit words mean "not here yet" and never travel as data: full link,
 * only for types where all-ones is a NaN.
 */
enum ar_form { AR_LL8, AR_LL128, AR_LAMPORT };

/*
 * Word numbers and everything counted in words are 32 bits: these forms only carry pieces that fit
 * their scratch, which is far below 4 GiB, and 64-bit arithmetic would double the instructions
 * before the first store.
 */

/* Payload units of the word at position ${lane} of its line. */
AR_HD int ar_word_units(int form, int lane)
{
    return form == AR_LL8 ? 1 : form == AR_LAMPORT ? 2 : lane % AR_LINE == AR_LINE - 1 ? 1 : 2;
}

/* First payload unit of word ${w}. */
AR_HD uint32_t ar_word_first_unit(int form, uint32_t w)
{
    return form == AR_LL8       ? w
           : form == AR_LAMPORT ? 2 * w
                                : w / AR_LINE * (2 * AR_LINE - 1) + w % AR_LINE * 2;
}

AR_HD uint64_t ar_div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

AR_HD uint64_t ar_round_up(uint64_t a, uint64_t b)
{
    return ar_div_up(a, b) * b;
}

/* To a power of two. */
AR_HD uint32_t ar_round_up32(uint32_t a, uint32_t b)
{
    return (a + b - 1) & ~(b - 1);
}

/* Payload bytes in one line of eight words. */
AR_HD uint64_t ar_line_payload(int form)
{
    return form == AR_LL8 ? 64 : form == AR_LAMPORT ? 128 : 120;
}

/* Words that carry ${bytes} of payload. LL128 always sends whole lines: the flag is in the last. */
AR_HD uint64_t ar_words(int form, uint64_t bytes)
{
    return form == AR_LL128 ? ar_div_up(bytes, 120) * AR_LINE
                            : ar_div_up(bytes, form == AR_LL8 ? AR_UNIT : AR_WORD);
}

/* Whether word ${w} belongs to a message of ${bytes}: w < ar_words(form, bytes) without a division.
 */
AR_HD bool ar_word_wanted(int form, uint32_t w, uint32_t bytes)
{
    return form == AR_LL128 ? w / AR_LINE * 120 < bytes
                            : w * (form == AR_LL8 ? AR_UNIT : AR_WORD) < bytes;
}

/*
 * Two-shot partition. All shards but the last non-empty one have the same length, a whole number of
 * lines, so that every rank derives the same bounds from (bytes, ranks) alone. Shards start at
 * multiples of 16 bytes, or wide loads would be misaligned: two lines of LL128 at a time.
 */
AR_HD uint64_t ar_shard_grain(int form)
{
    return ar_line_payload(form) * (form == AR_LL128 ? 2 : 1);
}

AR_HD uint64_t ar_shard_stride(int form, uint64_t bytes, int ranks)
{
    uint64_t grain = ar_shard_grain(form);

    return ar_div_up(ar_div_up(bytes, grain), (uint64_t)ranks) * grain;
}

/* Bytes in shard ${s}; 0 for shards past the end of a short message. */
AR_HD uint64_t ar_shard_bytes(uint64_t bytes, uint64_t stride, int s)
{
    uint64_t first = stride * (uint64_t)s;

    return first >= bytes ? 0 : bytes - first < stride ? bytes - first : stride;
}

/* The same for a piece of a word form. */
AR_HD uint32_t ar_shard_bytes32(uint32_t bytes, uint32_t stride, int s)
{
    uint32_t first = stride * (uint32_t)s;

    return first >= bytes ? 0 : bytes - first < stride ? bytes - first : stride;
}

/* Scratch that one half needs: one slot per rank, twice for two-shot (both hops). */
AR_HD uint64_t ar_oneshot_scratch(int form, uint64_t bytes, int ranks)
{
    return ar_round_up(ar_words(form, bytes), AR_LINE) * AR_WORD * (uint64_t)ranks;
}

AR_HD uint64_t ar_twoshot_scratch(int form, uint64_t bytes, int ranks)
{
    uint64_t stride = ar_shard_stride(form, bytes, ranks);

    return ar_words(form, stride) * AR_WORD * 2 * (uint64_t)ranks;
}

/* Chunked kernel and copy engines: plain 16-byte data, shards of whole 128-byte lines. */
AR_HD uint64_t ar_bulk_stride(uint64_t bytes, int ranks)
{
    return ar_shard_stride(AR_LAMPORT, bytes, ranks);
}

/* Slots to reduce from; as much again, elsewhere, to gather through when recv is not mapped. */
AR_HD uint64_t ar_bulk_scratch(uint64_t bytes, int ranks)
{
    return ar_bulk_stride(bytes, ranks) * (uint64_t)ranks;
}

/* Tiles of ${tile} bytes that one block of ${ctas} handles per shard. Same on all ranks. */
AR_HD uint64_t ar_tiles_per_cta(uint64_t stride, uint64_t tile, int ctas)
{
    return ar_div_up(stride, tile * (uint64_t)ctas);
}

/*
 * Blocks that a handle may have at once on a GPU of ${sms}, one to a multiprocessor: ${asked}, 0 for
 * as many as are good, but never all. Waiting blocks keep their multiprocessors, so two handles
 * whose calls two ranks start in different order would wait for each other if the second found no
 * room at all. A few are enough: what a block sends and awaits concerns the same block of the peers,
 * so blocks of one call may run one after the other.
 */
AR_HD int ar_budget(int sms, int asked)
{
    int most = sms > 8 ? (sms - 4) / 4 * 4 : sms - 1;
    int budget = asked > 0 && asked < most ? asked : most;

    return budget > 1 ? budget : 1;
}

/* The same for ranks that share a GPU: block by block they wait for each other, so all of one call
 * must be resident, and those of two handles must find room beside each other. */
AR_HD int ar_budget_together(int sms, int budget)
{
    int half = (sms - 1) / 2;

    half = half > 4 ? half / 4 * 4 : half > 1 ? half : 1;
    return budget < half ? budget : half;
}

/* ---- epochs ------------------------------------------------------------------------------------
 */

/* The half that epoch ${e} uses. A rank is at most one call ahead of any other, because finishing a
 * call needs words from everybody; so two halves are enough. */
AR_HD int ar_half(uint64_t e)
{
#ifdef ST_BREAK_HALF
    return 0 * (int)e;
#else
    return (int)(e & 1);
#endif
}

/* LL8 has room for 32 bits and 0 means "cleared", so 0 is skipped. Slots are cleared after reading,
 * hence an old value 2^32 calls ago cannot be mistaken for a new one. */
AR_HD uint32_t ar_flag32(uint64_t e)
{
    return (uint32_t)e != 0 ? (uint32_t)e : 0x80000000u;
}

/* Flags of the chunked kernel: epoch and progress within the call, ever growing. 2^24 steps a call,
 * 2^40 calls. */
AR_HD uint64_t ar_flag_step(uint64_t e, uint64_t step)
{
    return (e << 24) + step;
}

#define AR_MAX_STEPS ((1u << 24) - 2)

/* Wrap-safe "a has reached b". */
AR_HD bool ar_reached(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) >= 0;
}

/* ---- scratch layout, the same on all ranks ------------------------------------------------------
 */

/*
 * The word forms have two halves. BULK (slots to reduce from) and GATHER (sums on their way to a
 * recv that is not mapped) have one each, and must not share memory: a rank that is one call ahead
 * writes BULK while this one still empties GATHER.
 */
enum ar_region {
    AR_REGION_LL8,
    AR_REGION_LL128,
    AR_REGION_LAMPORT,
    AR_REGION_BULK,
    AR_REGION_GATHER,
    AR_REGIONS
};

/* Flags: one 128-byte row per (kind, block), one 8-byte word in it per writing rank. */
enum ar_flag_kind { AR_FLAG_REDUCE, AR_FLAG_GATHER, AR_FLAG_ENTER, AR_FLAG_LEAVE, AR_FLAG_KINDS };

#define AR_FLAG_ROW   128
#define AR_FLAG_BYTES (AR_FLAG_KINDS * AR_MAX_CTAS * AR_FLAG_ROW)

AR_HD uint64_t ar_flag_offset(int kind, int cta, int writer)
{
    return ((uint64_t)kind * AR_MAX_CTAS + (uint64_t)cta) * AR_FLAG_ROW + (uint64_t)writer * 8;
}

struct ar_layout {
    uint64_t half[AR_REGIONS];  /* bytes of one half; 0: region absent                      */
    uint64_t first[AR_REGIONS]; /* offset of half 0; half 1, if any, follows                */
    uint64_t bytes;             /* whole arena                                              */
};

AR_HD void ar_layout_fill(struct ar_layout *layout, const uint64_t half[AR_REGIONS])
{
    uint64_t at = AR_FLAG_BYTES;

    for (int r = 0; r < AR_REGIONS; r++) {
        layout->half[r] = ar_round_up(half[r], 4096);
        layout->first[r] = at;
        at += (r >= AR_REGION_BULK ? 1 : 2) * layout->half[r];
    }
    layout->bytes = at;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - where the parts of a message lie: words, shards, slots, halves, flags.
 *
 * The functions are pure. The host, the kernels and test/kernels/check_layout.c all compile this
 * file, so the test checks exactly what the kernels compute.
 *
 * Vocabulary
 *   unit     8 bytes of payload; no element straddles two units, so ranks reduce unit by unit
 *   word     16 bytes as they lie in scratch and cross the link; one thread handles one word
 *   form     how a word shows that it has arrived (enum ar_form)
 *   shard    the part of a message that one rank reduces for all (two-shot kernels)
 *   slot     a part of scratch that only one other rank writes
 *   epoch    the number of a call; each handle counts its own calls
 *   region   a part of scratch for one kind of slots (enum ar_region)
 *   half     one of two equal parts of a region: even epochs use the first, odd epochs the second
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
#define AR_MAX_CTAS  512 /* largest number of blocks of a call; each block has rows of flags */

/*
 * LL8      A word has 4 bytes of data, 4 of flag, 4 of data and 4 of flag. It carries any data type
 *          at half of the link's rate. It relies on 8-byte stores arriving whole.
 * LL128    A line has 120 bytes of data and 8 bytes of flag. It carries any data type at 94 % of
 *          the link's rate. It relies on the eight 16-byte stores of a line becoming visible
 *          together. NVLink promises that; PCIe does not.
 * LAMPORT  A word has 16 bytes of data, and uses the full rate of the link. A 32-bit part of all
 *          ones means "not here yet". If data has such a part, a NaN with other bits is sent in its
 *          place. So this form is only for types in which all ones is a NaN.
 */
enum ar_form { AR_LL8, AR_LL128, AR_LAMPORT };

/*
 * Word numbers and counts are 32 bits wide. That is enough, because scratch is far below 4 GiB, and
 * a message is cut into pieces that fit it. 64-bit arithmetic would double the instructions before
 * the first store.
 */

/* Return how many units of payload the word at position ${lane} of its line has. */
AR_HD int ar_word_units(int form, int lane)
{
    return form == AR_LL8 ? 1 : form == AR_LAMPORT ? 2 : lane % AR_LINE == AR_LINE - 1 ? 1 : 2;
}

/* Return the number of the first payload unit in word ${w}. */
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

/* Round ${a} up to a multiple of ${b}, a power of two. */
AR_HD uint32_t ar_round_up32(uint32_t a, uint32_t b)
{
    return (a + b - 1) & ~(b - 1);
}

/* Return the payload bytes of one line of eight words. */
AR_HD uint64_t ar_line_payload(int form)
{
    return form == AR_LL8 ? 64 : form == AR_LAMPORT ? 128 : 120;
}

/* Return how many words carry ${bytes} of payload. LL128 sends whole lines, because the flag is in
 * the last word of a line. */
AR_HD uint64_t ar_words(int form, uint64_t bytes)
{
    return form == AR_LL128 ? ar_div_up(bytes, 120) * AR_LINE
                            : ar_div_up(bytes, form == AR_LL8 ? AR_UNIT : AR_WORD);
}

/* Return whether word ${w} belongs to a message of ${bytes}. The result is the same as that of
 * w < ar_words(form, bytes), but this needs no division of ${bytes}. */
AR_HD bool ar_word_wanted(int form, uint32_t w, uint32_t bytes)
{
    return form == AR_LL128 ? w / AR_LINE * 120 < bytes
                            : w * (form == AR_LL8 ? AR_UNIT : AR_WORD) < bytes;
}

/*
 * Two-shot kernels divide a message into shards. All shards have the same length (the stride), but
 * the last shard that has data may be shorter, and the shards after it are empty. Every rank
 * computes the same bounds from bytes and ranks. The stride is a multiple of the grain, which is a
 * whole number of lines, and a multiple of 16 bytes so that wide loads are aligned. A line of LL128
 * carries 120 bytes, so the grain of LL128 is two lines.
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

/* Return the bytes in shard ${s}; 0 if a short message ends before this shard. */
AR_HD uint64_t ar_shard_bytes(uint64_t bytes, uint64_t stride, int s)
{
    uint64_t first = stride * (uint64_t)s;

    return first >= bytes ? 0 : bytes - first < stride ? bytes - first : stride;
}

/* As ar_shard_bytes, but with 32-bit arithmetic, for pieces that are sent as words. */
AR_HD uint32_t ar_shard_bytes32(uint32_t bytes, uint32_t stride, int s)
{
    uint32_t first = stride * (uint32_t)s;

    return first >= bytes ? 0 : bytes - first < stride ? bytes - first : stride;
}

/* Return how many tiles of ${tile} bytes a block handles in each shard if there are ${ctas} blocks.
 * The number is the same on all ranks. */
AR_HD uint64_t ar_tiles_per_cta(uint64_t stride, uint64_t tile, int ctas)
{
    return ar_div_up(stride, tile * (uint64_t)ctas);
}

/*
 * Return how many blocks of one handle may run at once on a GPU with ${sms} multiprocessors, one
 * block on each. The user asks for ${asked} blocks (0: for as many as possible). The result is at
 * most ${most}, which leaves a few multiprocessors free.
 *
 * A few must be free, because a waiting block keeps its multiprocessor. If two ranks start calls of
 * two handles in different order, the second call of each rank must still find free
 * multiprocessors. Otherwise the ranks would wait for each other for ever. A few are enough: a
 * block exchanges data only with the block of the same number on each peer, so the blocks of one
 * call may run one after the other.
 */
AR_HD int ar_budget(int sms, int asked)
{
    int most = sms > 8 ? (sms - 4) / 4 * 4 : sms - 1;
    int budget = asked > 0 && asked < most ? asked : most;

    return budget > 1 ? budget : 1;
}

/* Return how many blocks all ranks that share a GPU may run together. That is ${budget}, the result
 * of ar_budget, but at most half of the multiprocessors. Such ranks wait for each other, so all
 * blocks of a call must be resident at once, and the blocks of two handles must fit side by side.
 */
AR_HD int ar_budget_together(int sms, int budget)
{
    int half = (sms - 1) / 2;

    half = half > 4 ? half / 4 * 4 : half > 1 ? half : 1;
    return budget < half ? budget : half;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

/* Return the half that epoch ${e} uses. Two halves are enough: to finish a call, a rank needs words
 * from all ranks, so no rank is more than one call ahead of another. */
AR_HD int ar_half(uint64_t e)
{
#ifdef ST_BREAK_HALF
    return 0 * (int)e;
#else
    return (int)(e & 1);
#endif
}

/* Return the flag that LL8 sends in call ${e}: the lower 32 bits of ${e}. A flag of 0 would mean
 * "cleared", so another value replaces it. Readers clear slots, so a flag from 2^32 calls ago
 * cannot be mistaken for a new one. */
AR_HD uint32_t ar_flag32(uint64_t e)
{
    return (uint32_t)e != 0 ? (uint32_t)e : 0x80000000u;
}

/* Return a flag of the kernels that send data and flags in separate stores
 * (kernels/device/bulk.cuh): the epoch, and in the lower 24 bits the step within the call. So flags
 * only grow. They suffice for 2^40 calls of 2^24 steps each. */
AR_HD uint64_t ar_flag_step(uint64_t e, uint64_t step)
{
    return (e << 24) + step;
}

#define AR_MAX_STEPS ((1u << 24) - 2)

/* Return whether the counter ${a} has reached ${b}, even if one of them has wrapped around. */
AR_HD bool ar_reached(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) >= 0;
}

/* ---- scratch layout, the same on all ranks --------------------------------------------------- */

/*
 * LL8, LL128 and LAMPORT are the regions for words of these forms; they have two halves. BULK (data
 * that is to be added up, or in an all-gather copied to recv), GATHER (sums for a rank whose recv
 * the peers have not mapped; in kernel engines, a copy of a send that the peers have not mapped)
 * and IPC (the slots of kernels/device/tma/tma_ipc.cuh) have only one half. BULK and GATHER must
 * not share memory, because a rank that is one call ahead writes BULK while this rank still reads
 * GATHER.
 */
enum ar_region {
    AR_REGION_LL8,
    AR_REGION_LL128,
    AR_REGION_LAMPORT,
    AR_REGION_BULK,
    AR_REGION_GATHER,
    AR_REGION_IPC,
    AR_REGIONS
};

/* The kinds of flags. For each kind, each block has a row of 128 bytes. In a row, each rank that
 * writes flags has 8 bytes. */
enum ar_flag_kind {
    AR_FLAG_REDUCE,
    AR_FLAG_GATHER,
    AR_FLAG_ENTER,
    AR_FLAG_LEAVE,
    AR_FLAG_ENGINES, /* has the rows of enum ar_engine_row, not a row for each block */
    AR_FLAG_IPC,     /* each block has the rows of enum ar_ipc_row */
    AR_FLAG_KINDS
};

/* The flags of kernels/engines. Copy engines set ENTERED and FETCHED at the peers; the rank that
 * waits for such a flag clears it. A rank that gives up sets GAVE_UP at its peers, and nobody
 * clears GAVE_UP. */
enum ar_engine_row {
    AR_ENGINES_ENTERED, /* the writer has begun the call: its send is ready */
    AR_ENGINES_FETCHED, /* the writer has copied this rank's part or shard */
    AR_ENGINES_GAVE_UP, /* the writer has given up; this row must come right after FETCHED */
    AR_ENGINES_UNUSED,  /* the kernel watch stores for AR_MAX_RANKS ranks; what it stores for ranks
                           that do not exist goes here, and nobody reads it */
    AR_ENGINES_ROWS
};

/* The kernel watch (kernels/device/halves/engines.cu) counts time in ticks of 2^AR_ENGINES_TICK ns,
 * about a millisecond. Once it has waited for AR_ENGINES_LOOK_AFTER ticks, it also reads the host's
 * abort word. */
enum { AR_ENGINES_TICK = 20, AR_ENGINES_LOOK_AFTER = 10 };

#define AR_FLAG_ROW   128
#define AR_FLAG_BYTES (AR_FLAG_KINDS * AR_MAX_CTAS * AR_FLAG_ROW)

AR_HD uint64_t ar_flag_offset(int kind, int cta, int writer)
{
    return ((uint64_t)kind * AR_MAX_CTAS + (uint64_t)cta) * AR_FLAG_ROW + (uint64_t)writer * 8;
}

struct ar_layout {
    uint64_t half[AR_REGIONS];  /* bytes of one half; 0 if the arena lacks the region       */
    uint64_t first[AR_REGIONS]; /* offset of half 0; half 1, if there is one, follows       */
    uint64_t bytes;             /* bytes of the whole arena                                 */
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

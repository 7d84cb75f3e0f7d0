/* SPDX-License-Identifier: Apache-2.0 */
/*
 * book.h - the drop-in's counters for the ledger (docs/ledger.md).
 *
 * The ledger is a file of counters. NCCL calls libsymtuner.so, the plugin, only for calls that NCCL
 * runs, so the drop-in counts the calls that our kernels run. It also counts for what reason NCCL
 * ran the other calls. Counting is lock-free and allocates nothing.
 *
 * Ownership  st_book_open allocates a book, the counters of one rank of a communicator.
 *            st_book_close writes it to the ledger. Afterwards late threads may still count in it,
 *            so it is freed only when the communicator's record is used again (comms.c).
 */
#ifndef ST_BOOK_H_
#define ST_BOOK_H_

#include <sys/types.h>

#include "base/cut.h"
#include "dropin/tally.h"

/* The collectives that are counted. Sends, receives and others are not: the plugin does not count
 * them either. */
enum { ST_BOOK_COLLS = ST_TALLY_REDUCE + 1 };

/* What else is counted. CAPTURED: calls by our kernels that went into a CUDA graph. VERIFIED: calls
 * by our kernels that NCCL ran, too. PARTS: when libsymtuner_ar.so runs a call over several boxes,
 * it gives parts of the call to NCCL as all-reduces. Each of these all-reduces counts, with its own
 * size. */
enum st_book_also { ST_BOOK_CAPTURED, ST_BOOK_VERIFIED, ST_BOOK_PARTS, ST_BOOK_ALSO };

/* The counters of one rank of a communicator. */
struct st_book {
    struct st_book *next;
    uint64_t key;    /* identifies the communicator, the same on all its ranks; 0: unknown */
    uint64_t opened; /* in ns since 1970; no other book of this process has the same */
    pid_t pid;       /* the process that opened the book */
    int nccl, rank;
    _Atomic int ranks; /* how many ranks the communicator has; 0: not known yet */
    /* The first index is the collective. The second is b for calls of 2^b to 2^(b+1) - 1 bytes. The
     * third is who ran the call, and why (enum st_tally_why), or in ${also} what else is
     * counted. */
    _Atomic uint64_t calls[ST_BOOK_COLLS][ST_TALLY_SIZES][ST_WHYS];
    _Atomic uint64_t also[ST_BOOK_COLLS][ST_TALLY_SIZES][ST_BOOK_ALSO];
};

/* Open a book for a rank of a communicator. If SYMTUNER_LEDGER is not set, or if memory is short,
 * returns NULL, and nothing is counted. */
struct st_book *st_book_open(uint64_t key, int rank, int ranks, int nccl);
/* Append the book to the ledger. ${book} may be NULL or closed already. */
void st_book_close(struct st_book *book);

/* Write all open books of this process. libsymtuner.so calls this when the signal of
 * SYMTUNER_LEDGER_SIGNAL arrives; it finds the function by dlsym. */
__attribute__((visibility("default"))) void symtuner_nccl_ledger(void);

static inline int st_book_size(uint64_t bytes)
{
    int size = 63 - __builtin_clzll(bytes | 1);

    return size < ST_TALLY_SIZES ? size : ST_TALLY_SIZES - 1;
}

/* Count a call of this communicator. ${book} may be NULL. */
static inline void st_book_count(struct st_book *book, enum st_tally_coll coll,
                                 enum st_tally_why why, uint64_t bytes)
{
    if (book && (int)coll < ST_BOOK_COLLS)
        atomic_fetch_add_explicit(&book->calls[coll][st_book_size(bytes)][why], 1,
                                  memory_order_relaxed);
}

static inline void st_book_also(struct st_book *book, enum st_tally_coll coll,
                                enum st_book_also what, uint64_t bytes)
{
    if (book && (int)coll < ST_BOOK_COLLS)
        atomic_fetch_add_explicit(&book->also[coll][st_book_size(bytes)][what], 1,
                                  memory_order_relaxed);
}

/* Our kernels run an all-reduce of ${bytes} box by box, in ${pieces} pieces. Count what NCCL runs
 * of it: an all-reduce over the boxes for each piece, and one over all ranks for what remains after
 * the last piece. Each box has ${ranks} ranks. */
static inline void st_book_parts(struct st_book *book, uint64_t bytes, int ranks, int pieces)
{
    const struct st_cut cut = st_cut(bytes, ranks, pieces);

    for (int piece = 0; piece <= cut.pieces; piece++) {
        const uint64_t part =
            piece < cut.pieces ? st_cut_part(&cut, piece) : bytes - st_cut_start(&cut, piece);

        if (part)
            st_book_also(book, ST_TALLY_ALL_REDUCE, ST_BOOK_PARTS, part);
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - reads the ledgers that plugin and drop-in write (docs/ledger.md).
 *
 * A block of a ledger describes one communicator of one process, or, if the drop-in wrote it, one
 * rank of a communicator. Unknown lines and fields are skipped, because later versions of symtuner
 * may add some.
 *
 * Units: bytes are NCCL's nBytes. Ownership: st_ledgers_free frees what st_ledgers_read filled.
 * Errors: "file:line: what is wrong". A file that is not a ledger is an error, not an empty ledger.
 */
#ifndef ST_LEDGER_READ_H_
#define ST_LEDGER_READ_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a row counts. ASKED: how often NCCL asked the tuner. PICKED: how often an entry of the cost
 * table was the cheapest. RAN: calls and kernels that ran. OURS: calls that the drop-in sent to
 * symtuner's kernels. LEFT: calls that the drop-in left to NCCL. PARTS: all-reduces between boxes
 * that NCCL ran as parts of calls over several boxes; OURS counts the calls themselves. */
enum st_row_kind {
    ST_ROW_ASKED,
    ST_ROW_PICKED,
    ST_ROW_RAN,
    ST_ROW_OURS,
    ST_ROW_LEFT,
    ST_ROW_PARTS
};
/* The counters of a ST_ROW_RAN. CALLED: calls outside of CUDA graph capture. CAPTURED: calls inside
 * of it. GENERAL: general kernels. SYMMETRIC: symmetric kernels. CE: collectives that the copy
 * engine ran. */
enum {
    ST_COUNT_CALLED,
    ST_COUNT_CAPTURED,
    ST_COUNT_GENERAL,
    ST_COUNT_SYMMETRIC,
    ST_COUNT_CE,
    ST_COUNTS
};
/* The counters of a ST_ROW_OURS. CALLS: all calls. INTO_GRAPHS: those that CUDA graphs captured.
 * BOTH_WAYS: those that NCCL ran, too (SYMTUNER_VERIFY). */
enum { ST_OURS_CALLS, ST_OURS_INTO_GRAPHS, ST_OURS_BOTH_WAYS, ST_OURS_COUNTS };

struct st_ledger_row {
    enum st_row_kind kind;
    int coll;                  /* NCCL's number of the collective         */
    uint64_t lo, hi;           /* sizes from lo to hi bytes               */
    int registered;            /* only in ST_ROW_ASKED: 1 yes, 0 no       */
    char verdict[16];          /* ASKED: the tuner's answer; LEFT: the reason */
    char algo[16], proto[16];  /* only in ST_ROW_PICKED                   */
    uint64_t count[ST_COUNTS]; /* only ST_ROW_RAN and ST_ROW_OURS use more than count[0] */
};

/* The members from id to host are the fields of the "comm" line (docs/ledger.md). */
struct st_ledger_block {
    const char *file;
    int line; /* where the block begins */
    uint64_t id, rules, opened;
    int ranks, nodes, local, sym_ctas, pid;
    bool dropin; /* the drop-in wrote the block; then ${id} is not NCCL's */
    char nccl[16], mode[16], from[32], host[72];
    struct st_ledger_row *row;
    int rows;
};

struct st_ledgers {
    struct st_ledger_block *block;
    int blocks;
    int files, bad; /* how many files were read; how many were not readable or no ledgers */
};

/* Add the blocks of ${path} to ${ledgers}, up to the first error. The plugin never resets counters,
 * so a later block of the same process and communicator contains the counts of the earlier one, and
 * replaces it. Returns false, with ${error} set, after an error. */
bool st_ledgers_read(struct st_ledgers *ledgers, const char *path, char *error, size_t size);

/* Read all files of ${paths}, an array that ends with NULL. A file that is not a ledger is reported
 * on stderr, and the other files are read. Returns false if no file has a block. */
bool st_ledgers_read_all(struct st_ledgers *ledgers, char **paths);
void st_ledgers_free(struct st_ledgers *ledgers);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - reads the ledgers that the plugin writes (docs/ledger.md).
 *
 * A block is one communicator of one process. Unknown lines and fields are skipped: later versions
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

enum st_row_kind { ST_ROW_ASKED, ST_ROW_PICKED, ST_ROW_RAN };
enum {
    ST_COUNT_CALLED,
    ST_COUNT_CAPTURED,
    ST_COUNT_GENERAL,
    ST_COUNT_SYMMETRIC,
    ST_COUNT_CE,
    ST_COUNTS
};

struct st_ledger_row {
    enum st_row_kind kind;
    int coll;                  /* NCCL's number                           */
    uint64_t lo, hi;           /* bytes                                   */
    int registered;            /* of ST_ROW_ASKED                         */
    char verdict[16];          /* of ST_ROW_ASKED                         */
    char algo[16], proto[16];  /* of ST_ROW_PICKED                        */
    uint64_t count[ST_COUNTS]; /* only ST_ROW_RAN uses more than count[0] */
};

struct st_ledger_block {
    const char *file;
    int line;
    uint64_t id, rules;
    int ranks, nodes, local, sym_ctas, pid;
    char nccl[16], mode[16], from[32], host[64];
    struct st_ledger_row *row;
    int rows;
};

struct st_ledgers {
    struct st_ledger_block *block;
    int blocks;
};

/* Add the blocks of ${path}, up to the first error. A block replaces an earlier one of the same
 * process and communicator, because counters are never reset. Communicator id 0 means that there is
 * no id; such a block replaces nothing. */
bool st_ledgers_read(struct st_ledgers *ledgers, const char *path, char *error, size_t size);
void st_ledgers_free(struct st_ledgers *ledgers);

#endif

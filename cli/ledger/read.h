/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - ledgers as the plugin wrote them (docs/ledger.md).
 *
 * A block is one communicator of one process. Lines and fields that are not known are skipped, as
 * the format promises to add some.
 *
 * Units      bytes are NCCL's nBytes. Ownership  st_ledgers_free frees what st_ledgers_read filled.
 * Errors     "file:line: what is wrong"; a text that is not a ledger is an error, not an empty one.
 */
#ifndef ST_LEDGER_READ_H_
#define ST_LEDGER_READ_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum st_row_kind { ST_ROW_ASKED, ST_ROW_PICKED, ST_ROW_RAN };
enum { ST_COUNT_CALLED, ST_COUNT_CAPTURED, ST_COUNT_GENERAL, ST_COUNT_SYMMETRIC, ST_COUNT_CE,
       ST_COUNTS };

struct st_ledger_row {
    enum st_row_kind kind;
    int coll;              /* NCCL's number                               */
    uint64_t lo, hi;       /* bytes                                       */
    int registered;        /* asked                                       */
    char verdict[16];      /* asked                                       */
    char algo[16], proto[16]; /* picked                                   */
    uint64_t count[ST_COUNTS]; /* asked and picked use the first only     */
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

/* Add the blocks of ${path}; of a file with an error those that are complete before it. A block
 * that repeats a communicator of the same process replaces the earlier one, for counters are never
 * reset (communicator id 0 is no identity and never does). */
bool st_ledgers_read(struct st_ledgers *ledgers, const char *path, char *error, size_t size);
void st_ledgers_free(struct st_ledgers *ledgers);

#endif

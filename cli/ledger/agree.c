/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c - symtuner agree LEDGER...: compares the ledgers (docs/ledger.md) of the ranks of each
 * communicator, and prints the first difference. */
#include <inttypes.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/ledger/read.h"
#include "cli/options.h"
#include "cli/text.h"
#include "symtuner.h"

struct difference {
    const struct st_ledger_block *one, *other;
    char what[40], one_has[64], other_has[64];
};

static bool numbers_differ(struct difference *d, const char *what, bool hex, uint64_t a, uint64_t b)
{
    if (a == b)
        return false;
    snprintf(d->what, sizeof d->what, "%s", what);
    snprintf(d->one_has, sizeof d->one_has, hex ? "0x%" PRIx64 : "%" PRIu64, a);
    snprintf(d->other_has, sizeof d->other_has, hex ? "0x%" PRIx64 : "%" PRIu64, b);
    return true;
}

static bool texts_differ(struct difference *d, const char *what, const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return false;
    snprintf(d->what, sizeof d->what, "%s", what);
    snprintf(d->one_has, sizeof d->one_has, "%.60s", a);
    snprintf(d->other_has, sizeof d->other_has, "%.60s", b);
    return true;
}

/* Compare releases, rules and settings. The hash of the rules does not cover the built-in defaults.
 * So compare sym_ctas as well, the CTA count that came from rules or defaults. */
static bool setups_differ(struct difference *d)
{
    const struct st_ledger_block *a = d->one, *b = d->other;

    return texts_differ(d, "NCCL release", a->nccl, b->nccl) ||
           numbers_differ(d, "rules hash", true, a->rules, b->rules) ||
           texts_differ(d, "SYMTUNER_MODE", a->mode, b->mode) ||
           numbers_differ(d, "symmetric CTAs", false, (uint64_t)a->sym_ctas,
                          (uint64_t)b->sym_ctas) ||
           numbers_differ(d, "ranks", false, (uint64_t)a->ranks, (uint64_t)b->ranks) ||
           numbers_differ(d, "nodes", false, (uint64_t)a->nodes, (uint64_t)b->nodes);
}

static bool same_cell(const struct st_ledger_row *a, const struct st_ledger_row *b)
{
    return a->kind == b->kind && a->coll == b->coll && a->lo == b->lo &&
           a->registered == b->registered && strcmp(a->verdict, b->verdict) == 0 &&
           strcmp(a->algo, b->algo) == 0 && strcmp(a->proto, b->proto) == 0;
}

/* Return the counters of the row of ${block} that counts the same kind of calls as ${row}, or zeros
 * if there is no such row. */
static const uint64_t *counters(const struct st_ledger_block *block,
                                const struct st_ledger_row *row)
{
    static const uint64_t none[ST_COUNTS];

    for (int i = 0; i < block->rows; i++)
        if (same_cell(&block->row[i], row))
            return block->row[i].count;
    return none;
}

/* Compare the counts of one row. A block holds the sums of all ranks of its process, so divide by
 * the number of these ranks. */
static bool row_differs(struct difference *d, const struct st_ledger_row *row)
{
    static const char *const ran[] = {"calls", "captured calls", "general kernels",
                                      "symmetric kernels", "copy-engine calls"};
    const uint64_t *a = counters(d->one, row), *b = counters(d->other, row);
    uint64_t x = (uint64_t)(d->one->local ? d->one->local : 1);
    uint64_t y = (uint64_t)(d->other->local ? d->other->local : 1);

    /* Skip rows of two kinds. ST_ROW_LEFT counts why calls were left to NCCL, and the reason may
     * differ between ranks. ST_ROW_PARTS counts parts of calls, and follows from rows that we
     * compare. */
    if (row->kind == ST_ROW_LEFT || row->kind == ST_ROW_PARTS)
        return false;
    for (int i = 0; i < (row->kind == ST_ROW_RAN ? ST_COUNTS : 1); i++) {
        char low[ST_TEXT_SIZE];
        char detail[40] = "";

        if ((double)a[i] * (double)y == (double)b[i] * (double)x)
            continue;
        if (row->kind == ST_ROW_ASKED)
            snprintf(detail, sizeof detail, "verdict %s", row->verdict);
        else if (row->kind == ST_ROW_PICKED)
            snprintf(detail, sizeof detail, "%s/%s", row->algo, row->proto);
        else if (row->kind == ST_ROW_OURS)
            snprintf(detail, sizeof detail, "our kernels");
        else
            snprintf(detail, sizeof detail, "%s", ran[i]);
        snprintf(d->what, sizeof d->what, "%s from %s", symtuner_coll_name(row->coll),
                 st_text_size(row->lo, low));
        snprintf(d->one_has, sizeof d->one_has, "%s %" PRIu64 " times", detail, a[i] / x);
        snprintf(d->other_has, sizeof d->other_has, "%s %" PRIu64 " times", detail, b[i] / y);
        return true;
    }
    return false;
}

static bool decisions_differ(struct difference *d)
{
    for (int side = 0; side < 2; side++) {
        const struct st_ledger_block *block = side ? d->other : d->one;

        for (int i = 0; i < block->rows; i++)
            if (row_differs(d, &block->row[i]))
                return true;
    }
    return false;
}

/* Do both blocks belong to one communicator, and did the same library write them? NCCL 2.27 gives
 * communicators no id. Blocks without ids count as blocks of one communicator if they have the same
 * number of ranks. */
static bool together(const struct st_ledger_block *a, const struct st_ledger_block *b)
{
    return a->id == b->id && a->dropin == b->dropin && (a->id || a->ranks == b->ranks);
}

struct report {
    struct st_ledgers ledgers;
    bool as_json, setup;
    struct st_json json;
    int communicators[2]; /* [0]: in blocks of the plugin; [1]: in blocks of the drop-in */
    int differing, incomplete;
};

/* Return what to print behind the id of a communicator. The drop-in writes ids of its own, which
 * are not NCCL's. */
static const char *whose(const struct st_ledger_block *block)
{
    return block->dropin ? " of the drop-in" : "";
}

static void print_difference(struct report *report, const struct difference *d)
{
    struct st_json *json = &report->json;
    FILE *out = stdout;

    if (report->as_json) {
        st_json_open(json, NULL, "\n {");
        st_json_format(json, "id", "\"0x%" PRIx64 "\"", d->one->id);
        if (d->one->dropin)
            st_json_bool(json, "dropin", true);
        st_json_text(json, "what", d->what);
        st_json_text(json, "file", d->one->file);
        st_json_text(json, "has", d->one_has);
        st_json_text(json, "other_file", d->other->file);
        st_json_text(json, "other_has", d->other_has);
        st_json_close(json);
        return;
    }
    fprintf(out, "communicator 0x%" PRIx64 "%s differs first in: %s\n", d->one->id, whose(d->one),
            d->what);
    fprintf(out, "  %s:%d (%s, process %d): %s\n", d->one->file, d->one->line, d->one->host,
            d->one->pid, d->one_has);
    fprintf(out, "  %s:%d (%s, process %d): %s\n", d->other->file, d->other->line, d->other->host,
            d->other->pid, d->other_has);
}

/* Compare block ${first} with all later blocks of its communicator. */
static void compare(const struct st_ledgers *ledgers, int first, struct report *report)
{
    const struct st_ledger_block *block = ledgers->block;
    struct difference d = {.one = &block[first]};
    int seen = 0;
    bool found = false;

    for (int i = 0; i < first; i++)
        if (together(&block[i], &block[first]))
            return; /* this communicator was compared before */
    report->communicators[block[first].dropin]++;
    for (int pass = 0; pass < 2 && !found; pass++) {
        seen = block[first].local;
        for (int i = first + 1; i < ledgers->blocks && !found; i++) {
            if (!together(&block[i], &block[first]))
                continue;
            seen += block[i].local;
            d.other = &block[i];
            if (pass == 0)
                found = setups_differ(&d);
            else if (!report->setup && block[first].id)
                found = decisions_differ(&d);
        }
    }
    if (found) {
        report->differing++;
        print_difference(report, &d);
    } else if (seen < block[first].ranks) {
        report->incomplete++;
        if (!report->as_json)
            printf("communicator 0x%" PRIx64 "%s: ledgers of %d of its %d ranks were given\n",
                   block[first].id, whose(&block[first]), seen, block[first].ranks);
    }
}

#define AT(member) offsetof(struct report, member)
static const struct st_option rows[] = {
    {"setup", NULL,
     "compare only releases, rules and settings; for ledgers that a signal made the ranks write, "
     "because these have counters of different moments",
     ST_OPTION_FLAG, .at = AT(setup)},
    {"json", NULL, "for programs", ST_OPTION_FLAG, .at = AT(as_json)},
};
static const struct st_command_line line = {
    .command = "agree",
    .usage = "[options] LEDGER...\n",
    .about = "Compare the ledgers of the ranks of each communicator. Ranks that decide differently "
             "hang, so\nall must have the same NCCL release, rules, mode, CTA count and decisions. "
             "Prints the first\ndifference of each communicator, or \"agree\".\n",
    .after =
        "Exit 0: all agree. 1: some differ. 2: a file is no ledger; it is named, the others are "
        "compared.\nexample: symtuner agree rank*.ledger\n",
    ST_OPTIONS(rows),
    .least_words = 1,
    .most_words = ST_ANY_WORDS};

int st_cmd_agree(int argc, char **argv)
{
    struct report report = {.json.out = stdout};
    struct st_ledgers *ledgers = &report.ledgers;
    struct st_json *json = &report.json;
    int status = st_line_read(&line, argc, argv, &report), communicators;

    if (status >= 0)
        return status;
    if (!st_ledgers_read_all(ledgers, argv + 1))
        return ST_EXIT_USAGE;
    if (report.as_json) {
        st_json_open(json, NULL, "{");
        st_json_open(json, "differences", "[");
    }
    for (int b = 0; b < ledgers->blocks; b++)
        compare(ledgers, b, &report);
    /* Plugin and drop-in may both have counted the same communicator, so do not add the two
     * numbers: take the larger one. */
    communicators = report.communicators[0] > report.communicators[1] ? report.communicators[0]
                                                                      : report.communicators[1];
    if (report.as_json) {
        st_json_close(json);
        st_json_int(json, "communicators", communicators);
        st_json_int(json, "incomplete", report.incomplete);
        st_json_int(json, "unread", ledgers->bad);
        st_json_bool(json, "agree", !report.differing && !ledgers->bad);
        st_json_close(json);
    } else if (report.differing == 0) {
        printf("%s: %d communicator%s, %d block%s of %d file%s\n",
               ledgers->bad ? "no difference among the others" : "agree", communicators,
               communicators == 1 ? "" : "s", ledgers->blocks, ledgers->blocks == 1 ? "" : "s",
               ledgers->files, ledgers->files == 1 ? "" : "s");
    }
    status = ledgers->bad ? ST_EXIT_USAGE : report.differing ? ST_EXIT_FINDINGS : ST_EXIT_FINE;
    st_ledgers_free(ledgers);
    return status;
}

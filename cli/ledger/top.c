/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - symtuner top LEDGER...: prints which collectives ran, added up over all ledgers
 * (docs/ledger.md). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/ledger/read.h"
#include "cli/options.h"
#include "cli/text.h"
#include "dropin/tally.h"
#include "symtuner.h"

enum { PICKS = SYMTUNER_ALGOS * SYMTUNER_PROTOS };

/* The sums for one collective and one range of sizes. */
struct sum {
    int coll;
    uint64_t lo, hi;
    uint64_t ran[ST_COUNTS];
    uint64_t asked[2];    /* how often NCCL asked: [0] not registered, [1] registered */
    uint64_t steered;     /* how often NCCL asked and a rule decided                  */
    /* [algorithm * SYMTUNER_PROTOS + protocol]: how often this entry of the cost table won */
    uint64_t pick[PICKS];
    bool seen; /* a ledger has a "ran" line for this collective and range */
    /* What the drop-in counted:
     *   ours[]   calls that it sent to symtuner's kernels (ST_OURS_...)
     *   twice    of these, the calls that NCCL ran as well (SYMTUNER_VERIFY); the plugin counted
     *            them, too
     *   parts    all-reduces that NCCL ran as parts of calls over several boxes; the plugin counted
     *            them, too
     *   left[0]  calls that it left to NCCL, in processes without the plugin
     *   left[1]  calls that it left to NCCL, in processes with the plugin, which should have
     *            counted them, too */
    uint64_t ours[ST_OURS_COUNTS], twice, parts, left[2];
};

struct sums {
    struct sum *sum;
    int count;
    /* [reason]: calls that the drop-in left to NCCL for this reason; [ST_WHYS]: unknown reasons */
    uint64_t why[ST_WHYS + 1];
};

static struct sum *find(struct sums *sums, const struct st_ledger_row *row)
{
    struct sum *more;

    for (int i = 0; i < sums->count; i++)
        if (sums->sum[i].coll == row->coll && sums->sum[i].lo == row->lo &&
            sums->sum[i].hi == row->hi)
            return &sums->sum[i];
    more = realloc(sums->sum, (size_t)(sums->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    sums->sum = more;
    more += sums->count++;
    *more = (struct sum){.coll = row->coll, .lo = row->lo, .hi = row->hi};
    return more;
}

/* Did the plugin, too, write a block for the process of the drop-in's ${block}? If so, it has
 * counted the calls of this process that went to NCCL. */
static bool has_plugin(const struct st_ledgers *ledgers, const struct st_ledger_block *block)
{
    for (int i = 0; block->dropin && i < ledgers->blocks; i++)
        if (!ledgers->block[i].dropin && ledgers->block[i].pid == block->pid &&
            strcmp(ledgers->block[i].host, block->host) == 0)
            return true;
    return false;
}

static void add(struct sums *sums, const struct st_ledger_row *row, bool with_plugin)
{
    struct sum *sum = find(sums, row);
    int algo, proto, why;

    if (!sum)
        return;
    switch (row->kind) {
    case ST_ROW_RAN:
        for (int i = 0; i < ST_COUNTS; i++)
            sum->ran[i] += row->count[i];
        sum->seen = true;
        break;
    case ST_ROW_ASKED:
        sum->asked[row->registered] += row->count[0];
        if (strcmp(row->verdict, "general") == 0 || strcmp(row->verdict, "symmetric") == 0 ||
            strcmp(row->verdict, "limited") == 0)
            sum->steered += row->count[0];
        break;
    case ST_ROW_PICKED:
        algo = symtuner_algo_parse(row->algo);
        proto = symtuner_proto_parse(row->proto);
        if (algo >= 0 && proto >= 0)
            sum->pick[algo * SYMTUNER_PROTOS + proto] += row->count[0];
        break;
    case ST_ROW_OURS:
        for (int i = 0; i < ST_OURS_COUNTS; i++)
            sum->ours[i] += row->count[i];
        sum->twice += with_plugin ? row->count[ST_OURS_BOTH_WAYS] : 0;
        break;
    case ST_ROW_PARTS:
        sum->parts += with_plugin ? row->count[0] : 0;
        break;
    case ST_ROW_LEFT:
        why = st_tally_why_parse(row->verdict);
        sums->why[why >= 0 ? why : ST_WHYS] += row->count[0];
        sum->left[with_plugin] += row->count[0];
        break;
    }
}

/* Return ${all} minus ${some}, but at least 0. Plugin and drop-in may have written their counters
 * at different moments, so ${some} may be more than ${all}. */
static uint64_t less(uint64_t all, uint64_t some)
{
    return all - (some < all ? some : all);
}

static uint64_t calls(const struct sum *sum)
{
    uint64_t ran = sum->ran[ST_COUNT_CALLED] + sum->ran[ST_COUNT_CAPTURED];
    uint64_t by_nccl = sum->seen && ran ? ran : sum->asked[0] + sum->asked[1];

    by_nccl = less(by_nccl, sum->twice + sum->parts);
    /* ${asked} may be too small, because NCCL asks the tuner about some calls only */
    if (ran == 0 && sum->left[1] > by_nccl)
        by_nccl = sum->left[1];
    return sum->ours[ST_OURS_CALLS] + by_nccl + sum->left[0];
}

static int by_size(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;

    if (x->coll != y->coll)
        return y->coll - x->coll; /* all-reduce has the highest number, and comes first */
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static int by_calls(const void *a, const void *b)
{
    uint64_t x = calls(a), y = calls(b);

    return x != y ? (x < y) - (x > y) : by_size(a, b);
}

static int by_bytes(const void *a, const void *b)
{
    double x = (double)calls(a) * (double)((const struct sum *)a)->hi;
    double y = (double)calls(b) * (double)((const struct sum *)b)->hi;

    return x < y || x > y ? (x < y) - (x > y) : by_size(a, b);
}

/* Fill ${text} with the three entries of the cost table that NCCL picked most often: "ring/ll 90%,
 * tree/ll 10%". */
static void picks_text(const struct sum *sum, char *text, size_t size)
{
    uint64_t total = 0, left[PICKS];
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < PICKS; i++)
        total += left[i] = sum->pick[i];
    for (int n = 0; n < 3; n++) {
        int best = 0;

        for (int i = 1; i < PICKS; i++)
            if (left[i] > left[best])
                best = i;
        if (left[best] == 0)
            break;
        at = st_text_add(text, size, at, "%s%s/%s %.0f%%", n ? ", " : "",
                         symtuner_algo_name(best / SYMTUNER_PROTOS),
                         symtuner_proto_name(best % SYMTUNER_PROTOS),
                         100.0 * (double)left[best] / (double)total);
        left[best] = 0;
    }
}

static void share(char *text, size_t size, uint64_t part, uint64_t whole)
{
    if (whole == 0)
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%.0f%%", 100.0 * (double)part / (double)whole);
}

static void print_block(const struct st_ledger_block *block, FILE *out)
{
    char line[256];
    size_t at;

    at = st_text_add(line, sizeof line, 0, "communicator 0x%" PRIx64 "%s: %d rank%s", block->id,
                     block->dropin ? " of the drop-in" : "", block->ranks,
                     block->ranks == 1 ? "" : "s");
    if (!block->dropin)
        at = st_text_add(line, sizeof line, at, " on %d node%s", block->nodes,
                         block->nodes == 1 ? "" : "s");
    at = st_text_add(line, sizeof line, at, ", NCCL %s", block->nccl);
    if (!block->dropin)
        at = st_text_add(line, sizeof line, at, ", rules 0x%" PRIx64, block->rules);
    at = st_text_add(line, sizeof line, at, ", mode %s", block->mode);
    if (block->sym_ctas)
        st_text_add(line, sizeof line, at, ", %d CTAs (%s)", block->sym_ctas, block->from);
    st_text_wrap(out, 0, line);
}

/* Print a line for each block of the plugin, and one for each communicator of the drop-in, which
 * writes a block for each rank. Returns whether there are blocks of the drop-in. */
static bool print_blocks(const struct st_ledgers *ledgers, FILE *out)
{
    enum { SHOWN = 8 };
    int lines = 0;
    bool dropin = false;

    for (int i = 0; i < ledgers->blocks; i++) {
        const struct st_ledger_block *block = &ledgers->block[i];
        bool again = false;

        for (int k = 0; k < i && block->dropin && block->id; k++)
            again |= ledgers->block[k].dropin && ledgers->block[k].id == block->id;
        dropin |= block->dropin;
        if (!again && lines++ < SHOWN)
            print_block(block, out);
    }
    if (lines > SHOWN)
        fprintf(out, "and %d more\n", lines - SHOWN);
    return dropin;
}

static void print_row(const struct sum *sum, bool dropin, FILE *out)
{
    const uint64_t *ran = sum->ran;
    uint64_t general = less(ran[ST_COUNT_GENERAL], sum->parts);
    uint64_t known = general + ran[ST_COUNT_SYMMETRIC] + ran[ST_COUNT_CE];
    uint64_t whole = sum->ours[ST_OURS_CALLS] + (known ? known : sum->left[1]) + sum->left[0];
    char low[ST_TEXT_SIZE], high[ST_TEXT_SIZE], range[64], picks[64];
    char part[4][8], reg[8];

    snprintf(range, sizeof range, "%s .. %s", st_text_size(sum->lo, low),
             st_text_size(sum->hi + 1, high));
    share(part[0], sizeof part[0], ran[ST_COUNT_SYMMETRIC], known ? whole : 0);
    share(part[1], sizeof part[1], general, known ? whole : 0);
    share(part[2], sizeof part[2], ran[ST_COUNT_CE], known ? whole : 0);
    share(part[3], sizeof part[3], sum->ours[ST_OURS_CALLS], whole);
    share(reg, sizeof reg, sum->asked[1], sum->asked[0] + sum->asked[1]);
    picks_text(sum, picks, sizeof picks);
    if (strlen(picks) > 16 && strchr(picks, ','))
        *strchr(picks, ',') = '\0'; /* too long for the line: keep only the first entry */
    if (dropin)
        fprintf(out, "%-13s %-18s %7" PRIu64 " %5s %9s %8s %5s %10s  %s\n",
                symtuner_coll_name(sum->coll), range, calls(sum), part[3], part[0], part[1],
                part[2], reg, picks);
    else
        fprintf(out, "%-13s %-20s %9" PRIu64 " %9s %8s %5s %10s  %s\n",
                symtuner_coll_name(sum->coll), range, calls(sum), part[0], part[1], part[2], reg,
                picks);
}

/* Print the reasons why the drop-in left calls to NCCL, the most frequent first. */
static void print_whys(const struct sums *sums, FILE *out)
{
    uint64_t left[ST_WHYS + 1];

    memcpy(left, sums->why, sizeof left);
    for (;;) {
        int most = 0;

        for (int why = 1; why <= ST_WHYS; why++)
            if (left[why] > left[most])
                most = why;
        if (left[most] == 0)
            return;
        fprintf(out, "  %" PRIu64 " call%s: %s\n", left[most], left[most] == 1 ? "" : "s",
                most < ST_WHYS ? st_tally_why_text(most)
                               : "a reason that this version of symtuner does not know");
        left[most] = 0;
    }
}

static void print_text(const struct st_ledgers *ledgers, const struct sums *sums, FILE *out)
{
    bool dropin = print_blocks(ledgers, out), left = false;
    uint64_t parts = 0;

    if (dropin)
        fprintf(out, "\n%-13s %-18s %7s %5s %9s %8s %5s %10s  %s\n", "collective", "bytes", "calls",
                "ours", "symmetric", "general", "ce", "registered", "cheapest general");
    else
        fprintf(out, "\n%-13s %-20s %9s %9s %8s %5s %10s  %s\n", "collective", "bytes", "calls",
                "symmetric", "general", "ce", "registered", "cheapest general");
    for (int i = 0; i < sums->count; i++)
        print_row(&sums->sum[i], dropin, out);
    fputs("\nregistered: the share of registered calls among those that NCCL asked the tuner "
          "about; NCCL does\nnot ask about calls that run on symmetric kernels anyway. A dash: "
          "nobody counted; \"ran\" lines\nneed the profiler interface.\n",
          out);
    if (dropin)
        fputs("ours: the share that the drop-in sent to our kernels. It left to NCCL:", out);
    for (int why = 0; why <= ST_WHYS; why++)
        left |= sums->why[why] > 0;
    if (dropin)
        fputs(left ? "\n" : " nothing.\n", out);
    print_whys(sums, out);
    for (int i = 0; i < sums->count; i++)
        parts += sums->sum[i].parts;
    if (parts)
        fprintf(out,
                "NCCL also ran %" PRIu64 " part%s of calls over several boxes. The table counts "
                "these calls, not their parts.\n",
                parts, parts == 1 ? "" : "s");
}

static void json_count(struct st_json *json, const char *key, uint64_t count)
{
    st_json_format(json, key, "%" PRIu64, count);
}

static void print_json(const struct st_ledgers *ledgers, const struct sums *sums, FILE *out)
{
    static const char *const ran[ST_COUNTS] = {"called", "captured", "general", "symmetric", "ce"};
    struct st_json json = {.out = out};
    char word[ST_TALLY_WORD];

    st_json_open(&json, NULL, "{");
    st_json_open(&json, "communicators", "[");
    for (int i = 0; i < ledgers->blocks; i++) {
        const struct st_ledger_block *block = &ledgers->block[i];

        st_json_open(&json, NULL, "\n {");
        st_json_format(&json, "id", "\"0x%" PRIx64 "\"", block->id);
        st_json_int(&json, "ranks", block->ranks);
        st_json_int(&json, "nodes", block->nodes);
        st_json_int(&json, "local", block->local);
        st_json_format(&json, "rules", "\"0x%" PRIx64 "\"", block->rules);
        st_json_int(&json, "sym_ctas", block->sym_ctas);
        st_json_text(&json, "nccl", block->nccl);
        st_json_text(&json, "mode", block->mode);
        st_json_text(&json, "from", block->from);
        st_json_text(&json, "host", block->host);
        st_json_int(&json, "pid", block->pid);
        if (block->dropin)
            st_json_bool(&json, "dropin", true);
        st_json_close(&json);
    }
    st_json_close(&json);
    st_json_open(&json, "rows", "\n[");
    for (int i = 0; i < sums->count; i++) {
        const struct sum *sum = &sums->sum[i];

        st_json_open(&json, NULL, "\n {");
        st_json_text(&json, "coll", symtuner_coll_name(sum->coll));
        json_count(&json, "low", sum->lo);
        json_count(&json, "high", sum->hi);
        for (int c = 0; c < ST_COUNTS; c++)
            json_count(&json, ran[c], sum->ran[c]);
        json_count(&json, "asked", sum->asked[0] + sum->asked[1]);
        json_count(&json, "asked_registered", sum->asked[1]);
        json_count(&json, "steered", sum->steered);
        json_count(&json, "ours", sum->ours[ST_OURS_CALLS]);
        json_count(&json, "ours_captured", sum->ours[ST_OURS_INTO_GRAPHS]);
        json_count(&json, "ours_verified", sum->ours[ST_OURS_BOTH_WAYS]);
        json_count(&json, "parts", sum->parts);
        json_count(&json, "left", sum->left[0] + sum->left[1]);
        st_json_open(&json, "picked", "{");
        for (int p = 0; p < PICKS; p++) {
            char pick[32];

            snprintf(pick, sizeof pick, "%s/%s", symtuner_algo_name(p / SYMTUNER_PROTOS),
                     symtuner_proto_name(p % SYMTUNER_PROTOS));
            if (sum->pick[p])
                json_count(&json, pick, sum->pick[p]);
        }
        st_json_close(&json);
        st_json_close(&json);
    }
    st_json_close(&json);
    st_json_open(&json, "left", "\n{");
    for (int why = 0; why <= ST_WHYS; why++)
        if (sums->why[why])
            json_count(&json, why < ST_WHYS ? st_tally_why_word(why, word) : "unknown",
                       sums->why[why]);
    st_json_close(&json);
    st_json_close(&json);
}

struct request {
    bool json;
    int sort;
};

#define AT(member) offsetof(struct request, member)
static const struct st_option rows[] = {
    {"sort", "bytes|calls|size",
     "most bytes first, most calls first, or by collective and size (bytes)", ST_OPTION_CHOICE,
     .at = AT(sort)},
    {"json", NULL, "for programs", ST_OPTION_FLAG, .at = AT(json)},
};
static const struct st_command_line line = {
    .command = "top",
    .usage = "[options] LEDGER...\n",
    .about =
        "Add up the ledgers of all processes (SYMTUNER_LEDGER, docs/ledger.md). Say which "
        "collectives\nran, with which sizes (of the whole call, NCCL's nBytes), on which kernels, "
        "and whether buffers\nwere registered. If the drop-in counted, too, say which calls ran on "
        "our kernels, and why the\nothers did not.\n",
    .after = "Exit 0: fine. 2: a file is no ledger; it is named, the others are added up.\n"
             "example: symtuner top /tmp/symtuner.*\n",
    ST_OPTIONS(rows),
    .least_words = 1,
    .most_words = ST_ANY_WORDS};

int st_cmd_top(int argc, char **argv)
{
    static int (*const order[])(const void *, const void *) = {by_bytes, by_calls, by_size};
    struct request request = {.sort = 0};
    struct sums sums = {.count = 0};
    struct st_ledgers ledgers = {.blocks = 0};
    int status = st_line_read(&line, argc, argv, &request);

    if (status >= 0)
        return status;
    if (!st_ledgers_read_all(&ledgers, argv + 1))
        return ST_EXIT_USAGE;
    for (int b = 0; b < ledgers.blocks; b++) {
        bool with_plugin = has_plugin(&ledgers, &ledgers.block[b]);

        for (int r = 0; r < ledgers.block[b].rows; r++)
            add(&sums, &ledgers.block[b].row[r], with_plugin);
    }
    if (sums.count)
        qsort(sums.sum, (size_t)sums.count, sizeof *sums.sum, order[request.sort]);
    (request.json ? print_json : print_text)(&ledgers, &sums, stdout);
    status = ledgers.bad ? ST_EXIT_USAGE : ST_EXIT_FINE;
    free(sums.sum);
    st_ledgers_free(&ledgers);
    return status;
}

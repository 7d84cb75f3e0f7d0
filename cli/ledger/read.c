/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ledger/read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symtuner.h"

static const char first_line[] = "# symtuner ledger 1";

struct reader {
    struct st_ledgers *ledgers;
    struct st_ledger_block *open; /* the block that is being read, or NULL */
    const char *path;
    int line;
    bool begun;                   /* a block has started in this file      */
    char *error;
    size_t size;
};

static bool wrong(struct reader *reader, const char *what, const char *word)
{
    snprintf(reader->error, reader->size, "%s:%d: %s \"%.60s\"", reader->path, reader->line, what,
             word);
    return false;
}

static bool to_number(const char *text, int base, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, base);
    return end != text && *end == '\0' && errno == 0 && text[0] != '-' && text[0] != '+';
}

static bool to_int(const char *text, int *out)
{
    uint64_t number;

    if (!to_number(text, 10, &number) || number > 1 << 30)
        return false;
    *out = (int)number;
    return true;
}

static bool to_text(const char *text, char *out, size_t size)
{
    return (size_t)snprintf(out, size, "%s", text) < size;
}

static bool to_bytes(const char *text, struct st_ledger_row *row)
{
    char low[24];
    const char *dots = strstr(text, "..");

    if (!dots || (size_t)(dots - text) >= sizeof low)
        return false;
    memcpy(low, text, (size_t)(dots - text));
    low[dots - text] = '\0';
    return to_number(low, 10, &row->lo) && to_number(dots + 2, 10, &row->hi) && row->lo <= row->hi;
}

static bool comm_field(struct st_ledger_block *block, const char *name, const char *value)
{
    static const char *const known[] = {"id",    "ranks",  "nodes", "local",    "nccl",
                                        "rules", "mode",   "from",  "sym-ctas", "host",
                                        "pid",   "opened", "writer"};
    enum { KNOWN = sizeof known / sizeof *known };
    int which = 0;

    while (which < KNOWN && strcmp(known[which], name) != 0)
        which++;
    switch (which) {
    case 0: return to_number(value, 16, &block->id);
    case 1: return to_int(value, &block->ranks) && block->ranks > 0;
    case 2: return to_int(value, &block->nodes);
    case 3: return to_int(value, &block->local);
    case 4: return to_text(value, block->nccl, sizeof block->nccl);
    case 5: return to_number(value, 16, &block->rules);
    case 6: return to_text(value, block->mode, sizeof block->mode);
    case 7: return to_text(value, block->from, sizeof block->from);
    case 8: return to_int(value, &block->sym_ctas);
    case 9: return to_text(value, block->host, sizeof block->host);
    case 10: return to_int(value, &block->pid);
    case 11: return to_number(value, 10, &block->opened);
    case 12:
        block->dropin = strcmp(value, "drop-in") == 0;
        return true;
    default: return true;
    }
}

static bool row_field(struct st_ledger_row *row, const char *name, const char *value)
{
    static const char *const counter[] = {"called", "captured", "general", "symmetric", "ce"};
    static const char *const of_ours[ST_OURS_COUNTS] = {"count", "captured", "verified"};

    if (strcmp(name, "coll") == 0)
        return (row->coll = symtuner_coll_parse(value)) >= 0;
    if (strcmp(name, "bytes") == 0)
        return to_bytes(value, row);
    if (strcmp(name, "registered") == 0)
        return to_int(value, &row->registered) && row->registered <= 1;
    if (strcmp(name, "verdict") == 0 || (strcmp(name, "why") == 0 && row->kind == ST_ROW_LEFT))
        return to_text(value, row->verdict, sizeof row->verdict);
    if (strcmp(name, "algo") == 0)
        return to_text(value, row->algo, sizeof row->algo);
    if (strcmp(name, "proto") == 0)
        return to_text(value, row->proto, sizeof row->proto);
    if (strcmp(name, "count") == 0)
        return to_number(value, 10, &row->count[0]);
    for (int i = 0; i < ST_COUNTS && row->kind == ST_ROW_RAN; i++)
        if (strcmp(name, counter[i]) == 0)
            return to_number(value, 10, &row->count[i]);
    for (int i = 0; i < ST_OURS_COUNTS && row->kind == ST_ROW_OURS; i++)
        if (strcmp(name, of_ours[i]) == 0)
            return to_number(value, 10, &row->count[i]);
    return true;
}

/* Cut the next "name=value" off ${rest}. ${value} becomes NULL if there is no "=". Returns false at
 * the end of the line. */
static bool next_field(char **rest, char **name, char **value)
{
    *name = strtok_r(NULL, " \t\r", rest);
    if (!*name)
        return false;
    *value = strchr(*name, '=');
    if (*value)
        *(*value)++ = '\0';
    return true;
}

static bool start_block(struct reader *reader)
{
    struct st_ledgers *ledgers = reader->ledgers;
    struct st_ledger_block *more;

    if (reader->open)
        return wrong(reader, "a block starts before the last one ended with", "end");
    more = realloc(ledgers->block, (size_t)(ledgers->blocks + 1) * sizeof *more);
    if (!more)
        return wrong(reader, "out of memory at", first_line);
    ledgers->block = more;
    reader->begun = true;
    reader->open = &more[ledgers->blocks++];
    *reader->open = (struct st_ledger_block){.file = reader->path, .line = reader->line};
    return true;
}

/* Are both blocks from the same process and the same communicator? Processes in several containers
 * can have the same host and pid, and NCCL 2.27 gives communicators no id. In such cases only
 * ${opened}, a time, tells the blocks apart. Ledgers of older plugins have no ${opened}; if such a
 * block has no id either, the answer is no. */
static bool same_counters(const struct st_ledger_block *a, const struct st_ledger_block *b)
{
    return a->id == b->id && (a->id || a->opened) && a->opened == b->opened && a->pid == b->pid &&
           a->dropin == b->dropin && strcmp(a->host, b->host) == 0;
}

static bool end_block(struct reader *reader)
{
    struct st_ledgers *ledgers = reader->ledgers;
    struct st_ledger_block *last = reader->open;

    if (!last || last->ranks == 0)
        return wrong(reader, "a block without a comm line ends at", "end");
    for (struct st_ledger_block *b = ledgers->block; b < last; b++)
        if (same_counters(b, last)) {
            free(b->row);
            *b = *last;
            ledgers->blocks--;
            break;
        }
    reader->open = NULL;
    return true;
}

static bool add_row(struct reader *reader, enum st_row_kind kind, char **rest)
{
    struct st_ledger_block *block = reader->open;
    struct st_ledger_row *row;
    char *name, *value;

    if (block->rows % 64 == 0) {
        row = realloc(block->row, (size_t)(block->rows + 64) * sizeof *row);
        if (!row)
            return wrong(reader, "out of memory at", "row");
        block->row = row;
    }
    row = &block->row[block->rows];
    *row = (struct st_ledger_row){.kind = kind, .coll = -1};
    while (next_field(rest, &name, &value))
        if (!value || !row_field(row, name, value))
            return wrong(reader, "wrong field", name);
    if (row->coll < 0 || row->hi == 0)
        return wrong(reader, "fields coll and bytes are missing in", "a line of counters");
    block->rows++;
    return true;
}

static bool read_line(struct reader *reader, char *line)
{
    static const char *const kind[] = {"asked", "picked", "ran", "ours", "left", "parts"};
    char *rest, *word, *name, *value;

    if (strncmp(line, first_line, sizeof first_line - 1) == 0 &&
        strspn(line + sizeof first_line - 1, " \t\r") == strlen(line + sizeof first_line - 1))
        return start_block(reader);
    if (line[0] == '#')
        return true;
    word = strtok_r(line, " \t\r", &rest);
    if (!word)
        return true;
    if (!reader->open)
        return wrong(reader, "not a ledger: expected \"# symtuner ledger 1\", not", word);
    if (strcmp(word, "end") == 0)
        return end_block(reader);
    if (strcmp(word, "comm") == 0) {
        while (next_field(&rest, &name, &value))
            if (!value || !comm_field(reader->open, name, value))
                return wrong(reader, "wrong field", name);
        return true;
    }
    for (int k = 0; k < (int)(sizeof kind / sizeof *kind); k++)
        if (strcmp(word, kind[k]) == 0)
            return add_row(reader, (enum st_row_kind)k, &rest);
    return true;
}

enum { LINE_SIZE = 4096 }; /* the plugin's lines have about 300 bytes */

/* Read a line without its newline. Returns 1 for a line, 0 at the end of the file, and -1 if the
 * line cannot be from a ledger. The length is limited because a device file may never end a
 * line. */
static int next_line(struct reader *reader, FILE *file, char line[LINE_SIZE])
{
    int n = 0, c;

    reader->line++;
    for (; (c = getc(file)) != EOF && c != '\n'; n++) {
        line[n] = '\0';
        if (c == '\0')
            return wrong(reader, "not a ledger: a NUL byte after", line) - 1;
        if (n == LINE_SIZE - 1)
            return wrong(reader, "not a ledger: a line longer than 4095 bytes,", line) - 1;
        line[n] = (char)c;
    }
    line[n] = '\0';
    if (c == EOF && n == 0)
        reader->line--;
    return c != EOF || n > 0;
}

bool st_ledgers_read(struct st_ledgers *ledgers, const char *path, char *error, size_t size)
{
    struct reader reader = {.ledgers = ledgers, .path = path, .error = error, .size = size};
    FILE *file = fopen(path, "r");
    char line[LINE_SIZE];
    bool good = true;
    int more;

    if (!file) {
        snprintf(error, size, "%s: %s", path, strerror(errno));
        return false;
    }
    errno = 0;
    while (good && (more = next_line(&reader, file, line)) != 0)
        good = more > 0 && read_line(&reader, line);
    if (good && ferror(file)) {
        snprintf(error, size, "%s: %s", path, strerror(errno));
        good = false;
    } else if (good && reader.line == 0) {
        snprintf(error, size, "%s: empty: no communicator has ended yet, or SYMTUNER_LEDGER named "
                 "another file", path);
        good = false;
    } else if (good && !reader.begun) {
        snprintf(error, size, "%s: not a ledger: no line \"%s\"", path, first_line);
        good = false;
    } else if (good && reader.open) {
        good = wrong(&reader, "the file ends before", "end");
    }
    /* The last block is not complete: the file ends, or has an error, inside it. So leave it
     * out. */
    if (reader.open) {
        free(reader.open->row);
        ledgers->blocks--;
    }
    fclose(file);
    return good;
}

bool st_ledgers_read_all(struct st_ledgers *ledgers, char **paths)
{
    char error[SYMTUNER_ERROR_MAX];

    for (; *paths; paths++)
        if (st_ledgers_read(ledgers, *paths, error, sizeof error)) {
            ledgers->files++;
        } else {
            fprintf(stderr, "%s\n", error);
            ledgers->bad++;
        }
    if (ledgers->blocks == 0)
        st_ledgers_free(ledgers);
    return ledgers->blocks > 0;
}

void st_ledgers_free(struct st_ledgers *ledgers)
{
    for (int i = 0; i < ledgers->blocks; i++)
        free(ledgers->block[i].row);
    free(ledgers->block);
    *ledgers = (struct st_ledgers){0};
}

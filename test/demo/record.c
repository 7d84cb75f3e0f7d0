/* SPDX-License-Identifier: Apache-2.0 */
#include "test/demo/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const algo_name[] = {"TREE", "RING",      "COLLNET_DIRECT", "COLLNET_CHAIN",
                                 "NVLS", "NVLS_TREE", "PAT"};
const char *const proto_name[] = {"LL", "LL128", "SIMPLE"};

enum { FIELDS_MAX = 64 };

/* Cut ${line} at its commas, in place. No field of the file holds a comma. */
static int cut(char *line, char **field)
{
    int fields = 0;

    line[strcspn(line, "\r\n")] = '\0';
    while (line && fields < FIELDS_MAX)
        field[fields++] = strsep(&line, ",");
    return line ? FIELDS_MAX + 1 : fields;
}

static int find(char *const *word, int words, const char *wanted)
{
    for (int i = 0; i < words; i++)
        if (strcmp(word[i], wanted) == 0)
            return i;
    return -1;
}

enum { RELEASE, RANKS, COLL, DTYPE, OP, BYTES, SEND, RECV, ENV, ASKED, TUNER_BYTES, REG_BUFF,
       PIPE_OPS, TABLE, KIND, ALGO, PROTO, KERNEL, CHANNELS, COLUMNS };
static const char *const column_name[COLUMNS] = {
    "nccl",     "ranks",    "coll",    "dtype", "op",        "bytes",    "send_reg",
    "recv_reg", "env",      "tuner_calls", "tuner_bytes",    "reg_buff", "pipe_ops",
    "tree_ll",  "kind",     "algorithm", "protocol", "symmetric_kernel", "channels"};

static void fill(struct record *record, char *const *field, const int *column)
{
    const char *text[COLUMNS];

    memset(record, 0, sizeof *record);
    for (int c = 0; c < COLUMNS; c++)
        text[c] = field[column[c]];
    snprintf(record->release, sizeof record->release, "%s", text[RELEASE]);
    snprintf(record->coll, sizeof record->coll, "%s", text[COLL]);
    snprintf(record->dtype, sizeof record->dtype, "%s", text[DTYPE]);
    snprintf(record->op, sizeof record->op, "%s", text[OP]);
    snprintf(record->env, sizeof record->env, "%s", text[ENV]);
    snprintf(record->kernel, sizeof record->kernel, "%s", text[KERNEL]);
    record->bytes = strtoull(text[BYTES], NULL, 10);
    record->ranks = atoi(text[RANKS]);
    record->windows = strcmp(text[SEND], "sym") == 0 && strcmp(text[RECV], "sym") == 0;
    record->symmetric = strcmp(text[KIND], "symmetric") == 0;
    record->channels = atoi(text[CHANNELS]);
    record->algo = find((char *const *)algo_name, 7, text[ALGO]);
    record->proto = find((char *const *)proto_name, 3, text[PROTO]);
    record->asked = atoi(text[ASKED]);
    record->tuner_bytes = strtoull(text[TUNER_BYTES], NULL, 10);
    record->reg_buff = atoi(text[REG_BUFF]);
    record->pipe_ops = atoi(text[PIPE_OPS]);
    for (int i = 0; i < CELLS; i++)
        record->table[i] = record->asked ? strtof(field[column[TABLE] + i], NULL) : -1.0f;
}

static int complain(const char *path, int line, const char *what, const char *word)
{
    fprintf(stderr, "demo: %s:%d: %s%s\n", path, line, what, word);
    return -1;
}

int record_read(const char *path, struct record *record_out, int max)
{
    int column[COLUMNS], fields = 0, line = 0, count = 0;
    char text[4096], *field[FIELDS_MAX + 1];
    FILE *file = fopen(path, "r");

    if (!file) {
        fprintf(stderr, "demo: %s: %m\n", path);
        return -1;
    }
    while (count >= 0 && fgets(text, sizeof text, file)) {
        int n = cut(text, field);

        if (line++ == 0) {
            fields = n;
            for (int c = 0; c < COLUMNS && count == 0; c++) {
                column[c] = find(field, n, column_name[c]);
                if (column[c] < 0)
                    count = complain(path, line, "no column ", column_name[c]);
            }
        } else if (n != fields) {
            count = complain(path, line, "another number of fields than the header", "");
        } else if (count == max) {
            count = complain(path, line, "more rows than the demo has room for", "");
        } else {
            fill(&record_out[count++], field, column);
        }
    }
    fclose(file);
    return count;
}

const struct record *record_with(const struct record *all, int count, const struct record *call,
                                 const char *env)
{
    for (int i = 0; i < count; i++)
        if (strcmp(all[i].env, env) == 0 && strcmp(all[i].release, call->release) == 0 &&
            strcmp(all[i].coll, call->coll) == 0 && strcmp(all[i].dtype, call->dtype) == 0 &&
            strcmp(all[i].op, call->op) == 0 && all[i].bytes == call->bytes &&
            all[i].ranks == call->ranks &&
            all[i].windows == call->windows)
            return &all[i];
    return NULL;
}

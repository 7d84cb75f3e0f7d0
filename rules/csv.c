/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csv.c - the CSV of NCCL's example tuner (NCCL_TUNER_CONFIG_FILE), read as rules.
 *
 *   collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks[,pipe_ops[,reg_buff]]
 *
 * In a condition, -1 means "any". As the number of channels, -1 means NCCL's own number. As the
 * largest size, 4294967295 means "no limit", as the README of the example says. This reader is
 * stricter than the example: an unknown word is an error, and so is a word in place of a number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/reader.h"

enum { COLL, MIN_BYTES, MAX_BYTES, ALGO, PROTO, CHANNELS, NODES, RANKS, PIPE_OPS, REG, FIELDS };

static bool number(struct st_reader *reader, struct st_text field, int64_t least, int64_t most,
                   int64_t *out)
{
    char digits[24] = "", *end = digits;

    if (field.len && field.len < sizeof digits)
        memcpy(digits, field.at, field.len);
    errno = 0;
    *out = strtoll(digits, &end, 10);
    if (*digits == 0 || *end || *digits == '+' || errno == ERANGE || *out < least || *out > most)
        return st_reader_fail(reader, field.at, "\"%.*s\" is not a number from %lld to %lld",
                              ST_SHOWN(field), (long long)least,
                              (long long)most);
    return true;
}

static bool exactly(struct st_reader *reader, struct st_text field, struct st_span *out)
{
    int64_t value;

    if (!number(reader, field, -1, 1 << 30, &value))
        return false;
    if (value >= 0)
        *out = (struct st_span){(uint64_t)value, (uint64_t)value};
    return true;
}

static bool read_row(struct st_reader *reader, struct st_text *field, int fields)
{
    struct st_rule *rule = st_reader_rule(reader, field[COLL].at);
    int coll = st_word_find(&st_colls, field[COLL].at, field[COLL].len);
    int64_t lo, hi, channels, reg = -1;

    if (!rule)
        return false;
    if (coll < 0)
        return st_reader_unknown(reader, "collective", field[COLL], &st_colls);
    rule->colls = 1u << coll;
    if (!number(reader, field[MIN_BYTES], 0, INT64_MAX, &lo) ||
        !number(reader, field[MAX_BYTES], 0, INT64_MAX, &hi))
        return false;
    if (lo > hi)
        return st_reader_fail(reader, field[MIN_BYTES].at, "min_bytes is above max_bytes");
    rule->bytes = (struct st_span){(uint64_t)lo, hi == UINT32_MAX ? UINT64_MAX : (uint64_t)hi};
    rule->act.prefer = SYMTUNER_GENERAL;
    rule->act.algo = st_word_find(&st_algos, field[ALGO].at, field[ALGO].len);
    if (rule->act.algo < 0)
        return st_reader_unknown(reader, "algorithm", field[ALGO], &st_algos);
    rule->act.proto = st_word_find(&st_protos, field[PROTO].at, field[PROTO].len);
    if (rule->act.proto < 0)
        return st_reader_unknown(reader, "protocol", field[PROTO], &st_protos);
    if (!number(reader, field[CHANNELS], -1, 64, &channels))
        return false;
    rule->act.channels = channels > 0 ? (int)channels : 0;
    if (!exactly(reader, field[NODES], &rule->nodes) ||
        !exactly(reader, field[RANKS], &rule->ranks) ||
        (fields > PIPE_OPS && !exactly(reader, field[PIPE_OPS], &rule->pipe_ops)) ||
        (fields > REG && !number(reader, field[REG], -1, 1, &reg)))
        return false;
    rule->reg = reg < 0 ? ST_REG_ANY : reg ? ST_REG_YES : ST_REG_NO;
    snprintf(rule->name, sizeof rule->name, "csv:%d", reader->line);
    return true;
}

bool st_csv_read(struct st_reader *reader, struct st_text rest)
{
    struct st_text line;

    while (st_reader_line(reader, &rest, &line)) {
        struct st_text field[FIELDS];
        int fields = 0;

        if (!line.at)
            return false;
        line = st_text_trim(line);
        if (line.len == 0 || line.at[0] == '#' ||
            (line.len > 15 && strncmp(line.at, "collective_type", 15) == 0))
            continue;
        for (const char *end = line.at + line.len; fields < FIELDS;) {
            field[fields++] = st_text_cut(&line, ',');
            if (line.at == end && end[-1] != ',')
                break;
            if (line.at == end && fields < FIELDS) { /* an empty field ends the line */
                field[fields++] = (struct st_text){end, 0};
                break;
            }
        }
        if (line.len || fields < PIPE_OPS)
            return st_reader_fail(reader, reader->line_start,
                                  "a row has 8 to 10 fields separated by commas, this one has %s",
                                  line.len ? "more" : "fewer");
        if (!read_row(reader, field, fields))
            return false;
    }
    return true;
}

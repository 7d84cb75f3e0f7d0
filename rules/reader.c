/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool st_reader_fail(struct st_reader *reader, const char *at, const char *format, ...)
{
    long column = reader->line_start && at >= reader->line_start ? at - reader->line_start + 1 : 1;
    int n = snprintf(reader->error, reader->error_size, "%.200s:%d:%ld: ", reader->name,
                     reader->line, column);
    va_list args;

    if (n >= 0 && (size_t)n < reader->error_size) {
        va_start(args, format);
        vsnprintf(reader->error + n, reader->error_size - (size_t)n, format, args);
        va_end(args);
    }
    return false;
}

bool st_reader_unknown(struct st_reader *reader, const char *what, struct st_text word,
                       const struct st_words *words)
{
    const char *near = st_word_nearest(words, word.at, word.len);
    char all[200] = "";

    if (near)
        return st_reader_fail(reader, word.at, "unknown %s \"%.*s\"; did you mean %s?", what,
                              ST_SHOWN(word), near);
    for (int i = 0; i < words->count; i++)
        if (words->word[i])
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? ", " : "",
                     words->word[i]);
    return st_reader_fail(reader, word.at, "unknown %s \"%.*s\"; known: %s", what, ST_SHOWN(word),
                          all);
}

bool st_reader_line(struct st_reader *reader, struct st_text *rest, struct st_text *line_out)
{
    const char *end;

    if (rest->len == 0)
        return false;
    end = memchr(rest->at, '\n', rest->len);
    line_out->at = rest->at;
    line_out->len = end ? (size_t)(end - rest->at) : rest->len;
    reader->line++;
    reader->line_start = rest->at;
    rest->len -= line_out->len + (end ? 1 : 0);
    rest->at += line_out->len + (end ? 1 : 0);
    if (line_out->len && line_out->at[line_out->len - 1] == '\r')
        line_out->len--;
    if (reader->line == 1 && line_out->len >= 3 && memcmp(line_out->at, "\xEF\xBB\xBF", 3) == 0) {
        st_reader_fail(reader, line_out->at, "a byte order mark: save the file without it");
        line_out->at = NULL;
    } else if (line_out->len > SYMTUNER_LINE_MAX) {
        st_reader_fail(reader, line_out->at + SYMTUNER_LINE_MAX,
                       "the line is longer than %d bytes; split it", SYMTUNER_LINE_MAX);
        line_out->at = NULL;
    } else if (memchr(line_out->at, 0, line_out->len)) {
        st_reader_fail(reader, memchr(line_out->at, 0, line_out->len),
                       "a NUL byte: is this a text file?");
        line_out->at = NULL;
    }
    return true;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

struct st_text st_text_trim(struct st_text text)
{
    for (; text.len && blank(text.at[0]); text.at++, text.len--)
        ;
    for (; text.len && blank(text.at[text.len - 1]); text.len--)
        ;
    return text;
}

struct st_text st_text_cut(struct st_text *rest, char separator)
{
    const char *end = memchr(rest->at, separator, rest->len);
    struct st_text word = {rest->at, end ? (size_t)(end - rest->at) : rest->len};

    rest->at += word.len + (end ? 1 : 0);
    rest->len -= word.len + (end ? 1 : 0);
    return st_text_trim(word);
}

struct st_rule *st_reader_rule(struct st_reader *reader, const char *at)
{
    symtuner_rules *rules = reader->rules;
    struct st_rule *rule;

    if (rules->count == SYMTUNER_RULES_MAX) {
        st_reader_fail(reader, at, "more than %d rules; merge some", SYMTUNER_RULES_MAX);
        return NULL;
    }
    rule = &rules->rule[rules->count++];
    st_rule_clear(rule);
    rule->line = reader->line;
    return rule;
}

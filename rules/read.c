/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c - reads rules from a text. The text is either the INI dialect of
 * docs/reference/rules-language.md or the one-line form of that dialect.
 *
 * The reader is strict: an unknown section, key, word or unit is an error that names its place and
 * the nearest known spelling. A text is accepted as a whole or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/open_file.h"
#include "rules/reader.h"
#include "rules/sources.h"

/* ---- sections ------------------------------------------------------------------------------- */

static bool name_rule(struct st_reader *reader, struct st_rule *rule, struct st_text name)
{
    if (name.len == 0 || name.len > SYMTUNER_NAME_MAX)
        return st_reader_fail(reader, name.at, "a rule has a name of 1 to %d bytes: [%s NAME]",
                              SYMTUNER_NAME_MAX, rule->kernels ? "kernels" : "rule");
    memcpy(rule->name, name.at, name.len);
    for (int i = 0; i < reader->rules->count - 1; i++)
        if (strcmp(reader->rules->rule[i].name, rule->name) == 0)
            return st_reader_fail(reader, name.at,
                                  "the name \"%s\" is taken by the rule of line %d", rule->name,
                                  reader->rules->rule[i].line);
    return true;
}

/* Append a rule of the kind that ${where} names, and start its ${section}. */
static bool start_rule(struct st_reader *reader, struct st_section *section, int where,
                       const char *at)
{
    struct st_rule *rule = st_reader_rule(reader, at);

    *section = (struct st_section){rule, where, 0};
    if (!rule)
        return false;
    rule->process = where == ST_IN_PROCESS;
    rule->kernels = where == ST_IN_KERNELS;
    /* A [kernels] rule has its collectives in ${kernel_colls}. Its ${colls} always gets this value,
     * because the hash of rules (rules/hash.c) contains it. */
    if (rule->kernels)
        rule->colls = 1u << SYMTUNER_ALLREDUCE;
    return true;
}

static bool open_section(struct st_reader *reader, struct st_section *section, struct st_text line)
{
    static const char *const word[] = {"provenance", "process", "rule", "kernels"};
    static const int where[] = {ST_IN_PROVENANCE, ST_IN_PROCESS, ST_IN_RULE, ST_IN_KERNELS};
    static const struct st_words words = {word, 4};
    struct st_text rest = {line.at + 1, line.len - 1}, kind;
    int k;

    if (line.at[line.len - 1] != ']')
        return st_reader_fail(reader, line.at + line.len, "the section header lacks its \"]\"");
    rest = st_text_trim((struct st_text){rest.at, rest.len - 1});
    kind = st_text_cut(&rest, ' ');
    rest = st_text_trim(rest);
    k = st_word_find(&words, kind.at, kind.len);
    if (k < 0)
        return st_reader_unknown(reader, "section", kind, &words);
    if (where[k] != ST_IN_PROVENANCE) {
        if (!start_rule(reader, section, where[k], line.at))
            return false;
        if (where[k] != ST_IN_PROCESS)
            return name_rule(reader, section->rule, rest);
        snprintf(section->rule->name, sizeof section->rule->name, "process:%d", reader->line);
    } else {
        if (reader->rules->has_provenance)
            return st_reader_fail(reader, line.at, "a second [provenance]");
        reader->rules->has_provenance = true;
        *section = (struct st_section){&reader->rules->provenance, where[k], 0};
        section->rule->line = reader->line;
    }
    return rest.len == 0 || st_reader_fail(reader, rest.at, "[%.*s] takes no name", (int)kind.len,
                                           kind.at);
}

/* Cut off the comment of a line. A comment begins with a # that is the first character or follows a
 * blank, and that is not within quotes. */
static struct st_text strip_comment(struct st_text line)
{
    bool quoted = false;

    for (size_t i = 0; i < line.len; i++) {
        quoted ^= line.at[i] == '"';
        if (line.at[i] == '#' && !quoted &&
            (i == 0 || line.at[i - 1] == ' ' || line.at[i - 1] == '\t'))
            line.len = i;
    }
    return st_text_trim(line);
}

static bool rules_read(struct st_reader *reader, struct st_text rest)
{
    struct st_section section = {0};
    struct st_text line;

    while (st_reader_line(reader, &rest, &line)) {
        if (!line.at)
            return false;
        line = strip_comment(line);
        if (line.len == 0)
            continue;
        if (line.at[0] == '[') {
            if (!open_section(reader, &section, line))
                return false;
            continue;
        }
        struct st_text value = line, key = st_text_cut(&value, '=');

        if (key.len == line.len)
            return st_reader_fail(reader, line.at, "\"%.*s\" is neither [section] nor key = value",
                                  ST_SHOWN(line));
        if (!section.rule)
            return st_reader_fail(reader, line.at, "a key before the first section; start with "
                                                   "[rule NAME]");
        if (!st_key_read(reader, &section, key, st_text_trim(value)))
            return false;
    }
    return true;
}

/* Cut the next word off the one-line form; blanks inside quotes belong to the word. */
static struct st_text next_word(struct st_text *rest)
{
    bool quoted = false;
    size_t n = 0;

    *rest = st_text_trim(*rest);
    for (; n < rest->len && (quoted || (rest->at[n] != ' ' && rest->at[n] != '\t')); n++)
        quoted ^= rest->at[n] == '"';
    struct st_text word = {rest->at, n};

    rest->at += n;
    rest->len -= n;
    return word;
}

/* Read the one-line form, such as
 * "allreduce bytes=..64KiB prefer=general:ring/ll; process sym-ctas=16; kernels kernel=nccl" */
static bool inline_read(struct st_reader *reader, struct st_text text)
{
    reader->line = 1;
    reader->line_start = text.at;
    while (text.len) {
        struct st_text one = st_text_cut(&text, ';'), word = next_word(&one);
        int where = st_text_is(word, "process")   ? ST_IN_PROCESS
                    : st_text_is(word, "kernels") ? ST_IN_KERNELS
                                                  : ST_IN_RULE;
        struct st_section section;

        if (word.len == 0)
            continue;
        if (!start_rule(reader, &section, where, word.at))
            return false;
        snprintf(section.rule->name, sizeof section.rule->name, "inline:%d", reader->rules->count);
        if (where == ST_IN_RULE &&
            !st_key_read(reader, &section, (struct st_text){"coll", 4}, word))
            return false;
        for (word = next_word(&one); word.len; word = next_word(&one)) {
            struct st_text value = word, key = st_text_cut(&value, '=');

            if (key.len == word.len)
                return st_reader_fail(reader, word.at, "\"%.*s\" is not key=value",
                                      ST_SHOWN(word));
            if (!st_key_read(reader, &section, key, value))
                return false;
        }
    }
    return true;
}

/* ---- entry points --------------------------------------------------------------------------- */

typedef bool parser(struct st_reader *, struct st_text);

static enum symtuner_status is_null(const char *what, char *error, size_t error_size)
{
    snprintf(error, error ? error_size : 0, "%s is NULL", what);
    return SYMTUNER_EINVAL;
}

static enum symtuner_status read_with(parser *parse, struct st_text text, const char *name,
                                      symtuner_rules **out, char *error, size_t error_size)
{
    struct st_reader reader = {name, 0, text.at, error, error ? error_size : 0, NULL};
    symtuner_rules *rules;

    if (!name || !out)
        return is_null(name ? "rules_out" : "name", error, error_size);
    rules = reader.rules = calloc(1, sizeof *rules);
    if (!rules) {
        snprintf(error, reader.error_size, "%.200s: out of memory", name);
        return SYMTUNER_ENOMEM;
    }
    st_rule_clear(&rules->provenance);
    rules->sources = 1;
    snprintf(rules->source[0], sizeof rules->source[0], "%s", name);
    if (text.len > SYMTUNER_TEXT_MAX) /* no single line is wrong, so the error names none */
        snprintf(error, reader.error_size, "%.200s: larger than 1 MiB", name);
    if (text.len > SYMTUNER_TEXT_MAX || !parse(&reader, text)) {
        free(rules);
        return SYMTUNER_ESYNTAX;
    }
    *out = rules;
    return SYMTUNER_OK;
}

enum symtuner_status symtuner_rules_parse(const char *text, const char *name, symtuner_rules **out,
                                          char *error, size_t error_size)
{
    return text ? read_with(rules_read, (struct st_text){text, strlen(text)}, name, out, error,
                            error_size)
                : is_null("text", error, error_size);
}

enum symtuner_status symtuner_rules_inline(const char *text, symtuner_rules **out, char *error,
                                           size_t error_size)
{
    return text ? read_with(inline_read, (struct st_text){text, strlen(text)}, "SYMTUNER_RULE", out,
                            error, error_size)
                : is_null("text", error, error_size);
}

/* Read up to ${size} bytes of a file into ${text} and return their number. On failure return -1.
 * The reason is then in ${*why}, or in errno if ${*why} is still NULL. ${any}: the file may also be
 * a pipe or a device. */
static ssize_t slurp(const char *path, bool any, char *text, size_t size, const char **why)
{
    int fd = st_open_file(path, O_RDONLY), error;
    struct stat file = {0};
    struct pollfd end;
    size_t done = 0;
    ssize_t n = -1;

    if (fd < 0)
        return -1;
    fstat(fd, &file);
    end = (struct pollfd){fd, POLLIN, 0};
    if (any && S_ISFIFO(file.st_mode))
        poll(&end, 1, 1000); /* wait up to 1 s for a writer, which may still be starting */
    if (!any && !S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode) &&
        file.st_rdev != makedev(1, 3)) /* /dev/null never blocks, so it is allowed */
        *why = "a pipe or a device could block the job; write the rules to a file";
    else
        while ((n = read(fd, text + done, size - done)) > 0)
            done += (size_t)n;
    error = errno;
    if (n == 0 && done == 0 && S_ISFIFO(file.st_mode) && poll(&end, 1, 0) == 0) {
        *why = "a pipe that nobody writes to"; /* poll() is 0 only if no writer ever came */
        n = -1;
    }
    close(fd);
    errno = error;
    return n < 0 ? -1 : (ssize_t)done;
}

/* Load rules from a file with reader ${parse}. ${any}: the file may also be a pipe or a device. */
static enum symtuner_status load(parser *parse, const char *path, bool any, symtuner_rules **out,
                                 char *error, size_t error_size)
{
    enum symtuner_status status = SYMTUNER_EIO;
    const char *why = NULL;
    ssize_t len;
    char *text;

    if (!path)
        return is_null("path", error, error_size);
    if (!error)
        error_size = 0;
    text = malloc(SYMTUNER_TEXT_MAX + 2);
    if (!text) {
        snprintf(error, error_size, "%.200s: out of memory", path);
        return SYMTUNER_ENOMEM;
    }
    len = slurp(path, any, text, SYMTUNER_TEXT_MAX + 1, &why);
    if (len < 0)
        snprintf(error, error_size, "%.200s: %s", path, why ? why : strerror(errno));
    else
        status = read_with(parse, (struct st_text){text, (size_t)len}, path, out, error,
                           error_size);
    free(text);
    return status;
}

/* Return the function that reads the file's format. The file's name tells the format. */
static parser *parser_of(const char *path)
{
    size_t n = path ? strlen(path) : 0;

    return n > 4 && strcasecmp(path + n - 4, ".csv") == 0 ? st_csv_read : rules_read;
}

enum symtuner_status symtuner_rules_load(const char *path, symtuner_rules **out, char *error,
                                         size_t error_size)
{
    return load(parser_of(path), path, false, out, error, error_size);
}

enum symtuner_status st_rules_load_any(const char *path, symtuner_rules **out, char *error,
                                       size_t error_size)
{
    return load(parser_of(path), path, true, out, error, error_size);
}

enum symtuner_status symtuner_rules_load_csv(const char *path, symtuner_rules **out, char *error,
                                             size_t error_size)
{
    return load(st_csv_read, path, false, out, error, error_size);
}

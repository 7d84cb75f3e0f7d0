/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - what the two readers of rules (our format, NCCL's CSV) share: a place in a text, and
 * errors that name it.
 */
#ifndef ST_READER_H_
#define ST_READER_H_

#include "nccl/names.h"
#include "rules/rules.h"

struct st_text {
    const char *at;
    size_t len;
};

struct st_reader {
    const char *name;        /* of the file, for errors    */
    int line;
    const char *line_start;  /* column 1                   */
    char *error;             /* the first error wins       */
    size_t error_size;
    symtuner_rules *rules;   /* being filled               */
};

/* Write "name:line:column: message" and return false, so that a reader can return it. */
bool st_reader_fail(struct st_reader *reader, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* At most 40 bytes of a text, as two arguments for "%.*s". */
#define ST_SHOWN(text) (int)((text).len > 40 ? 40 : (text).len), (text).at

/* The same for a word that is not in ${words}; names the nearest one, or lists them all. */
bool st_reader_unknown(struct st_reader *reader, const char *what, struct st_text word,
                       const struct st_words *words);

/* Cut the next line off ${*rest}, without CR and LF; false at the end. A line that is too long or
 * holds a NUL byte is reported, and ${line_out->at} is NULL. */
bool st_reader_line(struct st_reader *reader, struct st_text *rest, struct st_text *line_out);

struct st_text st_text_trim(struct st_text text);

/* Append a cleared rule. NULL, reported at ${at}, if there are too many. */
struct st_rule *st_reader_rule(struct st_reader *reader, const char *at);

/* Cut ${*rest} at the first ${separator} and return what is before it, trimmed. */
struct st_text st_text_cut(struct st_text *rest, char separator);

bool st_text_is(struct st_text text, const char *word); /* ignoring case */

enum { ST_IN_PROVENANCE = 1, ST_IN_PROCESS = 2, ST_IN_RULE = 4, ST_IN_KERNELS = 8 };

/* The section being read. */
struct st_section {
    struct st_rule *rule; /* NULL before the first section */
    int where;            /* ST_IN_*                       */
    unsigned seen;        /* bit per key                   */
};

/* What a key sets in struct st_rule, for the hash. */
enum st_key_type {
    ST_KEY_COMMENT,  /* nothing: it is for people                                  */
    ST_KEY_GONE,     /* a removed key: counts as 0, so that other hashes stay      */
    ST_KEY_BOOL,
    ST_KEY_BITS,     /* unsigned                                                   */
    ST_KEY_INTS,     /* one int or several                                         */
    ST_KEY_SPAN,
    ST_KEY_SET_SPAN, /* added later: a span that counts only when it is not "any"  */
    ST_KEY_TEXT,
};

/* One key of the rules format (rules/keys.c). */
struct st_key {
    const char *word;
    int where; /* sections in which it has a meaning, ST_IN_* */
    bool (*read)(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                 const struct st_key *key);
    enum st_key_type type;
    size_t offset, size;          /* of the member of struct st_rule               */
    const struct st_words *words; /* legal words, where they are few               */
    int gone_from;                /* sections in which it no longer has one        */
    const char *cure;             /* why it is gone, and what to write instead     */
};
extern const struct st_key st_keys[]; /* ends with a row whose word is NULL */

/* Read one key of the section; reports and returns false when it is wrong. */
bool st_key_read(struct st_reader *reader, struct st_section *section, struct st_text key,
                 struct st_text value);

/* Read the CSV of NCCL's example tuner (rules/csv.c). */
bool st_csv_read(struct st_reader *reader, struct st_text text);

#endif

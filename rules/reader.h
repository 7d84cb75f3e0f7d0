/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - what the two readers of rules (our format, NCCL's CSV) share: where in a text the
 * reader is, and errors that name that place.
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
    symtuner_rules *rules;   /* filled by the reader       */
};

/* Write "name:line:column: message" to reader->error. ${at} is the place in the text. Returns
 * false, so that a caller can return the result. */
bool st_reader_fail(struct st_reader *reader, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* At most 40 bytes of a text, as two arguments for "%.*s". */
#define ST_SHOWN(text) (int)((text).len > 40 ? 40 : (text).len), (text).at

/* Fail because ${word} is not one of ${words}: the error names the nearest word, or lists all. */
bool st_reader_unknown(struct st_reader *reader, const char *what, struct st_text word,
                       const struct st_words *words);

/* Cut the next line off ${*rest}, without CR and LF; return false at the end of the text. If the
 * line is too long or has a NUL byte or a byte order mark, the error is written and ${line_out->at}
 * is NULL. */
bool st_reader_line(struct st_reader *reader, struct st_text *rest, struct st_text *line_out);

struct st_text st_text_trim(struct st_text text);

/* Append a cleared rule to reader->rules and return it. If there are too many, write an error for
 * place ${at} and return NULL. */
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
    ST_KEY_COMMENT,  /* nothing: a comment for people                              */
    ST_KEY_GONE,     /* a removed key: hashed as 0, so that hashes stay the same   */
    ST_KEY_BOOL,
    ST_KEY_BITS,     /* unsigned                                                   */
    ST_KEY_INTS,     /* one int or several                                         */
    ST_KEY_SPAN,
    ST_KEY_SET_INT,  /* added later: an int that is hashed only if it is not -1    */
    ST_KEY_SET_SPAN, /* added later: a span that is hashed only if it is not "any" */
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
    int gone_from;                /* sections that no longer have this key         */
    const char *cure;             /* why it is gone, and what to write instead     */
};
extern const struct st_key st_keys[]; /* ends with a row whose word is NULL */

/* Read one key of the section into section->rule; if it is wrong, write an error and return
 * false. */
bool st_key_read(struct st_reader *reader, struct st_section *section, struct st_text key,
                 struct st_text value);

/* Read the CSV of NCCL's example tuner (rules/csv.c). */
bool st_csv_read(struct st_reader *reader, struct st_text text);

#endif

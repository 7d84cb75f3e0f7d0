/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - what the two readers of rules share: the current place in the text, and errors that
 * name this place. One reader is for our own format, the other for the CSV of NCCL's example tuner.
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
    const char *name;        /* name of the file, for errors          */
    int line;                /* number of the current line, from 1    */
    const char *line_start;  /* first character of the current line   */
    char *error;             /* buffer for the error's text           */
    size_t error_size;
    symtuner_rules *rules;   /* the rules that were read so far       */
};

/* Write "name:line:column: message" to reader->error. ${at} is the place in the text. Returns
 * false, so that a caller can return the result. */
bool st_reader_fail(struct st_reader *reader, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The first 40 bytes of a text, as the two arguments that "%.*s" takes. */
#define ST_SHOWN(text) (int)((text).len > 40 ? 40 : (text).len), (text).at

/* Fail because ${word} is not one of ${words}. The error names the nearest word, or all words if
 * none is near. */
bool st_reader_unknown(struct st_reader *reader, const char *what, struct st_text word,
                       const struct st_words *words);

/* Cut the next line off ${*rest} and write it, without CR and LF, to ${*line_out}. Returns false at
 * the end of the text. If the line is too long, or has a NUL byte or a byte order mark, an error is
 * written and ${line_out->at} is NULL. */
bool st_reader_line(struct st_reader *reader, struct st_text *rest, struct st_text *line_out);

/* Return the text without blanks and tabs at both ends. */
struct st_text st_text_trim(struct st_text text);

/* Append a rule that matches everything and does nothing to reader->rules, and return it. If there
 * are too many rules, write an error for place ${at} and return NULL. */
struct st_rule *st_reader_rule(struct st_reader *reader, const char *at);

/* Cut ${*rest} at the first ${separator}. Return the trimmed text before it, and leave the text
 * after it in ${*rest}. If there is no separator, return the whole text. */
struct st_text st_text_cut(struct st_text *rest, char separator);

bool st_text_is(struct st_text text, const char *word); /* compares without regard to case */

enum { ST_IN_PROVENANCE = 1, ST_IN_PROCESS = 2, ST_IN_RULE = 4, ST_IN_KERNELS = 8 };

/* The section that is being read. */
struct st_section {
    struct st_rule *rule; /* the section's rule; NULL before the first section  */
    int where;            /* kind of the section: one ST_IN_* value             */
    unsigned seen;        /* one bit per key of st_keys that the section has    */
};

/* The type of the member that a key sets in struct st_rule. It tells rules/hash.c how to hash the
 * member. If a new version of symtuner adds a key, the key gets a type ST_KEY_SET_*. Then rules
 * without this key have the same hash in the new version as in the old one. */
enum st_key_type {
    ST_KEY_COMMENT,  /* the key sets no member: it is a comment for people           */
    ST_KEY_GONE,     /* a removed key: hashed as 0, so that old hashes stay the same */
    ST_KEY_BOOL,
    ST_KEY_BITS,     /* an unsigned that holds a set of bits                         */
    ST_KEY_INTS,     /* one int, or an array of ints                                 */
    ST_KEY_SPAN,
    ST_KEY_SET_BITS, /* a set of bits that is hashed only if it is not empty. The
                        key's word is hashed with it, because the value alone could
                        be that of another ST_KEY_SET_*                          */
    ST_KEY_SET_INT,  /* an int that is hashed only if it is not -1                   */
    ST_KEY_SET_SPAN, /* a span that is hashed only if it does not cover everything   */
    ST_KEY_TEXT,
};

/* One key of the rules format (rules/keys.c). */
struct st_key {
    const char *word;
    int where; /* bits ST_IN_*: the sections that may have the key */
    bool (*read)(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                 const struct st_key *key);
    enum st_key_type type;
    size_t offset, size;          /* place and size of the member in struct st_rule     */
    const struct st_words *words; /* the legal words of a key that takes words          */
    int gone_from;                /* bits ST_IN_*: sections that once had the key       */
    const char *cure;             /* why the key is gone, and what to write instead     */
};
extern const struct st_key st_keys[]; /* the last row has NULL as its word */

/* Read one key and its value into section->rule. If the key or the value is wrong, write an error
 * and return false. */
bool st_key_read(struct st_reader *reader, struct st_section *section, struct st_text key,
                 struct st_text value);

/* Read the CSV of NCCL's example tuner (rules/csv.c). */
bool st_csv_read(struct st_reader *reader, struct st_text text);

#endif

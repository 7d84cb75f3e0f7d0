/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - writes a JSON document value by value. The writer places commas, brackets and quotes.
 *
 *     struct st_json json = {.out = stdout};
 *
 *     st_json_open(&json, NULL, "{");
 *     st_json_text(&json, "nccl", "2.28.9");
 *     st_json_gap(&json, "\n ");
 *     st_json_open(&json, "ranks", "[");
 *     st_json_int(&json, NULL, 2);
 *     st_json_int(&json, NULL, 4);
 *     st_json_close(&json);
 *     st_json_close(&json);
 *
 * prints
 *
 *     {"nccl": "2.28.9",
 *      "ranks": [2, 4]}
 *
 * ${key} is the name of a member of an object, and NULL for an element of an array and for the
 * document itself.
 * Ownership: nothing is kept but ${out}. Threads: one per writer. Errors: those of ${out}.
 */
#ifndef ST_JSON_H_
#define ST_JSON_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { ST_JSON_DEPTH = 8 };

/* Set ${out}, and zero the rest. */
struct st_json {
    FILE *out;
    const char *gap;           /* before the next value or bracket; NULL: the usual one */
    char close[ST_JSON_DEPTH]; /* the brackets that are still to come, outermost first  */
    int depth;
    bool filled;               /* the innermost object or array has a value             */
};

/* Open an object, ${how} is "{", or an array, "[". White space in front of the bracket is printed
 * before ${key}: "\n {" starts a line. At most ST_JSON_DEPTH may be open. */
void st_json_open(struct st_json *json, const char *key, const char *how);

/* Close the innermost object or array. The document ends with a newline. */
void st_json_close(struct st_json *json);

/* White space to print before the next value or closing bracket. Without it there is one blank
 * after a comma and nothing elsewhere. */
void st_json_gap(struct st_json *json, const char *gap);

/* A string; NULL becomes null. Bytes that are not UTF-8 become \u00XX. */
void st_json_text(struct st_json *json, const char *key, const char *text);

void st_json_int(struct st_json *json, const char *key, int64_t value);
void st_json_bool(struct st_json *json, const char *key, bool value);

/* Any other value, printed as ${format} says. The caller writes the quotes if it is a string. */
void st_json_format(struct st_json *json, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

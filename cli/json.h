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
 * Ownership: the writer keeps the pointer ${out}. The text that st_json_gap gets must stay valid
 * until it is printed. Threads: one per writer. Errors: the caller calls ferror(${out}).
 */
#ifndef ST_JSON_H_
#define ST_JSON_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { ST_JSON_DEPTH = 8 };

/* A writer. The caller sets ${out} and zeroes the other members. */
struct st_json {
    FILE *out;
    const char *gap;           /* white space before the next value; NULL: none set    */
    char close[ST_JSON_DEPTH]; /* the closing brackets to print, outermost first       */
    int depth;                 /* how many objects and arrays are open                 */
    bool filled;               /* the innermost object or array has a value            */
};

/* Open an object if ${how} is "{", or an array if ${how} is "[". ${how} may begin with white space,
 * which is printed before ${key}: with "\n {" the object begins a new line. At most ST_JSON_DEPTH
 * objects and arrays may be open. */
void st_json_open(struct st_json *json, const char *key, const char *how);

/* Close the innermost object or array. Closing the outermost prints a newline, too. */
void st_json_close(struct st_json *json);

/* Print the white space ${gap} before the next value or closing bracket. If no gap is set, the
 * writer prints one blank after a comma and nothing elsewhere. */
void st_json_gap(struct st_json *json, const char *gap);

/* Print a string, or null if ${text} is NULL. Bytes that are not UTF-8 become \u00XX. */
void st_json_text(struct st_json *json, const char *key, const char *text);

void st_json_int(struct st_json *json, const char *key, int64_t value);
void st_json_bool(struct st_json *json, const char *key, bool value);

/* Print any other value as ${format} says. For a string, ${format} must contain the quotes. */
void st_json_format(struct st_json *json, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

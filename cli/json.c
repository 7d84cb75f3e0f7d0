/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "cli/text.h"

/* Print what comes before a value: comma, white space, key. */
static void lead(struct st_json *json, const char *key)
{
    const char *usual = json->filled ? " " : "";

    fprintf(json->out, "%s%s", json->filled ? "," : "", json->gap ? json->gap : usual);
    if (key)
        fprintf(json->out, "\"%s\": ", key);
    json->gap = NULL;
    json->filled = true;
}

void st_json_open(struct st_json *json, const char *key, const char *how)
{
    size_t blank = strspn(how, " \n");
    char gap[16];

    assert(json->depth < ST_JSON_DEPTH && blank < sizeof gap);
    if (blank) {
        snprintf(gap, sizeof gap, "%.*s", (int)blank, how);
        json->gap = gap;
    }
    lead(json, key);
    fputc(how[blank], json->out);
    json->close[json->depth++] = how[blank] == '{' ? '}' : ']';
    json->filled = false;
}

void st_json_close(struct st_json *json)
{
    assert(json->depth > 0);
    fprintf(json->out, "%s%c", json->gap ? json->gap : "", json->close[--json->depth]);
    json->gap = NULL;
    json->filled = true;
    if (json->depth == 0)
        fputc('\n', json->out);
}

void st_json_gap(struct st_json *json, const char *gap)
{
    json->gap = gap;
}

void st_json_text(struct st_json *json, const char *key, const char *text)
{
    FILE *out = json->out;

    lead(json, key);
    if (!text) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (int length; *text; text += length ? length : 1) {
        unsigned char byte = (unsigned char)*text;

        length = st_text_utf8(text);
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f || length == 0)
            fprintf(out, "\\u%04x", byte);
        else
            fwrite(text, 1, (size_t)length, out);
    }
    fputc('"', out);
}

void st_json_int(struct st_json *json, const char *key, int64_t value)
{
    st_json_format(json, key, "%" PRId64, value);
}

void st_json_bool(struct st_json *json, const char *key, bool value)
{
    st_json_format(json, key, "%s", value ? "true" : "false");
}

void st_json_format(struct st_json *json, const char *key, const char *format, ...)
{
    va_list arguments;

    lead(json, key);
    va_start(arguments, format);
    vfprintf(json->out, format, arguments);
    va_end(arguments);
}

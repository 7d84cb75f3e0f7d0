/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

char *st_text_size(uint64_t bytes, char text[ST_TEXT_SIZE])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    uint64_t whole = bytes;
    int i = 0;

    while (i < 6 && whole >= 1024 && whole % 1024 == 0) {
        whole /= 1024;
        i++;
    }
    if (i < 6 && whole >= 1536 && whole % 512 == 0)
        snprintf(text, ST_TEXT_SIZE, "%llu.5 %s", (unsigned long long)(whole / 1024), unit[i + 1]);
    else
        snprintf(text, ST_TEXT_SIZE, "%llu %s", (unsigned long long)whole, unit[i]);
    return text;
}

void st_text_wrap(FILE *out, int indent, const char *text)
{
    int column = indent;

    while (*text) {
        int word = (int)strcspn(text, " ");

        if (column > indent && column + 1 + word > ST_TEXT_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

bool st_text_number(const char *text, long least, long most, int *out)
{
    char *end;
    long number = strtol(text, &end, 10);

    if (*end || end == text || number < least || number > most)
        return false;
    *out = (int)number;
    return true;
}

int st_text_utf8(const char *from)
{
    const unsigned char *text = (const unsigned char *)from;
    int more = text[0] >= 0xf0 && text[0] < 0xf5   ? 3
               : text[0] >= 0xe0 && text[0] < 0xf0 ? 2
               : text[0] >= 0xc2 && text[0] < 0xe0 ? 1
                                                   : 0;

    if (text[0] < 0x80)
        return 1;
    for (int i = 1; i <= more; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* overlong forms, surrogates, and code points past U+10FFFF are not legal */
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return more ? more + 1 : 0;
}

int st_text_character(const char *text, bool *shown)
{
    const unsigned char *at = (const unsigned char *)text;
    int length = st_text_utf8(text);

    *shown = length == 1   ? *at >= 0x20 && *at != 0x7f
             : length == 2 ? *at != 0xc2 || at[1] >= 0xa0 /* U+0080 to U+009F are controls */
                           : length > 0;
    /* U+2028 .. 202E and U+2066 .. 2069 are line ends and changes of the text direction */
    if (length == 3 && at[0] == 0xe2)
        *shown = !(at[1] == 0x80 && at[2] >= 0xa8 && at[2] <= 0xae) &&
                 !(at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
    if (length == 3 && at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe)
        *shown = false; /* U+FFFE and U+FFFF are noncharacters, and not legal in XML */
    return length ? length : 1;
}

void st_text_plain(FILE *out, const char *text)
{
    bool shown;

    for (int length; *text; text += length) {
        length = st_text_character(text, &shown);
        fwrite(shown ? text : "?", 1, shown ? (size_t)length : 1, out);
    }
}

const char *st_text_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

size_t st_text_add(char *text, size_t size, size_t at, const char *format, ...)
{
    va_list arguments;
    int n;

    if (at + 1 >= size)
        return at;
    va_start(arguments, format);
    n = vsnprintf(text + at, size - at, format, arguments);
    va_end(arguments);
    if (n < 0)
        return at;
    return (size_t)n < size - at ? at + (size_t)n : size - 1;
}

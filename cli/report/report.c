/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/own_file.h"

/* Embed the page. The path is relative to the root of the repository, where the compiler runs. */
__asm__(".pushsection .rodata\n"
        "st_report_page:\n"
        ".incbin \"cli/report/report.html\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char st_report_page[] __attribute__((visibility("hidden")));

/* Print the page with the JSON text ${self} in place of the "{}" in the page. In JSON "<" occurs
 * only inside strings. It is printed as \u003c, so that no string can end the script element or
 * begin an HTML comment. */
static void print_page(const void *self, FILE *out)
{
    const char *place = strstr(st_report_page, "{}</script>");

    fwrite(st_report_page, 1, (size_t)(place - st_report_page), out);
    for (const char *text = self; *text; text++)
        if (*text == '<')
            fputs("\\u003c", out);
        else
            fputc(*text, out);
    fputs(place + 2, out);
}

bool st_report_write(const char *command, const char *path, bool force,
                     void (*write)(const void *self, struct st_json *json), const void *self)
{
    char *text = NULL;
    size_t size;
    struct st_json json = {.out = open_memstream(&text, &size)};
    bool good;

    if (json.out)
        write(self, &json);
    if (!json.out || ferror(json.out) | fclose(json.out)) {
        free(text);
        return st_fail(false, "symtuner %s: %s: out of memory\n", command, path);
    }
    good = st_own_file_write(command, path, force, true, print_page, text);
    free(text);
    return good;
}

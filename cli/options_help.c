/* SPDX-License-Identifier: Apache-2.0 */
/* options_help.c - prints help and errors of a command line. */
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/text.h"

enum { COLUMN = 24 }; /* in which the help of an option begins */

static void print_row(const char *name, const char *value, const char *help, FILE *out)
{
    char left[120];
    int length =
        snprintf(left, sizeof left, "  %s%s%s", name, value ? " " : "", value ? value : "");

    if (length > COLUMN - 2)
        fprintf(out, "%s\n%*s", left, COLUMN, "");
    else
        fprintf(out, "%-*s", COLUMN, left);
    st_text_wrap(out, COLUMN, help);
}

void st_line_help(const struct st_command_line *line, FILE *out)
{
    char name[64];

    for (const char *at = line->usage; *at; at += strcspn(at, "\n") + 1)
        fprintf(out, "%s symtuner %s %.*s\n", at == line->usage ? "usage:" : "      ",
                line->command, (int)strcspn(at, "\n"), at);
    fputs(line->about, out);
    for (int i = 0; i < line->rows; i++) {
        if (!line->row[i].help)
            continue;
        snprintf(name, sizeof name, "--%s", line->row[i].name);
        print_row(name, line->row[i].value, line->row[i].help, out);
    }
    print_row("-h, --help", NULL, "this text", out);
    if (line->after)
        fputs(line->after, out);
}

int st_line_wrong(const struct st_command_line *line, const char *error)
{
    size_t length = strlen(error);

    fprintf(stderr, "symtuner %s: %s", line->command, error);
    if (length == 0 || error[length - 1] != '?') /* a suggestion says enough */
        fprintf(stderr, "; see symtuner %s --help", line->command);
    fputc('\n', stderr);
    return ST_EXIT_USAGE;
}

int st_line_read(const struct st_command_line *line, int argc, char **argv, void *self)
{
    struct st_said said;
    enum st_parsed parsed = st_line_parse(line, argc, argv, self, &said);

    fputs(said.hint, stderr);
    switch (parsed) {
    case ST_PARSED:
        return -1;
    case ST_PARSED_ENDED:
        return said.status;
    case ST_PARSED_HELP:
        st_line_help(line, stdout);
        return ST_EXIT_FINE;
    default:
        if (said.error[0])
            return st_line_wrong(line, said.error);
        st_line_help(line, stderr);
        return ST_EXIT_USAGE;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - parses a command line into a command's struct, and prints its help and errors. */
#include "cli/options.h"

#include <stdarg.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "nccl/names.h"

enum { SHOWN = 60, ROWS_MAX = 64, CHOICES_MAX = 8 };

bool st_option_wrong(char error[ST_OPTION_ERROR], const char *wants, const char *value)
{
    snprintf(error, ST_OPTION_ERROR, "%s, not \"%.*s%s\"", wants, SHOWN, value,
             strlen(value) > SHOWN ? "..." : "");
    return false;
}

/* Cut a list such as "pcie|nvlink" into words. They lie in ${buffer}, and ${word} points to
 * them. */
static struct st_words choices(const char *list, char buffer[64], const char *word[CHOICES_MAX])
{
    struct st_words words = {word, 0};

    snprintf(buffer, 64, "%s", list);
    for (char *rest, *at = strtok_r(buffer, "|", &rest); at && words.count < CHOICES_MAX;
         at = strtok_r(NULL, "|", &rest))
        word[words.count++] = at;
    return words;
}

static bool read_choice(const struct st_option *row, const char *value, int *out, char *error)
{
    const char *word[CHOICES_MAX];
    char buffer[64], wants[160];
    struct st_words words = choices(row->value, buffer, word);
    size_t at = st_text_add(wants, sizeof wants, 0, "--%s wants", row->name);

    *out = st_word_find(&words, value, strlen(value));
    for (int i = 0; i < words.count; i++)
        at = st_text_add(wants, sizeof wants, at, "%s %s",
                         i == 0                ? ""
                         : i + 1 < words.count ? ","
                                               : " or",
                         word[i]);
    return *out >= 0 || st_option_wrong(error, wants, value);
}

static bool read_value(const struct st_option *row, const char *value, void *self, char *error)
{
    void *to = (char *)self + row->at;
    char wants[120];

    switch (row->kind) {
    case ST_OPTION_FLAG:
        *(bool *)to = true;
        return true;
    case ST_OPTION_TEXT:
        *(const char **)to = value;
        return true;
    case ST_OPTION_CHOICE:
        return read_choice(row, value, to, error);
    case ST_OPTION_NUMBER:
        snprintf(wants, sizeof wants, "--%s wants %ld to %ld", row->name, row->least, row->most);
        return st_text_number(value, row->least, row->most, to) ||
               st_option_wrong(error, wants, value);
    default:
        return row->read(value, to, error);
    }
}

static const struct st_option *find(const struct st_command_line *line, const char *name,
                                    size_t length)
{
    for (int i = 0; i < line->rows; i++)
        if (strlen(line->row[i].name) == length && memcmp(line->row[i].name, name, length) == 0)
            return &line->row[i];
    return NULL;
}

static bool no_such_option(const struct st_command_line *line, const char *word, char *error)
{
    const char *name[ROWS_MAX + 1], *nearest, *at = word + strspn(word, "-");
    struct st_words words = {name, 0};
    size_t length = strcspn(at, "=");

    name[words.count++] = "help";
    for (int i = 0; i < line->rows && words.count < ROWS_MAX; i++)
        if (line->row[i].help)
            name[words.count++] = line->row[i].name;
    nearest = st_word_nearest(&words, at, length);
    snprintf(error, ST_OPTION_ERROR, "no such option: \"%.*s\"%s%s%s",
             (int)(at - word + (ptrdiff_t)length < SHOWN ? at - word + (ptrdiff_t)length : SHOWN),
             word, nearest ? "; did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
    return false;
}

/* The arguments are read in two passes: first, with ${early}, the early options; then all others.
 * Read the option at argv[0] if it belongs to this pass, otherwise skip it. Returns how many
 * elements of ${argv} the option and its value take, or 0 for an error. */
static int read_option(const struct st_command_line *line, char **argv, void *self, bool early,
                       char *error)
{
    const char *name = argv[0] + 2, *value = "";
    size_t length = strcspn(name, "=");
    const struct st_option *row = argv[0][1] == '-' ? find(line, name, length) : NULL;
    int taken = 1;

    if (!row)
        return no_such_option(line, argv[0], error);
    if (!row->value && name[length] == '=') {
        snprintf(error, ST_OPTION_ERROR, "--%s takes no value: \"%.*s\"", row->name, SHOWN,
                 argv[0]);
        return 0;
    }
    if (row->value && name[length] == '=')
        value = name + length + 1;
    else if (row->value) {
        value = argv[1];
        taken = 2;
    }
    if (!value || (taken == 2 && strncmp(value, "--", 2) == 0)) {
        snprintf(error, ST_OPTION_ERROR, "a value is missing: --%s %s", row->name, row->value);
        if (value) /* a value may really begin with dashes, for example a file's name */
            st_text_add(error, ST_OPTION_ERROR, strlen(error), ", or --%s=%.*s", row->name, SHOWN,
                        value);
        return 0;
    }
    if (row->early != early)
        return taken;
    if (row->instead)
        fprintf(stderr,
                "symtuner %s: write %s instead of --%s, which the next release does not know\n",
                line->command, row->instead, row->name);
    return read_value(row, value, self, error) ? taken : 0;
}

static bool read_word(const struct st_command_line *line, int place, const char *word, void *self,
                      char *error)
{
    if (place < line->most_words)
        return !line->word || line->word(place, word, self, error);
    snprintf(error, ST_OPTION_ERROR, "one word too many: \"%.*s\"", SHOWN, word);
    return false;
}

/* Go through all arguments once. With ${early}, read only the early options. Without it, read
 * everything else and move the words to the front of ${argv}. Returns false for an error. */
static bool pass(const struct st_command_line *line, char **argv, void *self, bool early,
                 char *error)
{
    char **first = argv + 1, **end = first; /* first .. end: the words found so far */
    bool options = true;

    for (argv++; *argv;) {
        int taken = 1;

        if (options && strcmp(*argv, "--") == 0)
            options = false;
        else if (options && (*argv)[0] == '-' && (*argv)[1])
            taken = read_option(line, argv, self, early, error);
        else if (options && line->words_last) {
            snprintf(error, ST_OPTION_ERROR, "write -- before \"%.*s\": symtuner %s %.*s", SHOWN,
                     *argv, line->command, (int)strcspn(line->usage, "\n"), line->usage);
            return false;
        } else if (!early) {
            taken = read_word(line, (int)(end - first), *argv, self, error);
            *end++ = *argv;
        }
        if (taken == 0)
            return false;
        argv += taken;
    }
    if (!early)
        *end = NULL;
    return true;
}

static bool asks_for_help(char **argv)
{
    for (argv++; *argv && strcmp(*argv, "--") != 0; argv++)
        if (strcmp(*argv, "--help") == 0 || strcmp(*argv, "-h") == 0)
            return true;
    return false;
}

/* ---- help and errors ------------------------------------------------------------------------- */

enum { COLUMN = 24 }; /* where the help text of an option begins */

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

int st_fail(int status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    return status;
}

int st_line_wrong(const struct st_command_line *line, const char *error)
{
    size_t length = strlen(error);

    fprintf(stderr, "symtuner %s: %s", line->command, error);
    /* If the error already ends in "did you mean --x?", do not point to the help. */
    if (length == 0 || error[length - 1] != '?')
        fprintf(stderr, "; see symtuner %s --help", line->command);
    fputc('\n', stderr);
    return ST_EXIT_USAGE;
}

int st_line_read(const struct st_command_line *line, int argc, char **argv, void *self)
{
    bool help = asks_for_help(argv);
    char error[ST_OPTION_ERROR];
    int status, words = 0;

    /* A command that needs words but got no arguments prints its help, which says more than an
     * error. */
    if (help || (argc < 2 && line->least_words > 0)) {
        st_line_help(line, help ? stdout : stderr);
        return help ? ST_EXIT_FINE : ST_EXIT_USAGE;
    }
    if (!pass(line, argv, self, true, error))
        return st_line_wrong(line, error);
    if (line->started && (status = line->started(self)) >= 0)
        return status;
    if (!pass(line, argv, self, false, error))
        return st_line_wrong(line, error);
    while (argv[1 + words])
        words++;
    if (words >= line->least_words)
        return -1;
    snprintf(error, sizeof error, "a word is missing: symtuner %s %.*s", line->command,
             (int)strcspn(line->usage, "\n"), line->usage);
    return st_line_wrong(line, error);
}

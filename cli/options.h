/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - reads the command lines of all commands.
 *
 * A command describes its options in a table. st_line_read fills a struct of the command:
 *
 *     struct ask { int ranks, coll; bool json; const char *rules; };
 *     #define AT(member) offsetof(struct ask, member)
 *
 *     static const struct st_option rows[] = {
 *         {"rules", "FILE", "rules to ask", ST_OPTION_TEXT, .at = AT(rules)},
 *         {"ranks", "N", "of the communicator (8)", ST_OPTION_NUMBER, .at = AT(ranks), .most = 64},
 *         {"json", NULL, "for programs", ST_OPTION_FLAG, .at = AT(json)},
 *         {"size", "N", NULL, ST_OPTION_NUMBER, .at = AT(ranks), .most = 64, .instead = "--ranks"},
 *     };
 *     static const struct st_command_line line = {
 *         .command = "ask", .usage = "COLL [options]\n", .about = "Ask for a collective.\n",
 *         ST_OPTIONS(rows), .least_words = 1, .most_words = 1};
 *
 *     int status = st_line_read(&line, argc, argv, &ask);
 *     if (status >= 0)
 *         return status;
 *
 * A word is an argument that is no option, such as COLL above. st_line_read leaves the words in
 * argv, from argv[1] on, with a NULL behind the last. It understands -h, --help, "--ranks 4",
 * "--ranks=4", words and options in any order, and "--" before words that begin with a dash. It
 * prints the help. If an option is misspelt, the error message names the nearest option.
 *
 * A row without ${help} works, but the help does not show it. A row with ${instead} is an earlier
 * spelling of an option: it works, and a line on stderr says what to write now. st_line_read reads
 * the ${early} options first, then calls ${started}, then reads the others. So ${started} can set a
 * value that a later option changes. For example, --machine is early, ${started} looks up that
 * machine, and then --links changes its links. A row of the kind ST_OPTION_READ names a function
 * that reads the value. cli/values.h has functions for collectives, types and so on; a command may
 * also have its own.
 *
 * Units      none. Ownership  texts are borrowed from argv.
 * Errors     st_line_read prints them.
 */
#ifndef ST_OPTIONS_H_
#define ST_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { ST_OPTION_ERROR = 700, ST_ANY_WORDS = 1 << 30 };

/* Read ${value} into ${to}, the place that the row's ${at} names. If the value is wrong, returns
 * false and puts the reason into ${error}, for example: --ranks wants 1 to 64, not "x". */
typedef bool st_option_reader(const char *value, void *to, char error[ST_OPTION_ERROR]);

enum st_option_kind {
    ST_OPTION_FLAG,   /* a bool, which becomes true                                   */
    ST_OPTION_TEXT,   /* a const char *: the value as it is                           */
    ST_OPTION_NUMBER, /* an int from ${least} to ${most}                              */
    ST_OPTION_CHOICE, /* an int: index from 0 into the words of ${value}, "a|b|c"     */
    ST_OPTION_READ,   /* any type: ${read} reads the value, "" if the option has none */
};

struct st_option {
    const char *name;  /* its name, without dashes                                  */
    const char *value; /* what the help calls the value; NULL: the option has none  */
    const char *help;  /* its help text; NULL: the help does not show this option   */
    enum st_option_kind kind;
    size_t at;              /* where the value goes: offset in the command's struct  */
    long least, most;       /* the limits of an ST_OPTION_NUMBER                     */
    st_option_reader *read; /* reads the value of an ST_OPTION_READ                  */
    const char *instead;    /* set for an earlier spelling: what to write now; else NULL */
    bool early;             /* the option is read before ${started} is called        */
};

struct st_command_line {
    const char *command;
    const char *usage; /* lines that the help prints after "symtuner COMMAND "          */
    const char *about; /* lines that the help prints before the options                 */
    const char *after; /* lines after the options: exit statuses, examples; or NULL     */
    const struct st_option *row;
    int rows;
    /* Checks or reads a word. ${place} is 0 for the first word. May be NULL. */
    bool (*word)(int place, const char *word, void *self, char error[ST_OPTION_ERROR]);
    int least_words, most_words; /* ST_ANY_WORDS: no limit */
    bool words_last;             /* words may stand only after "--" */
    /* Called after the early options are read and before the others; may be NULL. Returns -1 if the
     * command continues, else its exit status. */
    int (*started)(void *self);
};

/* Initializes the options of a struct st_command_line: all rows of ${table}. */
#define ST_OPTIONS(table) .row = (table), .rows = sizeof(table) / sizeof *(table)

/* Parse a command line into the command's struct ${self}, and print help, hints and errors. Returns
 * -1 if the command continues, else its exit status. */
int st_line_read(const struct st_command_line *line, int argc, char **argv, void *self);

/* Print ${error} on stderr as st_line_read prints its own errors. A command calls this function
 * for an error that it finds after st_line_read has returned. Returns ST_EXIT_USAGE. */
int st_line_wrong(const struct st_command_line *line, const char *error);

void st_line_help(const struct st_command_line *line, FILE *out);

/* Set ${error} to: ${wants}, not "${value}". A long value is cut. Returns false, so that the
 * caller can write "return st_option_wrong(...)". */
bool st_option_wrong(char error[ST_OPTION_ERROR], const char *wants, const char *value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - reads the command lines of all commands.
 *
 * A command describes its options in a table; the reader fills a struct of the command:
 *
 *     struct ask { int ranks, coll; bool json; const char *rules; };
 *     #define AT(member) offsetof(struct ask, member)
 *
 *     static bool read_word(int place, const char *word, void *ask, char *error);
 *
 *     static const struct st_option rows[] = {
 *         {"rules", "FILE", "rules to ask", ST_OPTION_TEXT, .at = AT(rules)},
 *         {"ranks", "N", "of the communicator (8)", ST_OPTION_NUMBER, .at = AT(ranks), .most = 64},
 *         {"json", NULL, "for programs", ST_OPTION_FLAG, .at = AT(json)},
 *         {"size", "N", NULL, ST_OPTION_NUMBER, .at = AT(ranks), .most = 64, .instead = "--ranks"},
 *     };
 *     static const struct st_command_line line = {
 *         .command = "ask", .usage = "COLL [options]\n", .about = "Ask for a collective.\n",
 *         .row = rows, .rows = sizeof rows / sizeof *rows,
 *         .word = read_word, .least_words = 1, .most_words = 1};
 *
 *     int status = st_line_read(&line, argc, argv, &ask);
 *     if (status >= 0)
 *         return status;
 *
 * The reader knows -h, --help, "--ranks 4", "--ranks=4", words and options in any order, and "--"
 * before words that begin with a dash. It names the nearest option for a misspelt one, and prints
 * the help.
 *
 * A row without ${help} works but is not shown. A row with ${instead} is an earlier spelling: it
 * works, and a line on stderr says what to write now. ${early} rows are read first and then
 * ${started} runs, which sets what the other rows change, such as a machine before --links.
 * ST_OPTION_READ calls a reader of the command; cli/values.h has readers for collectives, types,
 * sizes and so on for it to call.
 *
 * Units      none. Ownership  texts are borrowed from argv.
 * Errors     st_line_parse is pure and leaves them in ${said}; st_line_read prints them.
 */
#ifndef ST_OPTIONS_H_
#define ST_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { ST_OPTION_ERROR = 700 };

/* Reads ${value} into ${self}. False, with the reason in ${error}: --ranks wants 1 to 64, not
 * "x". */
typedef bool st_option_reader(const char *value, void *self, char error[ST_OPTION_ERROR]);

enum st_option_kind {
    ST_OPTION_FLAG,   /* bool: becomes true                               */
    ST_OPTION_TEXT,   /* const char *: the value as it is                 */
    ST_OPTION_NUMBER, /* int: ${least} to ${most}                         */
    ST_OPTION_CHOICE, /* int: which word of ${value}, "pcie|nvlink", 0 .. */
    ST_OPTION_READ,   /* ${read} is called, with "" if there is no value  */
};

struct st_option {
    const char *name;  /* without dashes                                            */
    const char *value; /* what the help calls its value; NULL: it has none          */
    const char *help;  /* NULL: hidden                                              */
    enum st_option_kind kind;
    size_t at; /* offset in the command's struct                            */
    long least, most;
    st_option_reader *read;
    const char *instead; /* an earlier spelling: what to write now                  */
    bool early;
};

struct st_command_line {
    const char *command;
    const char *usage; /* what follows "usage: symtuner COMMAND ", a line each           */
    const char *about; /* lines before the options                                       */
    const char *after; /* lines after the options: exit statuses, examples; or NULL      */
    const struct st_option *row;
    int rows;
    /* Reads a word that is no option; ${place} counts from 0. NULL: the command has no words. */
    bool (*word)(int place, const char *word, void *self, char error[ST_OPTION_ERROR]);
    int least_words, most_words; /* most_words 0: any number */
    /* Called after the early rows, or NULL. -1: go on; else the exit status. */
    int (*started)(void *self);
};

enum st_parsed { ST_PARSED, ST_PARSED_HELP, ST_PARSED_WRONG, ST_PARSED_ENDED };

struct st_said {
    char error[ST_OPTION_ERROR]; /* ST_PARSED_WRONG; "": print the help            */
    char hint[ST_OPTION_ERROR];  /* earlier spellings, a line each; "" for none    */
    int status;                  /* ST_PARSED_ENDED: the exit status of ${started}    */
};

/* Fill ${self}; argv[0] is the command. Pure, except for what the command's readers do. */
enum st_parsed st_line_parse(const struct st_command_line *line, int argc, char **argv, void *self,
                             struct st_said *said);

/* The same, and print help, hints and errors. -1: go on; else the exit status. */
int st_line_read(const struct st_command_line *line, int argc, char **argv, void *self);

/* Print an error as the parser prints its own, for checks that need all options. Returns
 * ST_EXIT_USAGE. */
int st_line_wrong(const struct st_command_line *line, const char *error);

void st_line_help(const struct st_command_line *line, FILE *out);

/* Set ${error} to: ${wants}, not "${value}". A long value is cut. Returns false, so that a reader
 * can return it. */
bool st_option_wrong(char error[ST_OPTION_ERROR], const char *wants, const char *value);

#endif

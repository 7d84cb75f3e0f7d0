/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variables.h - the environment variables SYMTUNER_AR_* of libsymtuner_ar.so, and those variables
 * of the drop-in whose values are numbers or lists: their names and their legal values.
 *
 * The kernels and the drop-in read their variables with these functions. The doctor and `symtuner
 * env` check values with them, too, and so report exactly what the libraries refuse. Upper and
 * lower case are different.
 *
 * Pure: tables only. Threads: any.
 */
#ifndef ST_VARIABLES_H_
#define ST_VARIABLES_H_

#include <stdbool.h>
#include <stddef.h>

#include "nccl/names.h"

enum {
    ST_VARIABLE_CTAS = 512,   /* SYMTUNER_AR_CTAS and SYMTUNER_AR_MAX_CTAS */
    ST_VARIABLE_VERIFY = 500, /* SYMTUNER_VERIFY                           */
};

struct st_variable {
    const char *name;
    const struct st_words *words; /* the legal words; NULL: a number, or any text           */
    int lowest, highest;          /* without ${words}: the legal numbers; both 0: any text  */
    bool list;                    /* several of the words are legal, separated by commas    */
};

/* The names of the variables of libsymtuner_ar.so. Case matters. */
extern const struct st_words st_kernel_variables;

/* Return row ${index} of the table, counted from 0, or NULL behind its end. */
const struct st_variable *st_variable_get(int index);

/* Return the row of the variable whose name has the ${length} bytes at ${name}, or NULL. */
const struct st_variable *st_variable_find(const char *name, size_t length);

/* Read ${value}. Returns true and sets ${*out} to the number, or to the index of the word. For a
 * list, bit i of ${*out} says that word i is in the list. If ${value} is empty, which counts as not
 * set, or if any text is legal, ${*out} stays as it is. Returns false if the value is wrong. */
bool st_variable_value(const struct st_variable *variable, const char *value, int *out);

/* Write into ${text} what is legal, to follow "write": "a number from 1 to 512", or "one of nvlink
 * pcie". The longest text has fewer than ST_VARIABLE_LEGAL bytes. */
enum { ST_VARIABLE_LEGAL = 300 };
void st_variable_legal(const struct st_variable *variable, char text[ST_VARIABLE_LEGAL]);

#endif

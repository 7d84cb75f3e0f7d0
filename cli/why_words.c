/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why_words.c - the words of symtuner_why.h: types, operations and kinds of verdict.
 */
#include <string.h>

#include "rules/names.h"
#include "symtuner_why.h"

static const char *const dtype_word[] = {
#define X(name, number, size, text) [number] = text,
    SYMTUNER_DTYPE_MAP(X)
#undef X
};
static const char *const op_word[] = {
#define X(name, number, text) [number] = text,
    SYMTUNER_OP_MAP(X)
#undef X
};
static const signed char dtype_size[] = {
#define X(name, number, size, text) [number] = size,
    SYMTUNER_DTYPE_MAP(X)
#undef X
};
static const char *const kind_word[] = {"general", "symmetric", "ce", "error", "open"};

static const struct st_words dtypes = {dtype_word, SYMTUNER_DTYPES};
static const struct st_words ops = {op_word, SYMTUNER_OPS};

int symtuner_dtype_size(int dtype)
{
    return dtype >= 0 && dtype < SYMTUNER_DTYPES ? dtype_size[dtype] : 0;
}

const char *symtuner_dtype_name(int dtype)
{
    return dtype >= 0 && dtype < SYMTUNER_DTYPES ? dtype_word[dtype] : NULL;
}

const char *symtuner_op_name(int op)
{
    return op >= 0 && op < SYMTUNER_OPS ? op_word[op] : NULL;
}

int symtuner_dtype_parse(const char *text)
{
    return st_word_find(&dtypes, text, strlen(text));
}

int symtuner_op_parse(const char *text)
{
    return st_word_find(&ops, text, strlen(text));
}

const char *symtuner_kind_name(enum symtuner_kind kind)
{
    return (unsigned)kind < SYMTUNER_KINDS ? kind_word[kind] : NULL;
}

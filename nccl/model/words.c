/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.c - the words of symtuner_why.h for types, for operations and for what NCCL runs.
 */
#include <string.h>
#include <strings.h>

#include "nccl/names.h"
#include "symtuner_why.h"

static const signed char dtype_size[] = {
#define X(name, number, size, text) [number] = size,
    SYMTUNER_DTYPE_MAP(X)
#undef X
};
static const char *const kind_word[] = {"general", "symmetric", "ce", "error", "open"};

int symtuner_dtype_size(int dtype)
{
    return dtype >= 0 && dtype < SYMTUNER_DTYPES ? dtype_size[dtype] : 0;
}

const char *symtuner_dtype_name(int dtype)
{
    return dtype >= 0 && dtype < SYMTUNER_DTYPES ? st_dtype_words.word[dtype] : NULL;
}

const char *symtuner_op_name(int op)
{
    return op >= 0 && op < SYMTUNER_OPS ? st_all_op_words.word[op] : NULL;
}

/* Other names of the types: those of jax, numpy and torch, and second names in NCCL. */
static const char *const framework_type[SYMTUNER_DTYPES] = {
    [SYMTUNER_INT8] = "int8|char",
    [SYMTUNER_UINT8] = "uint8|byte",
    [SYMTUNER_INT32] = "int32|int",
    [SYMTUNER_UINT32] = "uint32",
    [SYMTUNER_INT64] = "int64|long",
    [SYMTUNER_UINT64] = "uint64",
    [SYMTUNER_FLOAT16] = "float16|half|fp16",
    [SYMTUNER_FLOAT32] = "float32|float|fp32",
    [SYMTUNER_FLOAT64] = "float64|double|fp64",
    [SYMTUNER_BFLOAT16] = "bfloat16",
    [SYMTUNER_FLOAT8E4M3] = "float8_e4m3fn|float8e4m3|fp8_e4m3",
    [SYMTUNER_FLOAT8E5M2] = "float8_e5m2|float8e5m2|fp8_e5m2",
};
static const char *const framework[] = {"torch.", "jnp.", "jax.numpy.", "numpy.", "np.", "nccl"};

int symtuner_dtype_parse(const char *text)
{
    int found;

    if (!text)
        return -1;
    found = st_word_find(&st_dtype_words, text, strlen(text));
    for (size_t i = 0; found < 0 && i < sizeof framework / sizeof *framework; i++)
        if (strncmp(text, framework[i], strlen(framework[i])) == 0) {
            text += strlen(framework[i]);
            break;
        }
    for (int i = 0; found < 0 && i < SYMTUNER_DTYPES; i++)
        if (framework_type[i] && st_word_listed(framework_type[i], text, strncasecmp))
            found = i;
    return found;
}

int symtuner_op_parse(const char *text)
{
    return text ? st_word_find(&st_all_op_words, text, strlen(text)) : -1;
}

const char *symtuner_kind_name(enum symtuner_kind kind)
{
    return (unsigned)kind < SYMTUNER_KINDS ? kind_word[kind] : NULL;
}

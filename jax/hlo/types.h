/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - the element types that XLA and NCCL share. */
#ifndef HLO_TYPES_H_
#define HLO_TYPES_H_

#include <stddef.h>

struct hlo_type {
    int xla;   /* PrimitiveType of xla_data.proto; XLA_FFI_DataType has the same numbers */
    int nccl;  /* ncclDataType_t */
    int size;  /* bytes of one XLA element */
    int parts; /* NCCL elements in one XLA element */
    int is_float;
    const char *name;
};

/* Return the type to which XLA gives the number ${xla}, or NULL if NCCL has no such type. */
static inline const struct hlo_type *hlo_type_find(int xla)
{
    static const struct hlo_type types[] = {
        {2, 0, 1, 1, 0, "int8"},
        {6, 1, 1, 1, 0, "uint8"},
        {4, 2, 4, 1, 0, "int32"},
        {8, 3, 4, 1, 0, "uint32"},
        {5, 4, 8, 1, 0, "int64"},
        {9, 5, 8, 1, 0, "uint64"},
        {10, 6, 2, 1, 1, "float16"},
        {11, 7, 4, 1, 1, "float32"},
        {12, 8, 8, 1, 1, "float64"},
        {16, 9, 2, 1, 1, "bfloat16"},
        {20, 10, 1, 1, 1, "float8_e4m3fn"},
        {19, 11, 1, 1, 1, "float8_e5m2"},
        {15, 7, 8, 2, 1, "complex64"},
        {18, 8, 16, 2, 1, "complex128"},
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].xla == xla)
            return &types[i];
    return NULL;
}

#endif

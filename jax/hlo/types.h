/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - the element types that XLA and NCCL share. */
#ifndef HLO_TYPES_H_
#define HLO_TYPES_H_

struct hlo_type {
    int xla;   /* PrimitiveType of xla_data.proto; XLA_FFI_DataType has the same numbers */
    int nccl;  /* ncclDataType_t */
    int size;  /* bytes of one XLA element */
    int parts; /* NCCL elements in one XLA element */
    int is_float;
    const char *name;
};

/* Return NULL if NCCL has no such type. */
const struct hlo_type *hlo_type_find(int xla);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dtypes.h - data types and operators, and which reducer a type and an operator need.
 *
 * Each data type is one row of AR_DTYPE_MAP, with the number that NCCL gives it. A reducer is the
 * code that adds up. f32, f16 and bf16, which carry almost all traffic, have reducers of their own;
 * all other types share two slower reducers. The types differ only in arithmetic, and in whether
 * their sums may be sent as Lamport words (layout.h).
 */
#ifndef AR_DTYPES_H_
#define AR_DTYPES_H_

/* A row has the type's name, NCCL's number, the bytes of the type, and whether sums of the type may
 * be sent as Lamport words. They may if two things hold: 32 bits that are all ones are NaNs of the
 * type, and they are still NaNs after the last bit has been cleared. (Both hold for F8E5M2, too,
 * but there are no Lamport kernels for F8E5M2.) */
#define AR_DTYPE_MAP(X)                                                                            \
    X(I8, 0, 1, 0)                                                                                 \
    X(U8, 1, 1, 0)                                                                                 \
    X(I32, 2, 4, 0)                                                                                \
    X(U32, 3, 4, 0)                                                                                \
    X(I64, 4, 8, 0)                                                                                \
    X(U64, 5, 8, 0)                                                                                \
    X(F16, 6, 2, 1)                                                                                \
    X(F32, 7, 4, 1)                                                                                \
    X(F64, 8, 8, 0)                                                                                \
    X(BF16, 9, 2, 1)                                                                               \
    X(F8E4M3, 10, 1, 0)                                                                            \
    X(F8E5M2, 11, 1, 0)

enum ar_dtype {
#define X(name, nccl, bytes, lamport) AR_##name = nccl,
    AR_DTYPE_MAP(X)
#undef X
        AR_DTYPES
};

/* Operators, in NCCL's numbering. The last two stand for operators that programs create; NCCL gives
 * each of these a number, which may differ from rank to rank. PREMUL: each rank multiplies its data
 * by a scalar of its own, and the products are added up. FOREIGN: an operator that only NCCL knows.
 */
enum ar_op { AR_SUM, AR_PROD, AR_MAX, AR_MIN, AR_AVG, AR_OPS, AR_PREMUL = AR_OPS, AR_FOREIGN };

/* The reducers. F32, F16, BF16: sum and avg of that type. NATIVE: integers and f64, and min and max
 * of all types; it computes in the type itself. WIDE: sum, avg and prod of fp8, and prod of f32,
 * f16 and bf16; it accumulates in a wider type, in a function that is not inlined. AR_R_PREMUL + r:
 * reducer r, after each rank's numbers are multiplied by its scalar. */
enum ar_reducer {
    AR_R_F32,
    AR_R_F16,
    AR_R_BF16,
    AR_R_NATIVE,
    AR_R_WIDE,
    AR_R_PREMUL,
    AR_REDUCERS = 2 * AR_R_PREMUL
};

static inline int ar_dtype_bytes(int dtype)
{
    static const signed char bytes[AR_DTYPES] = {
#define X(name, nccl, bytes, lamport) [nccl] = bytes,
        AR_DTYPE_MAP(X)
#undef X
    };

    return dtype < 0 || dtype >= AR_DTYPES ? 0 : bytes[dtype];
}

static inline int ar_dtype_lamport(int dtype)
{
    static const signed char lamport[AR_DTYPES] = {
#define X(name, nccl, bytes, lamport) [nccl] = lamport,
        AR_DTYPE_MAP(X)
#undef X
    };

    return dtype >= 0 && dtype < AR_DTYPES && lamport[dtype];
}

static inline int ar_reducer_of(int dtype, int op)
{
    int adds = op == AR_SUM || op == AR_AVG;

    if (op == AR_PREMUL)
        return AR_R_PREMUL + ar_reducer_of(dtype, AR_SUM);
    if (adds && (dtype == AR_F32 || dtype == AR_F16 || dtype == AR_BF16))
        return dtype == AR_F32 ? AR_R_F32 : dtype == AR_F16 ? AR_R_F16 : AR_R_BF16;
    if (dtype == AR_F8E4M3 || dtype == AR_F8E5M2)
        return adds || op == AR_PROD ? AR_R_WIDE : AR_R_NATIVE;
    return (dtype == AR_F32 || dtype == AR_F16 || dtype == AR_BF16) && op == AR_PROD ? AR_R_WIDE
                                                                                     : AR_R_NATIVE;
}

/* Pack the data type and the operator into one number, from which the kernels read both. */
#define AR_KIND(dtype, op) ((dtype)*8 + (op))

#endif

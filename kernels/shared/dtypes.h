/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dtypes.h - data types and operators, and which reducer adds them up.
 *
 * One X-macro row per data type in NCCL's numbering. The three float types that carry almost all
 * traffic have a reducer of their own; everything else shares two slower-compiled ones, so that
 * only the arithmetic differs between types, never the way data moves.
 */
#ifndef ST_AR_KINDS_H_
#define ST_AR_KINDS_H_

/* name, NCCL's number, bytes, and whether its sums may travel as Lamport words: 32 bits of ones are
 * NaN in it, wherever they start, and with the last bit cleared they still are. (True of e5m2, too,
 * for which there are no such kernels.) */
#define ST_DTYPE_MAP(X)                                                                            \
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

enum st_dtype {
#define X(name, nccl, bytes, lamport) ST_##name = nccl,
    ST_DTYPE_MAP(X)
#undef X
        ST_DTYPES
};

/* NCCL's numbering. */
enum st_op { ST_SUM, ST_PROD, ST_MAX, ST_MIN, ST_AVG, ST_OPS };

/* F32, F16, BF16: sum and avg. NATIVE: pairs in the type itself (integers, f64, any min and max).
 * WIDE: what accumulates in a wider type, out of line (fp8 sum, avg, prod; other floats' prod, but
 * for f64). */
enum st_reducer { ST_R_F32, ST_R_F16, ST_R_BF16, ST_R_NATIVE, ST_R_WIDE, ST_REDUCERS };

static inline int st_dtype_bytes(int dtype)
{
    static const signed char bytes[ST_DTYPES] = {
#define X(name, nccl, bytes, lamport) [nccl] = bytes,
        ST_DTYPE_MAP(X)
#undef X
    };

    return dtype < 0 || dtype >= ST_DTYPES ? 0 : bytes[dtype];
}

static inline int st_dtype_lamport(int dtype)
{
    static const signed char lamport[ST_DTYPES] = {
#define X(name, nccl, bytes, lamport) [nccl] = lamport,
        ST_DTYPE_MAP(X)
#undef X
    };

    return dtype >= 0 && dtype < ST_DTYPES && lamport[dtype];
}

static inline int st_reducer_of(int dtype, int op)
{
    int adds = op == ST_SUM || op == ST_AVG;

    if (adds && (dtype == ST_F32 || dtype == ST_F16 || dtype == ST_BF16))
        return dtype == ST_F32 ? ST_R_F32 : dtype == ST_F16 ? ST_R_F16 : ST_R_BF16;
    if (dtype == ST_F8E4M3 || dtype == ST_F8E5M2)
        return adds || op == ST_PROD ? ST_R_WIDE : ST_R_NATIVE;
    return (dtype == ST_F32 || dtype == ST_F16 || dtype == ST_BF16) && op == ST_PROD ? ST_R_WIDE
                                                                                     : ST_R_NATIVE;
}

/* One number for kernels to switch on. */
#define ST_KIND(dtype, op) ((dtype)*8 + (op))

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* same_types.c - jax/library.h must agree with include/symtuner_ar.h, or this does not compile. */
#include "include/symtuner_ar.h"
#include "jax/library.h"

#define SAME(a, b, member)                                                                         \
    _Static_assert(offsetof(struct a, member) == offsetof(struct b, member) &&                     \
                       sizeof(((struct a *)0)->member) == sizeof(((struct b *)0)->member),         \
                   #a "." #member)

_Static_assert(sizeof(struct ffi_ar_config) == sizeof(struct symtuner_ar_config), "config");
SAME(ffi_ar_config, symtuner_ar_config, size);
SAME(ffi_ar_config, symtuner_ar_config, transport);
SAME(ffi_ar_config, symtuner_ar_config, timeout_ms);
SAME(ffi_ar_config, symtuner_ar_config, bulk_bytes);
SAME(ffi_ar_config, symtuner_ar_config, first_epoch);
SAME(ffi_ar_config, symtuner_ar_config, one_stream);
SAME(ffi_ar_config, symtuner_ar_config, max_ctas);
_Static_assert(sizeof(struct ffi_ar_plan) == sizeof(struct symtuner_ar_plan), "plan");
SAME(ffi_ar_plan, symtuner_ar_plan, kernel);
SAME(ffi_ar_plan, symtuner_ar_plan, ctas);
SAME(ffi_ar_plan, symtuner_ar_plan, threads);
SAME(ffi_ar_plan, symtuner_ar_plan, zero_copy);
SAME(ffi_ar_plan, symtuner_ar_plan, pieces);
SAME(ffi_ar_plan, symtuner_ar_plan, why);
_Static_assert(SYMTUNER_AR_MAX_RANKS == 16, "ranks");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
                   sizeof(ncclRedOp_t) == sizeof(int),
               "NCCL's enums");
_Static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4,
               "operators");
_Static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 &&
                   ncclInt64 == 4 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 &&
                   ncclFloat64 == 8 && ncclBfloat16 == 9 && ncclFloat8e4m3 == 10 &&
                   ncclFloat8e5m2 == 11,
               "data types");
_Static_assert(NCCL_UNIQUE_ID_BYTES == 128, "unique id");

/* The functions that jax/library.h loads by name must exist in the other header. */
#define X(result, name, args) (void)sizeof(symtuner_ar_##name);
void ffi_same_functions(void);
void ffi_same_functions(void)
{
    FFI_AR_FUNCTIONS(X)
}

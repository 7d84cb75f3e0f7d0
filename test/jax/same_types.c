/* SPDX-License-Identifier: Apache-2.0 */
/* same_types.c - if NCCL's types are not passed as SYMTUNER_AR_PLAIN_TYPES says, this file does not
 * compile. */
#include "include/symtuner_ar.h"

_Static_assert(SYMTUNER_AR_MAX_RANKS == 16, "ranks");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
                   sizeof(ncclRedOp_t) == sizeof(int) &&
                   sizeof(ncclScalarResidence_t) == sizeof(int),
               "NCCL's enums");
_Static_assert(sizeof(ncclComm_t) == sizeof(void *) && sizeof(ncclWindow_t) == sizeof(void *) &&
                   sizeof(cudaStream_t) == sizeof(void *),
               "handles");
_Static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4,
               "operators");
_Static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 &&
                   ncclInt64 == 4 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 &&
                   ncclFloat64 == 8 && ncclBfloat16 == 9 && ncclFloat8e4m3 == 10 &&
                   ncclFloat8e5m2 == 11,
               "data types");
_Static_assert(NCCL_UNIQUE_ID_BYTES == 128, "unique id");

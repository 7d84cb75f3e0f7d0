/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - the sentence that symtuner_ar_error() returns: one per handle, and one per thread for
 * calls that have no handle (NULL).
 */
#ifndef AR_ERROR_H_
#define AR_ERROR_H_

#include "symtuner_ar.h"

/* Set the error sentence of ${h}, or of this thread if ${h} is NULL, and return ${result}. */
ncclResult_t ar_fail(symtuner_ar *h, ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Do what ar_fail does, for an error of CUDA. ${what} says what failed. */
ncclResult_t ar_fail_cuda(symtuner_ar *h, cudaError_t error, const char *what);
/* Do what ar_fail does, for a call whose handle is NULL. */
ncclResult_t ar_fail_null(void);

/* What symtuner_ar_status does, without a check whether the process exits. */
ncclResult_t ar_status(symtuner_ar *h);

/* Make the CUDA call ${call}. If it fails, return from the function in which this macro stands,
 * with an error that names ${what}. */
#define AR_TRY(h, call, what)                                                                      \
    do {                                                                                           \
        const cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess)                                                                 \
            return ar_fail_cuda(h, error_, what);                                                  \
    } while (0)

/* Set the error sentence of all ${n} handles and of this thread, and return ${result}. */
ncclResult_t ar_handles_fail(symtuner_ar **handles, int n, ncclResult_t result, const char *format,
                             ...) __attribute__((format(printf, 4, 5)));

/* Check a list of 0 to AR_MAX_RANKS handles, in which entries may be NULL. Fails if a handle is
 * listed twice, or if only some handles of a local group are listed. */
ncclResult_t ar_handles_check(symtuner_ar **handles, int n);

/* Check a list of 1 to AR_MAX_RANKS handles. Fails if an entry is NULL, if the handles are of
 * different groups, or if ar_handles_check fails. */
ncclResult_t ar_handles_of_group(symtuner_ar **handles, int n);

#endif

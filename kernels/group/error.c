/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - stores the sentence that symtuner_ar_error() returns. */
#include "kernels/group/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/group/handle.h"

static _Thread_local char create_error[256] = "no error";

ncclResult_t ar_fail(symtuner_ar *h, ncclResult_t result, const char *format, ...)
{
    va_list args;
    char text[256];

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(h != NULL ? h->error : create_error, text, sizeof text);
    return result;
}

ncclResult_t ar_fail_null(void)
{
    return ar_fail(NULL, ncclInvalidArgument, "handle is NULL");
}

ncclResult_t ar_handles_fail(symtuner_ar **handles, int n, ncclResult_t result, const char *format,
                             ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(create_error, sizeof create_error, format, args);
    va_end(args);
    for (int i = 0; i < n; i++)
        if (handles[i] != NULL)
            memcpy(handles[i]->error, create_error, sizeof create_error);
    return result;
}

ncclResult_t ar_fail_cuda(symtuner_ar *h, cudaError_t error, const char *what)
{
    cudaGetLastError(); /* clear the error, or the application's next check would find it */
    if (h != NULL && error == cudaErrorInvalidResourceHandle)
        return ar_fail(h, ncclUnhandledCudaError, "%s: %s; does the stream belong to GPU %d?", what,
                       cudaGetErrorString(error), h->device);
    return ar_fail(h, ncclUnhandledCudaError, "%s: %s", what, cudaGetErrorString(error));
}

const char *symtuner_ar_error(const symtuner_ar *h)
{
    return h != NULL ? h->error : create_error;
}

ncclResult_t ar_handles_check(symtuner_ar **handles, int n)
{
    if (handles == NULL)
        return ar_fail(NULL, ncclInvalidArgument, "handles is NULL");
    if (n < 0 || n > AR_MAX_RANKS)
        return ar_fail(NULL, ncclInvalidArgument, "%d handles; write 0 to %d", n, AR_MAX_RANKS);
    for (int i = 0; i < n; i++) {
        int here = 0;

        for (int j = 0; j < n && handles[i] != NULL; j++) {
            if (i != j && handles[i] == handles[j])
                return ar_handles_fail(handles, n, ncclInvalidUsage,
                                       "handles[%d] and handles[%d] are the same", i, j);
            here += handles[j] != NULL && handles[j]->group == handles[i]->group;
        }
        if (handles[i] != NULL && handles[i]->comm == NULL && here != handles[i]->ranks)
            return ar_handles_fail(handles, n, ncclInvalidUsage,
                                   "pass all %d handles of a local group in one call, not %d of "
                                   "them",
                                   handles[i]->ranks, here);
    }
    return ncclSuccess;
}

ncclResult_t ar_handles_of_group(symtuner_ar **handles, int n)
{
    if (handles == NULL)
        return ar_fail(NULL, ncclInvalidArgument, "handles is NULL");
    if (n < 1 || n > AR_MAX_RANKS)
        return ar_fail(NULL, ncclInvalidArgument, "%d handles; write 1 to %d", n, AR_MAX_RANKS);
    for (int i = 0; i < n; i++) {
        if (handles[i] == NULL)
            return ar_fail(NULL, ncclInvalidArgument, "handles[%d] is NULL", i);
        if (handles[i]->group != handles[0]->group)
            return ar_handles_fail(handles, n, ncclInvalidUsage,
                                   "handles[%d] and handles[0] are of different groups", i);
    }
    return ar_handles_check(handles, n);
}

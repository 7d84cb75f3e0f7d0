/* SPDX-License-Identifier: Apache-2.0 */
/* caller.c - a library that is linked with a copy of NCCL of its own, and calls it (copies.c). */
#include "dropin/entry/known.h"

#define EXPORT __attribute__((visibility("default")))

int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void *info);
int ncclCommInitAll(void **comms, int n, const int *devices);
int ncclCommDestroy(void *comm);
int ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                  void *stream);
int ncclBroadcast(const void *send, void *recv, size_t count, int dtype, int root, void *comm,
                  void *stream);

static float a[64], b[64];

/* The call must not be the last thing that this function does. The compiler could then turn it into
 * a jump, and the program would seem to be the caller. */
EXPORT int caller_make(void **comms);
EXPORT int caller_make(void **comms)
{
    return ncclCommInitAll(comms, 2, NULL) == 0 ? 0 : 1;
}

/* Returns the result of the broadcast, or an error of another call. */
EXPORT int caller_call(void *comm);
EXPORT int caller_call(void *comm)
{
    int wrong = ncclGroupStart(), result = ncclBroadcast(a, b, 8, 7, 0, comm, NULL);

    wrong |= ncclAllReduce(a, b, 16, 7, 0, comm, NULL);
    wrong |= ncclGroupEnd() != result; /* a group in which a call failed has failed, too */
    wrong |= ncclGroupStart() | ncclGroupSimulateEnd(NULL);
    return wrong | ncclCommDestroy(comm) ? -1 : result;
}

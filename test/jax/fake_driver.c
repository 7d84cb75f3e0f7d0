/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_driver.c - the parts of libcuda.so.1 and libnccl.so.2 that are needed to open a group across
 * processes.
 *
 * FAKE_EVENT_PENDING=1: every event stays pending, as if its kernel waited for a dead rank.
 * FAKE_AR_WAITS=1 (see fake_ar.c): the GPU does not become idle. FAKE_RECORD_FAIL=1: no event can
 * be recorded. FAKE_CAPTURING=1: every stream is being captured. FAKE_NCCL_FAIL=1: no communicator
 * can be made. FAKE_NCCL_SLOW=N: making a communicator takes N s. FAKE_CUDA_FAIL=N: no GPU can be
 * used, and the driver returns error N.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct id {
    char internal[128];
};

EXPORT int fake_events; /* number of events that were made */
EXPORT int fake_comms;  /* number of communicators that exist */

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuCtxSetCurrent(void *context);
EXPORT int cuEventCreate(void **event, unsigned flags);
EXPORT int cuEventRecord(void *event, void *stream);
EXPORT int cuEventQuery(void *event);
EXPORT int cuStreamIsCapturing(void *stream, int *status);
EXPORT int cuCtxSynchronize(void);
EXPORT int cuDevicePrimaryCtxRelease(int device);
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT int ncclGetUniqueId(struct id *id);
EXPORT int ncclCommInitRank(void **comm, int ranks, struct id id, int rank);
EXPORT int ncclCommDestroy(void *comm);
EXPORT int ncclCommAbort(void *comm);

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(1 + (long)device);
    return getenv("FAKE_CUDA_FAIL") != NULL ? atoi(getenv("FAKE_CUDA_FAIL")) : 0;
}

int cuCtxSetCurrent(void *context)
{
    return context == NULL;
}

int cuEventCreate(void **event, unsigned flags)
{
    static char events[64]; /* an event is the address of an element */

    *event = &events[fake_events++ % 64];
    return flags != 2;
}

int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    return event == NULL || getenv("FAKE_RECORD_FAIL") != NULL;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = getenv("FAKE_CAPTURING") != NULL;
    return 0;
}

int cuDevicePrimaryCtxRelease(int device)
{
    return device < 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    *mode = *mode == 2 ? 0 : *mode;
    return 0;
}

int cuCtxSynchronize(void)
{
    while (getenv("FAKE_EVENT_PENDING") != NULL || getenv("FAKE_AR_WAITS") != NULL)
        usleep(1000);
    return 0;
}

int cuEventQuery(void *event)
{
    (void)event;
    return getenv("FAKE_EVENT_PENDING") != NULL ? 600 : 0;
}

int ncclGetUniqueId(struct id *id)
{
    memset(id, 'u', sizeof *id);
    return 0;
}

/* Return ncclInProgress if communicators do not block, otherwise ncclSuccess. */
static int done(void)
{
    return getenv("NCCL_COMM_BLOCKING") != NULL ? 7 : 0;
}

int ncclCommInitRank(void **comm, int ranks, struct id id, int rank)
{
    if (getenv("FAKE_NCCL_SLOW") != NULL)
        sleep((unsigned)atoi(getenv("FAKE_NCCL_SLOW")));
    for (size_t i = 0; i < sizeof id; i++)
        if (id.internal[i] != 'u')
            return 4;
    if (getenv("FAKE_NCCL_FAIL") != NULL || rank >= ranks)
        return 1;
    *comm = malloc(1);
    __atomic_fetch_add(&fake_comms, 1, __ATOMIC_RELAXED);
    return done();
}

int ncclCommDestroy(void *comm)
{
    __atomic_fetch_sub(&fake_comms, 1, __ATOMIC_RELAXED);
    free(comm);
    return done();
}

int ncclCommAbort(void *comm)
{
    return ncclCommDestroy(comm);
}

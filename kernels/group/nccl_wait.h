/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_wait.h - wait for NCCL calls on nonblocking communicators (ncclConfig_t.blocking = 0).
 *
 * Such a communicator does its work in a thread of NCCL. A call returns ncclInProgress. Until
 * ncclCommGetAsyncError returns something else, the outputs of that call are not there yet, and
 * another call would fail and break the communicator. So we wait before and after each call of
 * NCCL. On a blocking communicator the wait before a call is one query, and the wait after a call
 * does nothing.
 *
 * We give up a wait after the endpoint's time limit, or within a second after an abort. Then the
 * communicator counts as timed out. NCCL may still read and write the memory that it was given. So
 * we do not free that memory, and do not call NCCL for this communicator again. The functions below
 * do not call CUDA, because one of the caller's streams may be capturing.
 */
#ifndef AR_NCCL_WAIT_H_
#define AR_NCCL_WAIT_H_

#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"

/* Return the time of the monotonic clock, in ns. */
uint64_t ar_now_ns(void);

/* Let other threads run before the next poll. ${waited_ns} is how long the wait has lasted. */
void ar_pause(uint64_t waited_ns);

/*
 * ar_comm_wait(nccl, endpoint, result, call, why):
 * Wait until ${call}, which returned ${result}, is done. To wait for earlier calls before you make
 * ${call}, pass ncclInProgress. Returns the final result: ncclRemoteError after a timeout,
 * ncclInvalidUsage after an abort. If it is not ncclSuccess, ${why} (AR_WHY bytes) says what went
 * wrong and names ${call}.
 */
ncclResult_t ar_comm_wait(const struct ar_nccl *nccl, struct ar_endpoint *endpoint,
                          ncclResult_t result, const char *call, char *why);

/* Do one round of a polling loop. If the wait has lasted too long, mark the communicator as timed
 * out and return the error. Otherwise sleep a little and return ncclInProgress. *start must be 0 in
 * the first round. */
ncclResult_t ar_comm_poll(struct ar_endpoint *endpoint, uint64_t *start, const char *call);

/* Wait for the earlier calls on all ${endpoints}, then call ncclGroupStart. If that succeeds, the
 * caller must call ar_comms_end. Between the two, do not wait for NCCL calls that return
 * ncclInProgress: inside a group this means success. */
ncclResult_t ar_comms_start(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints, int n,
                            const char *call, char *why);

/* Call ncclGroupEnd and wait until all calls of the group are done. ${result} is the first error of
 * these calls; without an error it is what the last call returned. Returns the first error, or
 * ncclSuccess. */
ncclResult_t ar_comms_end(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints, int n,
                          ncclResult_t result, const char *call, char *why);

/* Mark all ${endpoints} as timed out, because ${first} has timed out and NCCL runs all calls of a
 * group as one job. Returns the error of that timeout. */
ncclResult_t ar_comms_timed_out(struct ar_endpoint *const *endpoints, int n,
                                const struct ar_endpoint *first, char *why);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_wait.h - wait for NCCL calls on nonblocking communicators (ncclConfig_t.blocking = 0).
 *
 * Such a communicator does its work in a thread of NCCL's. A call returns ncclInProgress. Until
 * ncclCommGetAsyncError returns something else, the outputs of that call are not there yet, and
 * another call would fail and break the communicator. So each of our calls waits before and after
 * it. On a blocking communicator the first wait is one query and the second does nothing.
 *
 * A wait ends after the endpoint's time limit, or within a second of an abort. From then on the
 * communicator counts as timed out: NCCL may still read and write the memory it was given, so we
 * do not free it, and we make no more calls. Nothing here calls CUDA, because one of the caller's
 * streams may be capturing.
 */
#ifndef AR_NCCL_WAIT_H_
#define AR_NCCL_WAIT_H_

#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"

/* Return the nanoseconds of the monotonic clock. */
uint64_t ar_now_ns(void);

/* Let other threads run before the next poll of a wait that has lasted ${waited_ns}. */
void ar_pause(uint64_t waited_ns);

/*
 * ar_comm_wait(nccl, endpoint, result, call, why):
 * Wait until ${call}, which returned ${result}, is done; pass ncclInProgress to wait before a call.
 * Returns the final result: ncclRemoteError after a timeout, ncclInvalidUsage after an abort.
 * Unless it is ncclSuccess, ${why} (AR_WHY bytes) says what went wrong and names ${call}.
 */
ncclResult_t ar_comm_wait(const struct ar_nccl *nccl, struct ar_endpoint *endpoint,
                          ncclResult_t result, const char *call, char *why);

/* Do one round of a polling loop: sleep a little and return ncclInProgress, or mark the
 * communicator as timed out and return the error. *start must be 0 in the first round. */
ncclResult_t ar_comm_poll(struct ar_endpoint *endpoint, uint64_t *start, const char *call);

/* Wait for the earlier calls on all of ${endpoints}, then call ncclGroupStart. If that succeeds,
 * ar_comms_end must follow. Do not wait for calls inside the group: there ncclInProgress is
 * success. */
ncclResult_t ar_comms_start(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints, int n,
                            const char *call, char *why);

/* Call ncclGroupEnd and wait until all calls of the group are done. ${result}: the first error of
 * these calls, or what the last of them returned. Returns the first error, or ncclSuccess. */
ncclResult_t ar_comms_end(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints, int n,
                          ncclResult_t result, const char *call, char *why);

/* Mark all endpoints as timed out because ${first} is: NCCL runs a group of calls as one job. */
ncclResult_t ar_comms_timed_out(struct ar_endpoint *const *endpoints, int n,
                                const struct ar_endpoint *first, char *why);

#endif

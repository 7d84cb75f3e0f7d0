/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_wait.h - communicators made with ncclConfig_t.blocking = 0: wait until NCCL is done.
 *
 * Such a communicator works in a thread of NCCL's. A call answers ncclInProgress, and until
 * ncclCommGetAsyncError answers something else its outputs are not there, and the next call would
 * fail and spoil the communicator. So every call of ours on a communicator is: wait, call, wait.
 * On a blocking one the first is a look and the second nothing.
 *
 * A wait ends after the endpoint's time limit, or within a second of an abort. Then the communicator
 * is late, for ever: NCCL may still read and write what it was given, so nothing of that is freed,
 * and no further call is made. No CUDA in here: a stream of the caller's may be in capture.
 */
#ifndef AR_NCCL_WAIT_H_
#define AR_NCCL_WAIT_H_

#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"

/*
 * ar_comm_wait(nccl, voice, result, call, why):
 * ${result} of ${call}, once it is not ncclInProgress any more; before a call write
 * ncclInProgress. ${why}, AR_WHY bytes, becomes a sentence that names ${call} unless the answer is
 * ncclSuccess. ncclRemoteError: late. ncclInvalidUsage: late and aborted.
 */
ncclResult_t ar_comm_wait(const struct ar_nccl *nccl, struct ar_endpoint *endpoint,
                          ncclResult_t result, const char *call, char *why);

/* One round of a loop that waits, *start 0 in the first: sleeps a little and answers
 * ncclInProgress, or makes the communicator late. */
ncclResult_t ar_comm_poll(struct ar_endpoint *endpoint, uint64_t *start, const char *call);

/* ncclGroupStart for calls on all of ${endpoints}; when it succeeds, ar_comms_end must follow. Inside
 * a group no call is waited for, ncclInProgress is as good as ncclSuccess. */
ncclResult_t ar_comms_start(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints, int n,
                            const char *call, char *why);

/* ncclGroupEnd; ${result} is the first error of the calls inside, or ncclSuccess. */
ncclResult_t ar_comms_end(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints, int n,
                          ncclResult_t result, const char *call, char *why);

/* ${first} is late, so all are: the calls of a group are one job of NCCL's thread. */
ncclResult_t ar_comms_timed_out(struct ar_endpoint *const *endpoints, int n,
                                const struct ar_endpoint *first, char *why);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* peer_access.h - may the kernels of other GPUs touch this address? */
#ifndef FFI_PEER_ACCESS_H_
#define FFI_PEER_ACCESS_H_

/* Whether each of the ${n} GPUs can read and write at ${p}. Peer access between the GPUs must be
 * on. A variable, so that a test without GPUs can say what it is. */
extern int (*ffi_peer_access)(const void *p, const int *gpus, int n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* peer_access.h - can other GPUs read and write at an address? */
#ifndef FFI_PEER_ACCESS_H_
#define FFI_PEER_ACCESS_H_

/* Can each of the ${n} GPUs read and write at ${p}? Assumes that peer access between them is
 * enabled. This is a variable so that a test without GPUs can replace the function. */
extern int (*ffi_peer_access)(const void *p, const int *gpus, int n);

#endif

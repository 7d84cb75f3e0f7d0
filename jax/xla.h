/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xla.h - get XLA's own communicator of a group, through its FFI extension "collectives".
 *
 * jaxlib 0.11.2 attaches the extension to custom calls on GPUs. A call requests the communicator in
 * its prepare stage. XLA then makes a communicator, or uses an existing one. From the initialize
 * stage on, the call can get it as an ncclComm_t. The communicator belongs to XLA, so we neither
 * abort nor destroy it.
 */
#ifndef FFI_XLA_H_
#define FFI_XLA_H_

#include "jax/frame.h"

/* Does the runtime offer the extension to this call, in a version that we know? */
int ffi_xla_offers(const XLA_FFI_CallFrame *frame);

/* Call this in the prepare stage. Request the communicator of the group of this device. ${flat}
 * lists all groups of the call; XLA picks the one that has this device. Returns NULL, or XLA's
 * error. */
XLA_FFI_Error *ffi_xla_request(const XLA_FFI_CallFrame *frame, const struct ffi_flat *flat);

/* Call this in the initialize stage or later. Set *comm to the communicator that was requested.
 * Returns NULL, or XLA's error. */
XLA_FFI_Error *ffi_xla_get(const XLA_FFI_CallFrame *frame, const struct ffi_flat *flat,
                           void **comm);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xla.h - get XLA's own communicator of a group, through its FFI extension "collectives".
 *
 * jaxlib 0.11.2 attaches the extension to custom calls on GPUs. A call requests the communicator in
 * the prepare stage; XLA makes or finds it; from the initialize stage on the call can get it as an
 * ncclComm_t. It belongs to XLA, so we neither abort nor destroy it.
 */
#ifndef FFI_XLA_H_
#define FFI_XLA_H_

#include "jax/frame.h"

/* Does the runtime offer the extension to this call, in a version that we know? */
int ffi_xla_offers(const XLA_FFI_CallFrame *frame);

/* In the prepare stage: request the communicator of the group of ${flat} that has this device. */
XLA_FFI_Error *ffi_xla_request(const XLA_FFI_CallFrame *frame, const struct ffi_flat *flat);

/* In the initialize stage or later: get it. */
XLA_FFI_Error *ffi_xla_get(const XLA_FFI_CallFrame *frame, const struct ffi_flat *flat,
                           void **comm);

#endif

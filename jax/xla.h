/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xla.h - the communicator that XLA has for a group, through its FFI extension "collectives".
 *
 * jaxlib 0.11.2 attaches the extension to custom calls on GPUs. A call asks for the communicator in
 * the prepare stage, XLA makes or finds it, and from the initialize stage on the call may have it
 * as an ncclComm_t, which stays XLA's: it is neither aborted nor destroyed here.
 */
#ifndef FFI_XLA_H_
#define FFI_XLA_H_

#include "jax/frame.h"

/* Whether the runtime offers the extension, in a version that we know, to this call. */
int ffi_xla_offers(const XLA_FFI_CallFrame *frame);

/* Ask for the communicator of the row of ${flat} that this device is in. Prepare stage. */
XLA_FFI_Error *ffi_xla_request(const XLA_FFI_CallFrame *frame, const struct ffi_flat *flat);

/* Have it. Initialize stage and later. */
XLA_FFI_Error *ffi_xla_get(const XLA_FFI_CallFrame *frame, const struct ffi_flat *flat,
                           void **comm);

#endif

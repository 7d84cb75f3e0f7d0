/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm.h - GPU memory that a program allocated by cuMemCreate, and that other processes map by a
 * file descriptor.
 *
 * XLA's pool is such memory from jax 0.11.0 on. CUDA IPC cannot map it. There is a descriptor only
 * if the program that allocated the memory asked for one
 * (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR). XLA does so.
 *
 * Threads    any thread may call, with the GPU's context current.
 */
#ifndef AR_VMM_H_
#define AR_VMM_H_

#include <stdbool.h>
#include <stddef.h>

/* An allocation of cuMemCreate. ${bytes} of it are mapped at ${base}. */
struct ar_vmm {
    unsigned long long handle; /* the driver's handle; another allocation may get it after the
                                  end of this one */
    char *base;
    size_t bytes;
};

/* Find the allocation that is mapped at ${p}. Returns false if there is none that has a descriptor,
 * or if the driver cannot tell. */
bool ar_vmm_find(const void *p, struct ar_vmm *found);

/* Return a new descriptor of the allocation that is mapped at ${p}, or -1. On success, also set
 * *handle to the allocation's handle, which the caller must give back by ar_vmm_release. Until the
 * descriptor is closed and the handle is given back, the memory stays allocated, and no other
 * allocation gets the same handle. */
int ar_vmm_export(const void *p, unsigned long long *handle);
void ar_vmm_release(unsigned long long handle);

/* Map ${bytes} of the allocation of ${fd} for GPU ${device}. Returns the address, or NULL; then
 * *error is the driver's error. ${fd} may be closed afterwards. ar_vmm_unmap ends a mapping. All
 * kernels that use the mapping must have ended before: the driver does not wait for them. */
void *ar_vmm_map(int fd, size_t bytes, int device, int *error);
void ar_vmm_unmap(void *at, size_t bytes);

#endif

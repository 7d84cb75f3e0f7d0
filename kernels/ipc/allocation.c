/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.c - finds the allocation in a GPU's memory that holds a buffer. */
#include "kernels/ipc/allocation.h"

#include <unistd.h>

#include "kernels/ipc/driver.h"
#include "kernels/ipc/vmm.h"

/* Values of enum CUpointer_attribute (cuda.h). */
enum {
    BUFFER_ID = 7,
    DEVICE_ORDINAL = 9,
    IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    RANGE_START_ADDR = 11,
    RANGE_SIZE = 12
};

/* For memory of cuMemCreate, RANGE_START_ADDR and RANGE_SIZE describe the whole range of reserved
 * addresses, in which several allocations may be mapped. So for this memory ar_vmm_find asks the
 * driver which allocation is mapped at ${p}. */
bool ar_allocation_find(const void *p, size_t bytes, int device, struct ar_allocation *found)
{
    int attributes[] = {BUFFER_ID, DEVICE_ORDINAL, RANGE_START_ADDR, RANGE_SIZE,
                        IS_LEGACY_CUDA_IPC_CAPABLE};
    int on = -1, ipc = 0;
    void *values[] = {&found->id, &on, &found->base, &found->bytes, &ipc};
    const char *at = p;
    struct ar_vmm vmm;

    *found = (struct ar_allocation){0};
    if (ar_driver_ask(5, attributes, values, p) != 0 || on != device)
        return false;
    if ((ipc & 0xff) == 0 && ar_vmm_find(p, &vmm))
        *found = (struct ar_allocation){true, vmm.handle, vmm.base, vmm.bytes};
    return found->base != NULL && at >= found->base &&
           bytes <= found->bytes - (size_t)(at - found->base);
}

bool ar_allocation_can_map(const void *p)
{
    int attribute = IS_LEGACY_CUDA_IPC_CAPABLE, ipc = 0, fd;
    void *value = &ipc;
    struct ar_vmm vmm;

    if (ar_driver_ask(1, &attribute, &value, p) != 0)
        return false;
    if ((ipc & 0xff) != 0)
        return true;
    fd = ar_vmm_find(p, &vmm) ? ar_vmm_export(p, &vmm.handle) : -1;
    if (fd < 0)
        return false;
    ar_vmm_release(vmm.handle);
    close(fd);
    return true;
}

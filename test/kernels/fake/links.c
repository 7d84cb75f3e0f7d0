/* SPDX-License-Identifier: Apache-2.0 */
/* links.c - what the fake CUDA (cuda.h) says of the links between GPUs. */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "test/kernels/fake/cuda.h"

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device, (void)peer;
    *can = fake.peers;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    snprintf(text, (size_t)length, "0000:%02x:00.0", device);
    return cudaSuccess;
}

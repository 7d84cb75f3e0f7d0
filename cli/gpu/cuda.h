/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - loads the CUDA driver, NCCL, libsymtuner_ar.so and cuBLAS at run time. So the command
 * can be built without their headers, and can run where these libraries are missing.
 *
 * The prototypes do not use the libraries' own types: a handle is a pointer, a device address is a
 * 64-bit number, a result is an int and 0 means success. These types fit all releases of these
 * libraries.
 *
 * Units: bytes; CUDA's times are milliseconds. Threads: call the load functions from one thread;
 * the loaded functions are as thread-safe as their libraries. Errors: the load functions return
 * false, with a sentence in ${error}.
 */
#ifndef ST_CUDA_H_
#define ST_CUDA_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMTUNER_AR_PLAIN_TYPES
#include "symtuner_ar.h"

typedef uint64_t st_address;
struct st_nccl_id {
    char bytes[128];
};

/* For each function: X(member of the struct below, symbol in the library, result type,
 * (arguments)) */
#define ST_CUDA_MAP(X)                                                                             \
    X(init, "cuInit", int, (unsigned))                                                             \
    X(driver_version, "cuDriverGetVersion", int, (int *))                                          \
    X(device_count, "cuDeviceGetCount", int, (int *))                                              \
    X(device_get, "cuDeviceGet", int, (int *, int))                                                \
    X(device_name, "cuDeviceGetName", int, (char *, int, int))                                     \
    X(device_attribute, "cuDeviceGetAttribute", int, (int *, int, int))                            \
    X(can_access, "cuDeviceCanAccessPeer", int, (int *, int, int))                                 \
    X(context_retain, "cuDevicePrimaryCtxRetain", int, (void **, int))                             \
    X(context_set, "cuCtxSetCurrent", int, (void *))                                               \
    X(synchronize, "cuCtxSynchronize", int, (void))                                                \
    X(enable_peer, "cuCtxEnablePeerAccess", int, (void *, unsigned))                               \
    X(alloc, "cuMemAlloc_v2", int, (st_address *, size_t))                                         \
    X(free, "cuMemFree_v2", int, (st_address))                                                     \
    X(to_device, "cuMemcpyHtoD_v2", int, (st_address, const void *, size_t))                       \
    X(to_host, "cuMemcpyDtoH_v2", int, (void *, st_address, size_t))                               \
    X(fill, "cuMemsetD8_v2", int, (st_address, unsigned char, size_t))                             \
    X(copy_peer, "cuMemcpyPeerAsync", int,                                                         \
      (st_address, void *, st_address, void *, size_t, void *))                                    \
    X(stream_create, "cuStreamCreate", int, (void **, unsigned))                                   \
    X(stream_first, "cuStreamCreateWithPriority", int, (void **, unsigned, int))                   \
    X(stream_behind, "cuStreamWaitEvent", int, (void *, void *, unsigned))                         \
    X(stream_wait, "cuStreamSynchronize", int, (void *))                                           \
    X(event_create, "cuEventCreate", int, (void **, unsigned))                                     \
    X(event_record, "cuEventRecord", int, (void *, void *))                                        \
    X(event_elapsed, "cuEventElapsedTime", int, (float *, void *, void *))                         \
    X(capture_begin, "cuStreamBeginCapture_v2", int, (void *, int))                                \
    X(capture_end, "cuStreamEndCapture", int, (void *, void **))                                   \
    X(graph_make, "cuGraphInstantiateWithFlags", int, (void **, void *, unsigned long long))       \
    X(graph_launch, "cuGraphLaunch", int, (void *, void *))                                        \
    X(graph_exec_free, "cuGraphExecDestroy", int, (void *))                                        \
    X(graph_free, "cuGraphDestroy", int, (void *))                                                 \
    X(module_load, "cuModuleLoadData", int, (void **, const void *))                               \
    X(function_get, "cuModuleGetFunction", int, (void **, void *, const char *))                   \
    X(launch, "cuLaunchKernel", int,                                                               \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,       \
       void **, void **))                                                                          \
    X(error_text, "cuGetErrorString", int, (int, const char **))

#define ST_NCCL_MAP(X)                                                                             \
    X(version, "ncclGetVersion", int, (int *))                                                     \
    X(unique_id, "ncclGetUniqueId", int, (struct st_nccl_id *))                                    \
    X(comm_init, "ncclCommInitRank", int, (void **, int, struct st_nccl_id, int))                  \
    X(comm_free, "ncclCommDestroy", int, (void *))                                                 \
    X(alloc, "ncclMemAlloc", int, (void **, size_t))                                               \
    X(window, "ncclCommWindowRegister", int, (void *, void *, size_t, void **, int))               \
    X(window_free, "ncclCommWindowDeregister", int, (void *, void *))                              \
    X(all_reduce, "ncclAllReduce", int,                                                            \
      (const void *, void *, size_t, int, int, void *, void *))                                    \
    X(all_gather, "ncclAllGather", int, (const void *, void *, size_t, int, void *, void *))       \
    X(reduce_scatter, "ncclReduceScatter", int,                                                    \
      (const void *, void *, size_t, int, int, void *, void *))                                    \
    X(error_text, "ncclGetErrorString", const char *, (int))

#define ST_CUBLAS_MAP(X)                                                                           \
    X(create, "cublasCreate_v2", int, (void **))                                                   \
    X(set_stream, "cublasSetStream_v2", int, (void *, void *))                                     \
    X(set_workspace, "cublasSetWorkspace_v2", int, (void *, void *, size_t))                       \
    X(gemm, "cublasGemmEx", int,                                                                   \
      (void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int,   \
       int, const void *, void *, int, int, int, int))

/* For libsymtuner_ar.so: X(member, name of the function without its prefix "symtuner_ar_") */
#define ST_AR_MAP(X)                                                                               \
    X(create, create)                                                                              \
    X(destroy, destroy)                                                                            \
    X(reserve, reserve)                                                                            \
    X(add_buffers, register)                                                                       \
    X(all_reduce, all_reduce)                                                                      \
    X(reduce_scatter, reduce_scatter)                                                              \
    X(all_gather, all_gather)                                                                      \
    X(query, query_coll)                                                                           \
    X(force, force)                                                                                \
    X(kernel_name, kernel_name)                                                                    \
    X(error_text, error)

#define ST_MEMBER(member, symbol, result, arguments) result(*member) arguments;
struct st_cuda {
    ST_CUDA_MAP(ST_MEMBER)
};
struct st_nccl {
    ST_NCCL_MAP(ST_MEMBER)
};
struct st_cublas {
    ST_CUBLAS_MAP(ST_MEMBER)
};
#undef ST_MEMBER
#define ST_MEMBER(member, function) __typeof__(symtuner_ar_##function) *member;
struct st_ar {
    ST_AR_MAP(ST_MEMBER)
};
#undef ST_MEMBER

/* Load the CUDA driver and initialise it. ${gpus_out} becomes the number of GPUs that this process
 * sees; 0 GPUs is an error. */
bool st_cuda_load(struct st_cuda *cuda_out, int *gpus_out, char *error, size_t size);

/* Load NCCL from ${path}; NULL means the libnccl.so.2 that the loader finds. */
bool st_nccl_load(struct st_nccl *nccl_out, const char *path, char *error, size_t size);

/* Load libsymtuner_ar.so from the path that st_beside_command finds. If that function finds no
 * file, the dynamic loader searches for the library. */
bool st_ar_load(struct st_ar *ar_out, char *error, size_t size);

/* Load libcublas.so.13 if the driver is of CUDA 13 or later and there is such a library. Otherwise
 * load libcublas.so.12. */
bool st_cublas_load(struct st_cublas *cublas_out, const struct st_cuda *cuda, char *error,
                    size_t size);

/* Look for the file ${name} in the folder of this command, and then in the folders lib and lib64
 * beside that folder. Fills ${path} with the path of the file, or with ${name} itself if none of
 * these folders has the file. Returns ${path}. */
const char *st_beside_command(const char *name, char *path, size_t size);

#endif

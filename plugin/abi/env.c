/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.c - NCCL's environment interface, v1 (2.28.7+) and v2 (2.30.7+). No init returns an error,
 * because an error would make NCCL unusable. Hazard: NCCL calls st_env_get while it holds mutexes,
 * so st_env_get may not log.
 */
#include "nccl_abi/env.h"

#include "plugin/env.h"
#include "plugin/log.h"
#include "plugin/process.h"

/* ${caller} is an address in the machine code of the NCCL that calls us. */
static inline nccl_abi_result init(const void *caller, int nccl)
{
    st_env_copy(caller, nccl);
    st_process_env(nccl);
    return NCCL_ABI_SUCCESS;
}

static nccl_abi_result init_v1(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix)
{
    (void)suffix;
    return init(__builtin_return_address(0), major * 10000 + minor * 100 + patch);
}

static nccl_abi_result init_v2(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
                               nccl_abi_logger logger)
{
    (void)suffix;
    st_log_use(logger);
    return init(__builtin_return_address(0), major * 10000 + minor * 100 + patch);
}

static nccl_abi_result finalize(void)
{
    return NCCL_ABI_SUCCESS;
}

extern const struct nccl_abi_env_v1 ncclEnvPlugin_v1;
extern const struct nccl_abi_env_v2 ncclEnvPlugin_v2;
__attribute__((visibility("default"))) const struct nccl_abi_env_v1 ncclEnvPlugin_v1 = {
    "symtuner", init_v1, finalize, st_env_get};
__attribute__((visibility("default"))) const struct nccl_abi_env_v2 ncclEnvPlugin_v2 = {
    "symtuner", init_v2, finalize, st_env_get};

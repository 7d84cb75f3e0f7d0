/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h - NCCL's environment interface, versions 1 (2.28.7+) and 2 (2.30.7+), in our own words.
 *
 * NCCL calls the plugin's get_env instead of getenv for every variable. So for variables that our
 * plugin does not set, get_env must return what getenv returns, or NCCL would not see them. NCCL
 * holds its parameter mutex while it calls get_env, so get_env must not log through NCCL and must
 * not call NCCL.
 */
#ifndef NCCL_ABI_ENV_H_
#define NCCL_ABI_ENV_H_

#include "nccl_abi/base.h"

struct nccl_abi_env_v1 {
    const char *name;
    nccl_abi_result (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix);
    nccl_abi_result (*finalize)(void);
    const char *(*get_env)(const char *name);
};

struct nccl_abi_env_v2 {
    const char *name;
    nccl_abi_result (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char *suffix,
                            nccl_abi_logger logger);
    nccl_abi_result (*finalize)(void);
    const char *(*get_env)(const char *name);
};

_Static_assert(sizeof(struct nccl_abi_env_v1) == 4 * sizeof(void *), "v1 members");
_Static_assert(sizeof(struct nccl_abi_env_v2) == 4 * sizeof(void *), "v2 members");

#endif

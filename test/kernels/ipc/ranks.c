/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - see ranks.h. */
#include "test/kernels/ipc/ranks.h"

#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/memory.h"
#include "test/kernels/fake/nccl.h"

symtuner_ar *pair[2];
char *const place[2] = {(char *)((uintptr_t)1 << 40), (char *)((uintptr_t)2 << 40)};

void make_pair(void)
{
    struct symtuner_ar_config config = small();

    memset(&fake, 0, sizeof fake);
    fake.devices = fake.peers = 2;
    fake.arch = 90;
    fake_memory_clear();
    setenv("SYMTUNER_AR_IPC", "1", 1);
    ck_assert_int_eq(symtuner_ar_create_local(pair, devices, 2, &config), ncclSuccess);
    for (int r = 0; r < 2; r++)
        fake_allocation(place[r], 4 * BYTES, r);
}

void drop_pair(void)
{
    symtuner_ar_destroy(pair, 2);
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(fake_memory.opened + fake_memory.closed, 0);
    unsetenv("SYMTUNER_AR_IPC");
}

const struct ar_args *call(int r, const char *send, char *recv)
{
    symtuner_ar_force(pair[r], "tma_ipc", 0, 0);
    ck_assert_int_eq(
        symtuner_ar_all_reduce(send, recv, FLOATS, ncclFloat32, ncclSum, pair[r], NULL),
        ncclSuccess);
    return &fake.launch[fake.launches - 1].args;
}

/* ---- processes ------------------------------------------------------------------------------- */

pid_t __real_getpid(void);
pid_t __wrap_getpid(void);

_Thread_local int fake_pid;

pid_t __wrap_getpid(void)
{
    return fake_pid != 0 ? fake_pid : __real_getpid();
}

symtuner_ar *of_rank[2];

void create_in_process(int rank)
{
    struct symtuner_ar_config config = small();
    ncclComm_t comm = (ncclComm_t)(uintptr_t)(rank + 1);

    fake_pid = 1000 + rank;
    config.timeout_ms = 5000;
    ck_assert_int_eq(symtuner_ar_create(&of_rank[rank], &comm, 1, &config), ncclSuccess);
}

void destroy_in_process(int rank)
{
    fake_pid = 1000 + rank;
    symtuner_ar_destroy(&of_rank[rank], 1);
}

void make_processes(void)
{
    memset(&fake, 0, sizeof fake);
    fake.devices = fake.peers = 2;
    fake.arch = 90;
    fake_nccl_reset(2);
    fake_memory_clear();
    setenv("SYMTUNER_AR_IPC", "1", 1);
    fake_nccl_threads(create_in_process);
    for (int r = 0; r < 2; r++) {
        pair[r] = of_rank[r];
        fake_allocation(place[r], 4 * BYTES, r);
    }
}

void drop_processes(void)
{
    fake_nccl_threads(destroy_in_process);
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(fake_nccl.live, 0);
    ck_assert_int_eq(fake_memory.opened, fake_memory.closed);
    unsetenv("SYMTUNER_AR_IPC");
}

int open_files(void)
{
    DIR *all = opendir("/proc/self/fd");
    int n = 0;

    ck_assert_ptr_nonnull(all);
    while (readdir(all) != NULL)
        n++;
    closedir(all);
    return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* comms.c - see comms.h. */
#include "test/kernels/windows/comms.h"

#include <check.h>
#include <string.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

symtuner_ar *win_h[RANKS];
void *object[OBJECTS][RANKS];

static void make_ranks(int rank)
{
    struct symtuner_ar_config config = small();
    ncclComm_t comm = (ncclComm_t)(uintptr_t)(rank + 1);

    must(symtuner_ar_create(&win_h[rank], &comm, 1, &config) == ncclSuccess);
}

void set_up_comms(void)
{
    memset(&fake, 0, sizeof fake);
    fake.devices = N;
    fake.peers = 1;
    fake_nccl_reset(RANKS);
    fake_nccl_threads(make_ranks);
}

static void end_rank(int rank)
{
    must(symtuner_ar_destroy(&win_h[rank], 1) == ncclSuccess);
}

void tear_down_comms(void)
{
    fake_nccl_threads(end_rank);
    ck_assert_int_eq(fake.live + fake_nccl.live, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - three ranks that make calls, each in a thread of its own, and checks of what they
 * launch. */
#include "test/kernels/scratch/ranks.h"

#include <check.h>
#include <string.h>
#include <unistd.h>

#include "kernels/scratch/grow.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

struct grow_rank at[RANKS];

static int counts[8]; /* element counts of the calls that call_all makes; 0 ends the list */

/* Make one call on rank ${r}. Its buffers are never read. */
void call_one(int r, int count)
{
    char *p = (char *)((uintptr_t)1 << 42) + ((uintptr_t)r << 36);

    cudaSetDevice(r);
    at[r].result = symtuner_ar_all_reduce(p, p + (1ull << 33), (size_t)count, ncclFloat, ncclSum,
                                          at[r].handle, NULL);
}

static void call_all(int r)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;

    cudaThreadExchangeStreamCaptureMode(&mode);
    usleep((useconds_t)at[r].late_ms * 1000);
    at[r].late_ms = 0;
    if (at[r].in_group)
        ncclGroupStart();
    for (int i = 0; counts[i] != 0; i++)
        call_one(r, counts[i]);
    if (at[r].in_group)
        ncclGroupEnd();
    mode = cudaStreamCaptureModeGlobal;
    cudaThreadExchangeStreamCaptureMode(&mode);
    must(mode == cudaStreamCaptureModeThreadLocal); /* the mode is the same as before the calls */
}

/* Let all ranks make calls with these counts, and check that they launch the same kernels. Returns
 * the number of launches per rank. */
int calls(const int *list)
{
    struct fake_launch seen[RANKS][256];
    int n[RANKS] = {0}, first = fake.launches;

    for (int i = 0; i == 0 || list[i - 1] != 0; i++)
        counts[i] = list[i];
    fake_nccl_threads(call_all);
    for (int i = first; i < fake.launches; i++) {
        const struct fake_launch *l = &fake.launch[i % FAKE_LAUNCHES];

        seen[l->args.me][n[l->args.me]++ % 256] = *l;
    }
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(at[r].result, ncclSuccess);
        ck_assert_int_eq(n[r], n[0]);
        for (int i = 0; i < n[0]; i++) {
            const struct ar_args *a = &seen[0][i].args, *b = &seen[r][i].args;

            must(seen[r][i].kernel == seen[0][i].kernel && seen[r][i].ctas == seen[0][i].ctas);
            must(a->bytes == b->bytes && a->region == b->region && a->half == b->half);
            for (int p = 0; p < RANKS; p++) /* the fake maps the memory of a rank at the same
                                               address on all ranks */
                must(a->peer[p] == b->peer[p] && a->peer[p] != NULL);
        }
    }
    return n[0];
}

void phases(int words, int bulk)
{
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(ar_grow_phase(at[r].handle, AR_ARENA_WORDS), words);
        ck_assert_int_eq(ar_grow_phase(at[r].handle, AR_ARENA_BULK), bulk);
    }
}

/* Return the number of the arena (part of the scratch memory) that the last launch used. */
int last_arena(void)
{
    const struct ar_args *a = &fake.launch[(fake.launches - 1) % FAKE_LAUNCHES].args;

    for (int k = 0; k < AR_ARENAS; k++)
        if (memcmp(a->peer, at[a->me].handle->arena[k].peer, sizeof a->peer) == 0)
            return k;
    return -1;
}

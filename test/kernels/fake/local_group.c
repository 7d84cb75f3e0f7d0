/* SPDX-License-Identifier: Apache-2.0 */
/* local_group.c - makes a group of N ranks with symtuner_ar_create_local on the fake CUDA, with a
 * buffer for each rank. */
#include "test/kernels/fake/local_group.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test/kernels/fake/cuda.h"

symtuner_ar *handles[N];
char *memory[N];
const int devices[N] = {0, 1, 2, 3};

struct symtuner_ar_config small(void)
{
    return (struct symtuner_ar_config){.size = sizeof(struct symtuner_ar_config),
                                       .bulk_bytes = 1 << 20};
}

void set_up(void)
{
    struct symtuner_ar_config config = small();

    memset(&fake, 0, sizeof fake);
    fake.devices = N;
    fake.peers = 1;
    ck_assert_int_eq(symtuner_ar_create_local(handles, devices, N, &config), ncclSuccess);
    for (int r = 0; r < N; r++)
        memory[r] = aligned_alloc(4096, 1 << 20);
}

void tear_down(void)
{
    symtuner_ar_destroy(handles, N);
    for (int r = 0; r < N; r++)
        free(memory[r]);
}

void want_error(ncclResult_t got, ncclResult_t want, const symtuner_ar *h, const char *part)
{
    ck_assert_int_eq(got, want);
    ck_assert_msg(strstr(symtuner_ar_error(h), part) != NULL, "\"%s\" is not in \"%s\"", part,
                  symtuner_ar_error(h));
}

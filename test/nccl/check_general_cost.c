/* SPDX-License-Identifier: Apache-2.0 */
/* check_general_cost.c - tests the cost table of general kernels, at sizes that no recording
 * has. */
#include <check.h>
#include <math.h>
#include <stdint.h>

#include "nccl/model/general_cost.h"
#include "test/suites.h"

static float cost(uint64_t bytes, int algo, int proto)
{
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS];
    struct symtuner_call call;

    symtuner_call_init(&call, 22809);
    call.ranks = 4;
    call.dtype = SYMTUNER_INT8;
    call.count = bytes;
    ck_assert(st_general_table(&call, st_general_family("h200x4"), table));
    return table[algo * SYMTUNER_PROTOS + proto];
}

/* The size of a message decides which share of its bandwidth a tree reaches, from 0.4 to 1
 * (tree_share). With the longest messages the share is 1, or 0.9 with the protocol Simple. */
START_TEST(test_trees_have_a_share_of_their_bandwidth)
{
    static const float last[SYMTUNER_PROTOS] = {1, 1, 0.9f};
    const uint64_t longest = UINT64_C(64) << 22;

    for (int p = 0; p < SYMTUNER_PROTOS; p++) {
        float latency = cost(1, SYMTUNER_TREE, p);
        float all = (float)longest / (cost(longest, SYMTUNER_TREE, p) - latency) / last[p];

        for (uint64_t bytes = 64; bytes <= longest; bytes *= 2) {
            float share = (float)bytes / (cost(bytes, SYMTUNER_TREE, p) - latency) / all;

            ck_assert_msg(isfinite(share) && share > 0.39f && share < 1.05f,
                          "protocol %d, %llu bytes: %g", p, (unsigned long long)bytes,
                          (double)share);
        }
    }
}
END_TEST

Suite *general_cost_suite(void)
{
    Suite *suite = suite_create("general cost");
    TCase *tcase = tcase_create("trees");

    tcase_add_test(tcase, test_trees_have_a_share_of_their_bandwidth);
    suite_add_tcase(suite, tcase);
    return suite;
}

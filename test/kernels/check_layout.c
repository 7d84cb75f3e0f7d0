/* SPDX-License-Identifier: Apache-2.0 */
/* check_layout.c - checks calculations that host code and kernels share, in many small cases. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/shared/dtypes.h"
#include "kernels/shared/layout.h"
#include "test/kernels/reference.h"
#include "test/kernels/scratch_bytes.h"
#include "test/kernels/suites.h"

static const int forms[] = {AR_LL8, AR_LL128, AR_LAMPORT};

/* Each unit (8 bytes) of a message is in exactly one word, in order. No word is empty, except those
 * that fill up a line of LL128. */
START_TEST(test_words_cover_every_unit_once)
{
    static unsigned char seen[4096 / AR_UNIT + 32];

    for (uint64_t bytes = 0; bytes <= 4096; bytes++) {
        uint64_t units = ar_div_up(bytes, AR_UNIT), words = ar_words(forms[_i], bytes);

        memset(seen, 0, sizeof seen);
        for (uint64_t w = 0; w < words; w++) {
            uint64_t first = ar_word_first_unit(forms[_i], w);
            int n = ar_word_units(forms[_i], (int)(w % AR_LINE));

            for (int u = 0; u < n; u++)
                seen[first + (uint64_t)u]++;
        }
        for (uint64_t u = 0; u < units; u++)
            if (seen[u] != 1)
                ck_abort_msg("form %d, %d bytes: unit %d is carried %d times", forms[_i],
                             (int)bytes, (int)u, seen[u]);
    }
}
END_TEST

START_TEST(test_wanted_agrees_with_the_number_of_words)
{
    for (uint64_t bytes = 0; bytes <= 4096; bytes++) {
        uint64_t words = ar_words(forms[_i], bytes);

        for (uint64_t w = 0; w < words + 20; w++)
            must(ar_word_wanted(forms[_i], w, bytes) == (w < words));
    }
}
END_TEST

/* For 0 to 4096 elements of every size and 1 to 16 ranks: the shards cover the message without gap
 * or overlap, and each begins at an address that wide loads accept. Ranks with an empty shard come
 * after all ranks that have something to reduce. */
START_TEST(test_shards_tile_the_message)
{
    static const int sizes[] = {1, 2, 4, 8};

    for (int ranks = 1; ranks <= AR_MAX_RANKS; ranks++)
        for (int s = 0; s < 4; s++)
            for (uint64_t count = 0; count <= 4096; count++) {
                uint64_t bytes = count * (uint64_t)sizes[s], sum = 0;
                uint64_t stride = ar_shard_stride(forms[_i], bytes, ranks);

                must(stride % ar_line_payload(forms[_i]) == 0);
                must(stride % AR_WORD == 0);
                for (int r = 0; r < ranks; r++) {
                    uint64_t mine = ar_shard_bytes(bytes, stride, r);

                    must(mine <= stride && mine % (uint64_t)sizes[s] == 0);
                    must(mine == 0 || sum == stride * (uint64_t)r);
                    sum += mine;
                }
                if (sum != bytes)
                    ck_abort_msg("form %d, %d ranks, %d bytes: shards hold %d", forms[_i], ranks,
                                 (int)bytes, (int)sum);
            }
}
END_TEST

/* The slots of all ranks, for both steps of a two-shot kernel, fit into as much scratch memory as
 * scratch_bytes.h computes. */
START_TEST(test_slots_do_not_overlap)
{
    for (int ranks = 1; ranks <= AR_MAX_RANKS; ranks++)
        for (uint64_t bytes = 1; bytes <= 40000; bytes += 37) {
            int form = forms[_i];
            uint64_t stride = ar_round_up(ar_words(form, bytes), AR_LINE) * AR_WORD;
            uint64_t shard = ar_shard_stride(form, bytes, ranks);
            uint64_t slot = ar_words(form, shard) * AR_WORD;

            must(stride * (uint64_t)ranks <= oneshot_scratch(form, bytes, ranks));
            must(2 * slot * (uint64_t)ranks <= twoshot_scratch(form, bytes, ranks));
            must(stride % (AR_LINE * AR_WORD) == 0);
            must(slot % (AR_LINE * AR_WORD) == 0);
            for (int r = 0; r < ranks; r++)
                must(ar_words(form, ar_shard_bytes(bytes, shard, r)) * AR_WORD <= slot);
        }
}
END_TEST

/* The chunked kernel cuts a shard into tiles. Together the tiles of all its blocks cover the shard,
 * without gap or overlap. */
START_TEST(test_tiles_cover_a_shard)
{
    for (int ctas = 1; ctas <= 9; ctas++)
        for (uint64_t tile = 64; tile <= 4096; tile *= 4)
            for (uint64_t stride = 128; stride <= 65536; stride += 128) {
                uint64_t k = ar_tiles_per_cta(stride, tile, ctas);

                must(k * tile * (uint64_t)ctas >= stride);
                must((k - 1) * tile * (uint64_t)ctas < stride);
            }
}
END_TEST

START_TEST(test_flags_never_repeat_within_two_calls)
{
    static const uint64_t near[] = {1,          2,           0x7fffffff, 0xfffffffe,
                                    0xffffffff, 0x100000000, 0x1ffffffff};

    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
        for (uint64_t e = near[i]; e < near[i] + 4; e++) {
            ck_assert_int_ne(ar_flag32(e), 0);
            ck_assert_int_ne(ar_half(e), ar_half(e + 1));
            ck_assert(ar_half(e) != ar_half(e + 2) || ar_flag32(e) != ar_flag32(e + 2));
            ck_assert(!ar_reached(ar_flag_step(e, AR_MAX_STEPS), ar_flag_step(e + 1, 1)));
            ck_assert(ar_reached(ar_flag_step(e + 1, 1), ar_flag_step(e, AR_MAX_STEPS)));
            ck_assert(!ar_reached(0, ar_flag_step(e, 1)));
        }
}
END_TEST

START_TEST(test_flag_words_have_one_writer)
{
    static unsigned char seen[AR_FLAG_BYTES / 8];

    memset(seen, 0, sizeof seen);
    for (int kind = 0; kind < AR_FLAG_KINDS; kind++)
        for (int cta = 0; cta < AR_MAX_CTAS; cta++)
            for (int writer = 0; writer < AR_MAX_RANKS; writer++) {
                uint64_t at = ar_flag_offset(kind, cta, writer);

                must(at + 8 <= AR_FLAG_BYTES && at % 8 == 0);
                must(seen[at / 8]++ == 0);
            }
}
END_TEST

START_TEST(test_regions_follow_each_other)
{
    uint64_t half[AR_REGIONS] = {100, 4096, 0, 12345, 1};
    struct ar_layout l;

    ar_layout_fill(&l, half);
    ck_assert_int_eq(l.first[0], AR_FLAG_BYTES);
    for (int r = 0; r + 1 < AR_REGIONS; r++) {
        ck_assert(l.half[r] >= half[r]);
        ck_assert_int_eq(l.first[r + 1], l.first[r] + (r < AR_REGION_BULK ? 2 : 1) * l.half[r]);
    }
    ck_assert_int_eq(l.bytes, l.first[AR_REGION_GATHER] + l.half[AR_REGION_GATHER]);
}
END_TEST

/* Lamport kernels mark an empty word by ones in all bits. In every type that they support, this
 * pattern must be a NaN. If it were a number, a call with this number in its data would wait for
 * ever. */
START_TEST(test_lamport_only_where_all_ones_is_nan)
{
    for (int t = 0; t < AR_DTYPES; t++) {
        ck_assert(ar_dtype_bytes(t) > 0);
        if (ar_dtype_lamport(t))
            for (int op = AR_SUM; op <= AR_AVG; op += AR_AVG)
                ck_assert(ar_reducer_of(t, op) <= AR_R_BF16);
    }
    ck_assert(ar_dtype_lamport(AR_F32) && ar_dtype_lamport(AR_F16) && ar_dtype_lamport(AR_BF16));
    /* the lower half of 0x3fefffffffffffff, the largest number below 1, has ones in all bits */
    ck_assert(!ar_dtype_lamport(AR_F64));
    ck_assert(!ar_dtype_lamport(AR_I32)); /* all ones are the number -1 */
    ck_assert_int_eq(ar_dtype_bytes(AR_DTYPES), 0);
    ck_assert_int_eq(ar_dtype_bytes(-1), 0);
}
END_TEST

/* docs/reference/sums.md documents this order. */
START_TEST(test_the_order_of_addition)
{
    static const char *const want[] = {
        "r0",
        "r0+r1",
        "(r0+r1)+r2",
        "(r0+r1)+(r2+r3)",
        "((r0+r1)+(r2+r3))+r4",
        "((r0+r1)+(r2+r3))+(r4+r5)",
        "((r0+r1)+(r2+r3))+((r4+r5)+r6)",
        "((r0+r1)+(r2+r3))+((r4+r5)+(r6+r7))",
        "(((r0+r1)+(r2+r3))+((r4+r5)+(r6+r7)))+r8",
    };
    struct reference_step step[REFERENCE_MOST];

    for (int n = 1; n <= (int)(sizeof want / sizeof *want); n++) {
        char text[16][200], sum[200];
        int steps = reference_order(n, step);

        for (int r = 0; r < n; r++)
            snprintf(text[r], sizeof text[r], "r%d", r);
        ck_assert_int_eq(steps, n - 1);
        for (int k = 0; k < steps; k++) {
            const char *x = text[step[k].to], *y = text[step[k].from];

            snprintf(sum, sizeof sum, strchr(x, '+') ? "(%s)+" : "%s+", x);
            snprintf(sum + strlen(sum), sizeof sum - strlen(sum), strchr(y, '+') ? "(%s)" : "%s",
                     y);
            snprintf(text[step[k].to], sizeof text[0], "%s", sum);
        }
        ck_assert_str_eq(text[0], want[n - 1]);
    }
}
END_TEST

Suite *st_suite_layout(void)
{
    Suite *s = suite_create("ar_layout");
    TCase *t = tcase_create("all");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_words_cover_every_unit_once, 0, 3);
    tcase_add_loop_test(t, test_wanted_agrees_with_the_number_of_words, 0, 3);
    tcase_add_loop_test(t, test_shards_tile_the_message, 0, 3);
    tcase_add_loop_test(t, test_slots_do_not_overlap, 0, 3);
    tcase_add_test(t, test_tiles_cover_a_shard);
    tcase_add_test(t, test_flags_never_repeat_within_two_calls);
    tcase_add_test(t, test_flag_words_have_one_writer);
    tcase_add_test(t, test_regions_follow_each_other);
    tcase_add_test(t, test_lamport_only_where_all_ones_is_nan);
    tcase_add_test(t, test_the_order_of_addition);
    suite_add_tcase(s, t);
    return s;
}

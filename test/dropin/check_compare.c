/* SPDX-License-Identifier: Apache-2.0 */
/* check_compare.c - tests the comparison of the results that two libraries computed: which results
 * does it accept as equal? */
#include <check.h>
#include <math.h>
#include <stdint.h>

#include "dropin/verify/compare.h"
#include "test/suites.h"

enum { I8, U8, I32, U32, I64, U64, F16, F32, F64, BF16, E4M3, E5M2 };
enum { SUM, PROD, MAX, MIN, AVG };

static const struct {
    const char *what;
    int dtype, op, ranks;
    uint64_t a, b; /* the bits of one number, as each library computed it */
    double most;
    bool alike;
} row[] = {
    {"integers are exact", I32, SUM, 2, 7, 8, 8, false},
    {"averages of integers round either way", I32, AVG, 2, 7, 8, 8, true},
    {"and no further", I8, AVG, 2, 0x7f, 0x7d, 127, false},
    {"negative ones, too", I8, AVG, 2, 0xff, 0x00, 1, true},
    {"f32: the last bit", F32, SUM, 2, 0x3f800000, 0x3f800001, 1, true},
    {"f32: ten times that", F32, SUM, 2, 0x3f800000, 0x3f80000a, 1, false},
    {"f32: a small sum of large numbers", F32, SUM, 2, 0x3f800000, 0x3f80000a, 8, true},
    {"f32: the other sign", F32, SUM, 2, 0x3f800000, 0xbf800000, 1, false},
    {"f32: zeros have signs", F32, SUM, 2, 0x00000000, 0x80000000, 1, true},
    {"f32: max is exact", F32, MAX, 2, 0x3f800000, 0x3f800001, 1, false},
    {"f32: max and a NaN", F32, MAX, 2, 0x3f800000, 0x7fc00000, 1, true},
    {"f32: a NaN is no sum", F32, SUM, 2, 0x3f800000, 0x7fc00000, 1, false},
    {"f32: two NaNs", F32, SUM, 2, 0x7fc00001, 0xffc00000, 1, true},
    {"f32: an infinity is no small sum", F32, SUM, 2, 0x3f800000, 0x7f800000, 1, false},
    {"f32: a product", F32, PROD, 4, 0x49800000, 0x49800004, 1, true},
    {"f32: another product", F32, PROD, 4, 0x49800000, 0x49800010, 1, false},
    {"f64: the last bit", F64, SUM, 2, 0x3ff0000000000000, 0x3ff0000000000001, 1, true},
    {"f64: a bit of f32", F64, SUM, 2, 0x3ff0000000000000, 0x3ff0000020000000, 1, false},
    {"f16: the last bit", F16, SUM, 2, 0x3c00, 0x3c01, 1, true},
    {"f16: nine bits", F16, SUM, 2, 0x3c00, 0x3c09, 1, false},
    {"f16: overflow of a partial sum", F16, SUM, 4, 0x7bff, 0x7c00, 60000, true},
    {"f16: a denormal", F16, SUM, 2, 0x0001, 0x0002, 6e-8, true},
    {"bf16: the last bit", BF16, SUM, 8, 0x3f80, 0x3f81, 1, true},
    {"bf16: half as much again", BF16, SUM, 2, 0x3f80, 0x3fc0, 1, false},
    {"bf16: an average", BF16, AVG, 2, 0x3f80, 0x3f84, 1, false},
    {"e4m3: the last bit", E4M3, SUM, 2, 0x38, 0x39, 1, true},
    {"e4m3: twice as much", E4M3, SUM, 2, 0x38, 0x48, 1, false},
    {"e4m3: a NaN", E4M3, SUM, 2, 0x38, 0x7f, 1, false},
    {"e5m2: the last bit", E5M2, SUM, 2, 0x3c, 0x3d, 1, true},
    {"e5m2: an infinity", E5M2, SUM, 2, 0x3c, 0x7c, 1, false},
    {"bytes", U8, SUM, 2, 0xff, 0xfe, 0, false},
};

START_TEST(test_alike)
{
    size_t where = 99;
    bool alike = st_compare_alike(&row[_i].a, &row[_i].b, 1, row[_i].dtype, row[_i].op,
                                  row[_i].ranks, row[_i].most, &where);

    ck_assert_msg(alike == row[_i].alike, "%s", row[_i].what);
    ck_assert_uint_eq(where, alike ? 99 : 0);
    ck_assert(st_compare_alike(&row[_i].b, &row[_i].a, 1, row[_i].dtype, row[_i].op, row[_i].ranks,
                               row[_i].most, &where) == row[_i].alike);
}
END_TEST

START_TEST(test_most)
{
    const float f[] = {1, -3.5f, NAN, 2};
    const int16_t half[] = {0x3c00, (int16_t)0xc400};
    const int8_t bytes[] = {5, -128};
    const uint32_t words[] = {1, 0xffffffffu};
    const float other[] = {1, -3.5f, NAN, 2.5f};
    size_t where = 0;

    ck_assert_double_eq(st_compare_most(f, 4, F32), 3.5);
    ck_assert_double_eq(st_compare_most(half, 2, F16), 4);
    ck_assert_double_eq(st_compare_most(bytes, 2, I8), 128);
    ck_assert_double_eq(st_compare_most(words, 2, U32), 4294967295.0);
    ck_assert_double_eq(st_compare_most(f, 0, F32), 0);
    ck_assert_double_eq(st_compare_most(f, 4, 99), 0);
    ck_assert(!st_compare_alike(f, other, 4, F32, SUM, 2, 3.5, &where));
    ck_assert_uint_eq(where, 3);
}
END_TEST

Suite *compare_suite(void)
{
    Suite *suite = suite_create("compare");
    TCase *tcase = tcase_create("results");

    t_add_rows(tcase, test_alike, row);
    tcase_add_test(tcase, test_most);
    suite_add_tcase(suite, tcase);
    return suite;
}

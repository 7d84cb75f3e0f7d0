/* SPDX-License-Identifier: Apache-2.0 */
/* check_sizes.c - checks byte counts in the forms in which people write them. */
#include <stdio.h>
#include <string.h>

#include "rules/sizes.h"
#include "symtuner.h"
#include "test/random.h"
#include "test/suites.h"

static const struct {
    const char *text;
    uint64_t bytes;
} good[] = {
    {"0", 0},
    {"4096", 4096},
    {"17B", 17},
    {"64KiB", 65536},
    {"1.5KiB", 1536},
    {"1MiB", 1048576},
    {"2GiB", 2147483648u},
    {"1TiB", 1099511627776u},
    {"1kB", 1000},
    {"1.5GB", 1500000000u},
    {"0.000001MB", 1},
    {"3TB", 3000000000000u},
    {"18446744073709551615", UINT64_MAX},
    {"16777215TiB", 16777215ull << 40},
};

START_TEST(test_a_size_is_read_exactly)
{
    uint64_t bytes = 1;
    char error[SYMTUNER_ERROR_MAX] = "";

    ck_assert_msg(symtuner_size_parse(good[_i].text, &bytes, error, sizeof error) == 0, "%s: %s",
                  good[_i].text, error);
    ck_assert_msg(bytes == good[_i].bytes, "%s gave %llu", good[_i].text,
                  (unsigned long long)bytes);
}
END_TEST

static const struct {
    const char *text, *error;
} bad[] = {
    {"", "\"\": a size starts with a digit"},
    {"KiB", "\"KiB\": a size starts with a digit"},
    {"-1", "\"-1\": a size starts with a digit"},
    {"+1", "\"+1\": a size starts with a digit"},
    {"64K", "\"64K\": \"K\" means 1000 and 1024; write KiB or kB"},
    {"64KB", "\"64KB\": \"K\" means 1000 and 1024; write KiB or kB"},
    {"64kb", "\"64kb\": \"K\" means 1000 and 1024; write KiB or kB"},
    {"64 KiB", "\"64 KiB\": unknown unit; write B, KiB, MiB, GiB, TiB, kB, MB, GB or TB"},
    {"1MIB", "\"1MIB\": unknown unit; write B, KiB, MiB, GiB, TiB, kB, MB, GB or TB"},
    {"1.KiB", "\"1.KiB\": a digit must follow the point"},
    {"1.0000001GB", "\"1.0000001GB\": at most six digits after the point"},
    {"1.5", "\"1.5\": the size is not a whole number of bytes"},
    {"0.0001KiB", "\"0.0001KiB\": the size is not a whole number of bytes"},
    {"18446744073709551616", "\"18446744073709551616\": the size is larger than 2^64"},
    {"16777216TiB", "\"16777216TiB\": the size is larger than 2^64"},
};

START_TEST(test_a_wrong_size_says_why)
{
    uint64_t bytes = 42;
    char error[SYMTUNER_ERROR_MAX] = "";

    ck_assert_int_eq(symtuner_size_parse(bad[_i].text, &bytes, error, sizeof error), -1);
    ck_assert_str_eq(error, bad[_i].error);
    ck_assert_uint_eq(bytes, 42); /* the function writes its output only if it succeeds */
}
END_TEST

START_TEST(test_what_is_written_reads_back)
{
    struct t_random random = {t_seed()};
    char text[32];

    for (long i = t_rounds(100000); i > 0; i--) {
        uint64_t bytes = t_size(&random) << (t_below(&random, 3) * 10), back = 0;
        const char *wrong;

        st_size_write(bytes, text, sizeof text);
        wrong = st_size_read(text, strlen(text), &back);
        t_check(!wrong && back == bytes, "%llu is written \"%s\" and reads %llu (%s)",
                      (unsigned long long)bytes, text, (unsigned long long)back,
                      wrong ? wrong : "");
    }
    ck_assert_str_eq(st_size_write(65536, text, sizeof text), "64KiB");
    ck_assert_str_eq(st_size_write(1000, text, sizeof text), "1000B");
}
END_TEST

Suite *sizes_suite(void)
{
    Suite *suite = suite_create("sizes");
    TCase *read = tcase_create("reading"), *write = tcase_create("writing");

    t_add_rows(read, test_a_size_is_read_exactly, good);
    t_add_rows(read, test_a_wrong_size_says_why, bad);
    tcase_add_test(write, test_what_is_written_reads_back);
    suite_add_tcase(suite, read);
    suite_add_tcase(suite, write);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_values.c - checks the results of all-reduces over several boxes (machines), with the real
 * kernels on the CPU (test/kernels/emulated/emulate.h). Streams run beside the host
 * (test/whole/cuda.c). The fake NCCL adds in the order of the boxes, and begins late (net.h).
 *
 * Every element must be what symtuner_ar.h says: numbers of one box are added in the fixed order of
 * addition and rounded once to the type, and then NCCL adds the numbers of the boxes. Every rank
 * must have the same bits.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cut.h"
#include "kernels/shared/dtypes.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"
#include "test/kernels/reference.h"
#include "test/whole/cuda.h"

enum { MOST = 1 << 14, GUARD = 64, FILL_US = 3000, LATE_US = 40000 };

static struct {
    size_t count;
    int type, op;
    bool in_place;
} next;
static char *send[NET_RANKS], *recv[NET_RANKS];
static cudaStream_t stream[NET_RANKS];
static unsigned state = 20261123;

static unsigned draw(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 9) % below;
}

/* Return element ${i} of rank ${r}. Floats have many digits and different exponents, so that
 * another order of addition gives other bits. */
static double value(int r, size_t i)
{
    unsigned h = ((unsigned)i * 97u + (unsigned)r * 40503u + 7u) * 2654435761u;
    double v;

    h ^= h >> 15;
    if (next.type == AR_I32 || next.type == AR_U64 || next.type == AR_U8)
        return next.op == AR_PROD ? 1 + h % 2 : h % 20;
    v = ldexp(1 + ldexp(h >> 16, -16), (int)(h % 21) - 10);
    v = h & 64 ? -v : v;
    if (next.type == AR_BF16) {
        float f = (float)v;
        uint32_t bits;

        memcpy(&bits, &f, 4);
        bits &= 0xffff0000u;
        memcpy(&f, &bits, 4);
        return f;
    }
    return next.type == AR_F32 ? (float)v : v;
}

/* Round ${v} to the nearest number of the call's type, ties to even. */
static double rounded(double v)
{
    float f = (float)v;
    uint32_t bits;
    int e;

    if (next.type == AR_F32)
        return f;
    if (next.type != AR_BF16 || v == 0)
        return v;
    frexp(v, &e);
    f = (float)ldexp(nearbyint(ldexp(v, 8 - e)), e - 8);
    memcpy(&bits, &f, 4);
    return f;
}

static void put(char *p, size_t i, double v)
{
    const float f = (float)v;
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if (next.type == AR_F32)
        memcpy(p + 4 * i, &f, 4);
    else if (next.type == AR_F64)
        memcpy(p + 8 * i, &v, 8);
    else if (next.type == AR_BF16)
        memcpy(p + 2 * i, (char *)&bits + 2, 2);
    else if (next.type == AR_I32)
        memcpy(p + 4 * i, &(int32_t){(int32_t)v}, 4);
    else if (next.type == AR_U64)
        memcpy(p + 8 * i, &(uint64_t){(uint64_t)v}, 8);
    else
        p[i] = (char)(uint8_t)(uint64_t)v;
}

static double combine(double x, double y)
{
    return next.op == AR_PROD  ? x * y
           : next.op == AR_MAX ? fmax(x, y)
           : next.op == AR_MIN ? fmin(x, y)
                               : x + y;
}

/* Return NCCL's result for ${n} numbers: the fake adds them in order and rounds each sum. In f32 it
 * adds floats; adding doubles and rounding to float, as here, gives the same bits. */
static double by_nccl(const double *x, int n)
{
    double sum = x[0];

    for (int k = 1; k < n; k++)
        sum = rounded(next.type == AR_BF16 ? (float)combine(sum, x[k]) : combine(sum, x[k]));
    if (next.op != AR_AVG)
        return sum;
    return next.type == AR_F32    ? (float)sum / (float)n
           : next.type == AR_BF16 ? rounded((float)sum / (float)n)
                                  : sum / n;
}

static double in_box(double *x, int n)
{
    double sum = x[0];

    if (next.type == AR_F32 || next.type == AR_F64 || next.type == AR_BF16)
        return rounded(reference_reduce(next.type, next.op, x, n));
    for (int k = 1; k < n; k++)
        sum = combine(sum, x[k]);
    return sum;
}

static double expected(size_t i, bool held)
{
    const int each = handle[0]->nodes->boxes.ranks;
    double x[NET_RANKS], box[NET_RANKS];

    for (int r = 0; r < net.ranks; r++)
        x[r] = value(r, i);
    if (!held)
        return by_nccl(x, net.ranks);
    for (int b = 0; b < net.ranks / each; b++)
        box[b] = in_box(x + b * each, each);
    return by_nccl(box, net.ranks / each);
}

/* Write the input of rank *what, on its stream. */
static void fill(void *what)
{
    const int r = *(int *)what;

    usleep(FILL_US);
    for (size_t i = 0; i < next.count; i++)
        put(send[r] + GUARD, i, value(r, i));
}

static void open_stream(int r)
{
    cudaSetDevice(r);
    cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking);
}

/* Make the call while the input is still being written. */
static void call_one(int r)
{
    char *out = next.in_place ? send[r] : recv[r];
    ncclResult_t result;

    whole_host(stream[r], fill, &r, sizeof r);
    result =
        symtuner_ar_all_reduce(send[r] + GUARD, out + GUARD, next.count, (ncclDataType_t)next.type,
                               (ncclRedOp_t)next.op, handle[r], stream[r]);
    if (result != ncclSuccess)
        fprintf(stderr, "rank %d: %s\n", r, symtuner_ar_error(handle[r]));
    cudaStreamSynchronize(stream[r]);
}

static void call_and_check(int pieces)
{
    const size_t size = (size_t)ar_dtype_bytes(next.type), bytes = next.count * size;
    const int chosen = ar_nodes_choose(handle[0], bytes, next.type, next.op, NULL, 0);
    const struct st_cut cut = st_cut(bytes, handle[0]->nodes->boxes.ranks, chosen);
    char want[8];

    ck_assert_int_le(chosen, pieces);
    for (int r = 0; r < net.ranks; r++) {
        memset(send[r], 0x5a, MOST);
        memset(recv[r], 0x5a, MOST);
    }
    net_threads(call_one);
    for (int r = 0; r < net.ranks; r++) {
        const char *out = (next.in_place ? send[r] : recv[r]) + GUARD;

        for (size_t i = 0; i < next.count; i++) {
            put(want, 0, expected(i, i * size < st_cut_start(&cut, cut.pieces)));
            ck_assert_msg(memcmp(out + i * size, want, size) == 0,
                          "rank %d, type %d, op %d, %zu in %d pieces: element %zu", r, next.type,
                          next.op, next.count, cut.pieces, i);
        }
        for (int k = 1; k <= GUARD; k++)
            ck_assert(out[-k] == 0x5a && out[bytes + (size_t)k - 1] == 0x5a);
    }
}

static const struct {
    int ranks, each, pieces, calls;
} groups[] = {{4, 2, 3, 20}, {6, 2, 2, 8}, {6, 3, 5, 8}, {8, 4, 2, 4}, {4, 2, 1, 8}};

START_TEST(test_values_are_those_of_the_documented_order)
{
    static const int types[] = {AR_F32, AR_BF16, AR_F64, AR_I32, AR_U64, AR_U8};
    char rule[160];

    snprintf(rule, sizeof rule,
             "kernels kernel=one_ll8 ctas=2 threads=64; kernels network-pieces=%d",
             groups[_i].pieces);
    group_reset(groups[_i].ranks, groups[_i].each, rule);
    fake.arch = 90;
    for (int r = 0; r < net.ranks; r++) {
        send[r] = aligned_alloc(4096, MOST);
        recv[r] = aligned_alloc(4096, MOST);
    }
    net_threads(open_stream);
    group_create();
    whole_nccl.lag_us = LATE_US; /* NCCL begins later than an all-gather in a box can end */
    for (int r = 0; r < net.ranks; r++)
        ck_assert_msg(created[r] == ncclSuccess && handle[r]->nodes != NULL, "%s",
                      created[r] == ncclSuccess ? handle[r]->gate : created_error[r]);
    for (int call = 0; call < groups[_i].calls; call++) {
        next.type = types[draw(6)];
        next.op = (int)draw(AR_OPS);
        if (next.op == AR_AVG && next.type != AR_F32 && next.type != AR_BF16)
            next.op = AR_SUM;
        next.count = 1 + draw(draw(2) ? 1000 : 100);
        next.in_place = draw(2);
        call_and_check(groups[_i].pieces);
    }
    for (int r = 0; r < net.ranks; r++) {
        cudaStreamDestroy(stream[r]);
        free(send[r]);
        free(recv[r]);
    }
    group_destroy();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("nodes_values");
    TCase *t = tcase_create("values");
    SRunner *runner, *lost = srunner_create(nodes_suite_lost());
    int failed;

    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, test_values_are_those_of_the_documented_order, 0,
                        (int)(sizeof groups / sizeof *groups));
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_add_suite(runner, nodes_suite_turns());
    srunner_run_all(runner, CK_ENV);
    /* These tests leave calls that never end, so each needs a process of its own. */
    srunner_set_fork_status(lost, CK_FORK);
    srunner_run_all(lost, CK_ENV);
    failed = srunner_ntests_failed(runner) + srunner_ntests_failed(lost);
    srunner_free(runner);
    srunner_free(lost);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

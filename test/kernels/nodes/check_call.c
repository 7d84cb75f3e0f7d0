/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_call.c - checks all-reduces over several boxes (machines) on the fake CUDA: which kernels
 * and which calls of NCCL are launched, and which step waits for which.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cut.h"
#include "kernels/order/graph.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/steps.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"

enum { MOST = 1 << 20 };

static char *send[NET_RANKS], *recv[NET_RANKS];
static cudaStream_t stream[NET_RANKS];

/* The call that every rank makes next. */
static struct {
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    bool in_place;
    ncclResult_t result[NET_RANKS];
} next;

static void call_one(int r)
{
    next.result[r] = symtuner_ar_all_reduce(send[r], next.in_place ? send[r] : recv[r], next.count,
                                            next.type, next.op, handle[r], stream[r]);
}

static void call_all(size_t count, ncclDataType_t type, ncclRedOp_t op)
{
    next.count = count;
    next.type = type;
    next.op = op;
    net_threads(call_one);
    for (int r = 0; r < net.ranks; r++)
        ck_assert_msg(!next.result[r], "rank %d: %s", r, symtuner_ar_error(handle[r]));
    ck_assert(!whole_nccl.hung);
}

/* Create the handles and the buffers of all ranks. Call group_reset first. */
static void make_group(void)
{
    for (int r = 0; r < net.ranks; r++) {
        send[r] = aligned_alloc(4096, MOST);
        recv[r] = aligned_alloc(4096, MOST);
        memset(send[r], 0, MOST);
        stream[r] = (cudaStream_t)(uintptr_t)(100 + r);
    }
    next.in_place = false;
    group_create();
    for (int r = 0; r < net.ranks; r++)
        ck_assert_msg(created[r] == ncclSuccess && handle[r]->nodes != NULL, "%s",
                      created[r] == ncclSuccess ? handle[r]->gate : created_error[r]);
}

static void open_group(int ranks, int each, const char *rule)
{
    group_reset(ranks, each, rule);
    make_group();
}

static void close_group(void)
{
    int ranks = net.ranks;

    group_destroy();
    for (int r = 0; r < ranks; r++) {
        free(send[r]);
        free(recv[r]);
    }
}

/* ---- what waits for what ----------------------------------------------------------------------
 *
 * seen[i][k] is 1 if step k is sure to end before step i begins ("step i sees step k"). A step sees
 * earlier steps on its stream, and what ended before the events that its stream has waited for.
 */

enum { STEPS = 2048 };

static struct fake_step step[STEPS];
static unsigned char seen[STEPS][STEPS];
static int steps;

/* Copy what the fake CUDA recorded on the GPU of rank ${r} to ${step}, and fill ${seen}. */
static void take_steps(int r)
{
    steps = 0;
    for (int i = 0; i < fake_step_count; i++)
        if (fake_steps[i].device == r) {
            ck_assert_int_lt(steps, STEPS);
            step[steps++] = fake_steps[i];
        }
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < steps; i++) {
        seen[i][i] = 1;
        for (int k = i - 1; k >= 0; k--) { /* the previous step on the same stream */
            if (step[k].stream != step[i].stream)
                continue;
            for (int s = 0; s < steps; s++)
                seen[i][s] |= seen[k][s];
            break;
        }
        for (int k = i - 1; k >= 0 && step[i].what == FAKE_WAIT; k--) {
            if (step[k].what != FAKE_RECORD || step[k].from != step[i].from)
                continue;
            for (int s = 0; s < steps; s++)
                seen[i][s] |= seen[k][s];
            break;
        }
    }
}

static bool inside(const void *p, const char *from, uint64_t bytes)
{
    return (const char *)p >= from && (const char *)p < from + bytes;
}

/* Check on rank ${r} that one call handles its pieces in order. Each piece is reduce-scattered in
 * the box, then all-reduced by NCCL between the boxes, and then all-gathered in the box. All this
 * must end before later work on the caller's stream begins. */
static void must_be_in_order(int r, const struct st_cut *cut, char *out, size_t bytes)
{
    const uint64_t end = st_cut_start(cut, cut->pieces);
    int rest = -1, last = -1;

    take_steps(r);
    for (int p = 0; p < cut->pieces; p++) {
        const uint64_t at = st_cut_start(cut, p), next_at = st_cut_start(cut, p + 1);
        const char *mine = out + at + (uint64_t)handle[r]->nodes->boxes.at * st_cut_part(cut, p);
        int scattered = -1, added = -1, gathered = -1;

        for (int i = 0; i < steps; i++)
            if (step[i].what == FAKE_LAUNCH && scattered < 0 && step[i].from == send[r] + at)
                scattered = i;
            else if (step[i].what == FAKE_NCCL && step[i].to == mine)
                added = i;
        for (int i = 0; i < steps; i++)
            if (step[i].what == FAKE_LAUNCH && i != scattered && step[i].from == mine &&
                inside(step[i].to, out + at, next_at - at))
                gathered = i;
        ck_assert(scattered >= 0 && added >= 0 && gathered >= 0);
        ck_assert(step[scattered].stream == stream[r] && step[gathered].stream == stream[r]);
        ck_assert(step[added].stream != stream[r]);
        ck_assert_uint_eq(step[added].bytes, st_cut_part(cut, p));
        ck_assert_int_eq(seen[added][scattered], 1);
        ck_assert_int_eq(seen[gathered][added], 1);
    }
    for (int i = 0; i < steps; i++) {
        if (step[i].what == FAKE_NCCL && step[i].to == out + end)
            rest = i;
        if (step[i].stream == stream[r])
            last = i;
    }
    ck_assert_int_eq(rest >= 0, end < bytes);
    for (int i = 0; i < steps; i++)
        ck_assert_msg(step[i].what != FAKE_NCCL || seen[last][i], "the call ends before NCCL's %d",
                      i);
    ck_assert(rest < 0 || step[rest].bytes == bytes - end);
}

static const struct {
    int ranks, each, pieces;
    size_t count;
    bool in_place;
} calls[] = {
    {4, 2, 1, 4096, false}, {4, 2, 2, 4096, false}, {4, 2, 3, 4097, true}, {8, 4, 5, 50001, false},
    {6, 2, 4, 4099, false}, {6, 3, 64, 9000, true}, {4, 2, 7, 8, false},   {4, 2, 2, 11, false},
};

START_TEST(test_each_piece_waits_for_its_steps)
{
    char rule[64];
    struct st_cut cut;
    int all = 0;

    snprintf(rule, sizeof rule, "kernels network-pieces=%d", calls[_i].pieces);
    open_group(calls[_i].ranks, calls[_i].each, rule);
    next.in_place = calls[_i].in_place;
    cut = st_cut(4 * calls[_i].count, calls[_i].each, calls[_i].pieces);
    for (int again = 0; again < 2; again++) {
        net.all_reduces = net.some_reduces = fake_step_count = 0;
        call_all(calls[_i].count, ncclFloat, ncclSum);
        ck_assert_int_eq(net.some_reduces, net.ranks * cut.pieces);
        all = st_cut_start(&cut, cut.pieces) < 4 * calls[_i].count;
        ck_assert_int_eq(net.all_reduces, all * net.ranks);
        for (int r = 0; r < net.ranks; r++)
            must_be_in_order(r, &cut, calls[_i].in_place ? send[r] : recv[r], 4 * calls[_i].count);
    }
    close_group();
}
END_TEST

/* A call on another stream must wait until the whole previous call has ended. */
START_TEST(test_a_call_on_another_stream_follows)
{
    cudaStream_t first;

    open_group(4, 2, "kernels network-pieces=2");
    fake_step_count = 0;
    call_all(4096, ncclFloat, ncclSum);
    first = stream[1];
    for (int r = 0; r < 4; r++)
        stream[r] = (cudaStream_t)(uintptr_t)(200 + r);
    call_all(4096, ncclFloat, ncclSum);
    take_steps(1);
    for (int i = 0; i < steps; i++)
        for (int k = 0; k < i; k++)
            if (step[i].what == FAKE_LAUNCH && step[i].stream == stream[1] &&
                step[k].stream == first && step[k].what == FAKE_LAUNCH)
                ck_assert_int_eq(seen[i][k], 1);
    close_group();
}
END_TEST

/* ---- what is chosen -------------------------------------------------------------------------- */

static struct symtuner_ar_plan plan_of(int r, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};

    ck_assert_msg(symtuner_ar_query(send[r], recv[r], count, type, op, handle[r], &plan) ==
                      ncclSuccess,
                  "%s", symtuner_ar_error(handle[r]));
    return plan;
}

START_TEST(test_rules_choose_by_size_type_and_operator)
{
    struct symtuner_ar_plan plan;

    open_group(4, 2,
               "kernels bytes=..4095 network-pieces=0; kernels dtype=f32 network-pieces=3; "
               "kernels kernel=one_ll8");
    plan = plan_of(0, 4096, ncclFloat, ncclSum);
    /* the rule for the ranks of a box chooses this kernel */
    ck_assert_str_eq(plan.kernel, "one_ll8");
    ck_assert_int_eq(plan.pieces, 3);
    ck_assert_int_eq(plan.boxes, 2);
    ck_assert_ptr_nonnull(strstr(plan.why, "2 boxes of 2 ranks: rules: SYMTUNER_RULE:"));
    plan = plan_of(1, 1000, ncclFloat, ncclSum);
    ck_assert_str_eq(plan.kernel, "nccl");
    ck_assert_ptr_nonnull(strstr(plan.why, "2 boxes of 2 ranks: rules: SYMTUNER_RULE:"));
    plan = plan_of(2, 4096, ncclDouble, ncclSum);
    ck_assert_str_eq(plan.kernel, "nccl");
    ck_assert_ptr_nonnull(strstr(plan.why, "no rule covers the call"));
    net.all_reduces = net.some_reduces = 0;
    call_all(4096, ncclDouble, ncclSum);
    ck_assert_int_eq(net.all_reduces, 4);
    ck_assert_int_eq(net.some_reduces, 0);
    close_group();
}
END_TEST

START_TEST(test_what_boxes_cannot_do_is_nccls)
{
    open_group(4, 2, "kernels network-pieces=2");
    ck_assert_str_eq(plan_of(0, 4096, ncclInt, ncclAvg).kernel, "nccl");
    ck_assert_ptr_nonnull(strstr(plan_of(0, 4096, ncclInt, ncclAvg).why, "average of integers"));
    ck_assert_str_ne(plan_of(0, 4096, ncclInt, ncclSum).kernel, "nccl");
    ck_assert_str_ne(plan_of(0, 4096, ncclFloat, ncclAvg).kernel, "nccl");
    ck_assert_str_eq(plan_of(0, 4096, ncclFloat, (ncclRedOp_t)7).kernel, "nccl");
    ck_assert_str_eq(plan_of(0, 7, ncclFloat, ncclSum).kernel, "nccl");
    ck_assert_str_ne(plan_of(0, 8, ncclFloat, ncclSum).kernel, "nccl");
    for (int r = 0; r < 4; r++)
        ck_assert_int_eq(symtuner_ar_force(handle[r], "nccl", 0, 0), ncclSuccess);
    ck_assert_str_eq(plan_of(0, 4096, ncclFloat, ncclSum).kernel, "nccl");
    net.some_reduces = 0;
    call_all(4096, ncclFloat, ncclSum);
    ck_assert_int_eq(net.some_reduces, 0);
    close_group();
}
END_TEST

/* ---- graphs, errors, registered buffers ------------------------------------------------------ */

/* ncclCommDestroy would wait until the graph is gone. So symtuner_ar_destroy keeps NCCL's
 * communicators until then. It frees the scratch memory of the box at once. If the program replays
 * the graph, the kernels of the box find that the handle is destroyed, and stop the replay. */
START_TEST(test_a_graph_keeps_the_communicators)
{
    int comms;

    open_group(4, 2, "kernels network-pieces=2");
    call_all(4096, ncclFloat, ncclSum);
    fake.capture = 7;
    call_all(4096, ncclFloat, ncclSum);
    fake.capture = 0;
    comms = whole_nccl.live;
    for (int r = 0; r < 4; r++) {
        symtuner_ar *h = handle[r];

        ck_assert_int_eq(symtuner_ar_destroy(&h, 1), ncclSuccess);
        handle[r] = NULL;
    }
    ck_assert_int_lt(whole_nccl.live, comms);
    ck_assert_int_eq(whole_nccl.live,
                     4 + 2 * 4); /* 4 communicators of all ranks, and two parts per rank */
    fake_graph_gone(7);
    close_group(); /* this also frees what the graph held */
}
END_TEST

START_TEST(test_an_error_in_the_box_is_the_handles)
{
    open_group(4, 2, "kernels network-pieces=2");
    ck_assert_int_eq(symtuner_ar_status(handle[2]), ncclSuccess);
    handle[2]->nodes->box->mailbox->error = AR_TIMEOUT;
    ck_assert_int_eq(symtuner_ar_status(handle[2]), ncclRemoteError);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(handle[2]), "in the box: a kernel waited"));
    ck_assert_int_eq(
        symtuner_ar_all_reduce(send[2], recv[2], 4096, ncclFloat, ncclSum, handle[2], NULL),
        ncclRemoteError);
    handle[2]->nodes->box->mailbox->error = AR_ALIVE;
    ck_assert_int_eq(symtuner_ar_abort(handle[1]), ncclSuccess);
    ck_assert_int_eq(handle[1]->nodes->box->mailbox->abort,
                     AR_ABORTED); /* the word that the kernels of the box read */
    ck_assert_int_eq(symtuner_ar_status(handle[1]), ncclInvalidUsage);
    ck_assert_int_eq(symtuner_ar_status(handle[0]), ncclSuccess);
    handle[3]->nodes->box->mailbox->error = AR_TIMEOUT;
    ck_assert_int_eq(symtuner_ar_destroy(&handle[3], 1), ncclRemoteError);
    close_group();
}
END_TEST

static void *buffer[NET_RANKS];
static ncclResult_t registered[NET_RANKS];
static int current[NET_RANKS]; /* the GPU that is current after the call */
static bool own_windows;       /* the program has registered the buffers with NCCL */

/* Register the buffer of rank ${r} while the GPU of another rank is current. */
static void register_one(int r)
{
    const ncclWindow_t window = (ncclWindow_t)buffer[r];

    cudaSetDevice((r + 1) % NET_RANKS);
    registered[r] = symtuner_ar_register(&handle[r], &buffer[r], own_windows ? &window : NULL, 1,
                                         1 << 16);
    cudaGetDevice(&current[r]);
}

static void deregister_one(int r)
{
    cudaSetDevice((r + 1) % NET_RANKS);
    registered[r] = symtuner_ar_deregister(&handle[r], &buffer[r], 1);
    cudaGetDevice(&current[r]);
}

START_TEST(test_buffers_are_registered_in_every_box_or_in_none)
{
    open_group(4, 2, "kernels network-pieces=1");
    for (int r = 0; r < 4; r++)
        buffer[r] = recv[r];
    net_threads(register_one);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(registered[r], ncclSuccess);
        ck_assert_int_eq(current[r], (r + 1) % NET_RANKS);
        ck_assert_ptr_nonnull(ar_window_find(handle[r]->nodes->box, recv[r], 1 << 16));
    }
    net_threads(deregister_one);
    for (int r = 0; r < 4; r++)
        ck_assert_ptr_null(ar_window_find(handle[r]->nodes->box, recv[r], 1 << 16));
    buffer[3] = recv[3] + 4; /* an unaligned buffer in the second box */
    net_threads(register_one);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_ne(registered[r], ncclSuccess);
        ck_assert_msg(strstr(symtuner_ar_error(handle[r]), "aligned") != NULL, "%s",
                      symtuner_ar_error(handle[r]));
        ck_assert_ptr_null(ar_window_find(handle[r]->nodes->box, recv[r], 1 << 16));
    }
    close_group();
}
END_TEST

/* If a graph of one rank uses the buffer, the buffer stays registered in all boxes. */
START_TEST(test_buffers_are_deregistered_in_every_box_or_in_none)
{
    open_group(4, 2, "kernels network-pieces=1");
    for (int r = 0; r < 4; r++)
        buffer[r] = recv[r];
    net_threads(register_one);
    fake.capture = 7;
    call_all(4096, ncclFloat, ncclSum);
    fake.capture = 0;
    for (int r = 1; r < 4; r++)
        handle[r]->nodes->box->graphs->windows = 0;
    net_threads(deregister_one);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(registered[r], r == 0 ? ncclInvalidUsage : ncclRemoteError);
        ck_assert_int_eq(current[r], (r + 1) % NET_RANKS);
        ck_assert_msg(strstr(symtuner_ar_error(handle[r]), "in a box: rank 0: buffers[0]: a graph"),
                      "%s", symtuner_ar_error(handle[r]));
        ck_assert_ptr_nonnull(ar_window_find(handle[r]->nodes->box, recv[r], 1 << 16));
    }
    fake_graph_gone(7);
    net_threads(deregister_one);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(registered[r], ncclSuccess);
        ck_assert_ptr_null(ar_window_find(handle[r]->nodes->box, recv[r], 1 << 16));
    }
    close_group();
}
END_TEST

/* A window of the program spans all boxes. Our kernels run inside a box, so they cannot use it. */
START_TEST(test_windows_of_the_program_have_no_effect)
{
    open_group(4, 2, "kernels network-pieces=1");
    own_windows = true;
    for (int r = 0; r < 4; r++)
        buffer[r] = recv[r];
    net_threads(register_one);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(registered[r], ncclSuccess);
        ck_assert_ptr_null(ar_window_find(handle[r]->nodes->box, recv[r], 1 << 16));
    }
    net_threads(deregister_one);
    for (int r = 0; r < 4; r++)
        ck_assert_msg(registered[r] == ncclSuccess, "%s", symtuner_ar_error(handle[r]));
    own_windows = false;
    close_group();
}
END_TEST

static void reserve_one(int r)
{
    registered[r] = symtuner_ar_reserve(&handle[r], 1, 8 << 20);
}

START_TEST(test_scratch_is_reserved_in_the_box)
{
    open_group(4, 2, "kernels network-pieces=1");
    fake.global_capture = 1; /* another thread captures */
    net_threads(reserve_one);
    fake.global_capture = 0;
    ck_assert_int_eq(fake.prohibited, 0);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(registered[r], ncclSuccess);
        ck_assert_ptr_nonnull(handle[r]->nodes->box->arena[AR_ARENA_WORDS].peer[0]);
    }
    close_group();
}
END_TEST

/* With config.one_stream a handle records no events. Measuring must not change that. */
START_TEST(test_one_stream_is_still_one_after_measuring)
{
    int idles;

    group_reset(4, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    group_config.one_stream = 1;
    group_config.beside = SYMTUNER_AR_ALONE;
    net.adds_nothing = true;
    make_group();
    for (int r = 0; r < 4; r++) /* measured times are random on a busy machine, so make NCCL slow */
        for (int i = 0; i < AR_NODES_SIZES; i++)
            handle[r]->nodes->figures.us[AR_WAY_NCCL][i] = 1e9f;
    idles = fake.idles;
    net.some_reduces = 0;
    call_all(1 << 18, ncclFloat, ncclSum);
    ck_assert_int_gt(net.some_reduces, 0);
    ck_assert_int_eq(fake.idles, idles);
    for (int r = 0; r < 4; r++)
        ck_assert(handle[r]->one_stream && handle[r]->nodes->box->one_stream);
    close_group();
}
END_TEST

Suite *nodes_suite_call(void)
{
    Suite *s = suite_create("nodes_call");
    TCase *t = tcase_create("call");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_each_piece_waits_for_its_steps, 0,
                        (int)(sizeof calls / sizeof *calls));
    tcase_add_test(t, test_a_call_on_another_stream_follows);
    tcase_add_test(t, test_rules_choose_by_size_type_and_operator);
    tcase_add_test(t, test_what_boxes_cannot_do_is_nccls);
    tcase_add_test(t, test_a_graph_keeps_the_communicators);
    tcase_add_test(t, test_an_error_in_the_box_is_the_handles);
    tcase_add_test(t, test_buffers_are_registered_in_every_box_or_in_none);
    tcase_add_test(t, test_buffers_are_deregistered_in_every_box_or_in_none);
    tcase_add_test(t, test_windows_of_the_program_have_no_effect);
    tcase_add_test(t, test_scratch_is_reserved_in_the_box);
    tcase_add_test(t, test_one_stream_is_still_one_after_measuring);
    suite_add_tcase(s, t);
    return s;
}

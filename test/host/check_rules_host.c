/* SPDX-License-Identifier: Apache-2.0 */
/* check_rules_host.c - checks that the plugin answers as the API of include/symtuner.h does,
 * whatever the order of the questions. */
#include <stdlib.h>
#include <string.h>

#include "test/host/nccl.h"

enum { QUESTIONS = 20000 };

static const char policy[] =
    "allreduce bytes=..64KiB registered=no prefer=general:ring/ll;"
    "allreduce bytes=64KiB..1MiB prefer=symmetric channels=8;"
    "allreduce bytes=1MiB.. forbid=tree/*,nvls prefer=general:*/simple;"
    "allgather,reducescatter bytes-per-rank=1KiB..256KiB prefer=symmetric;"
    "allgather,reducescatter bytes-per-rank=256KiB..512KiB pipe-ops=2.. channels=4;"
    "allgather,reducescatter bytes-per-rank=256KiB.. registered=yes prefer=general:*/ll128;"
    "broadcast nodes=1 ranks=8 prefer=general:tree;"
    "any nccl=2.30..2.31 forbid=pat,ring/simple";

static void set_box(void)
{
    setenv("SYMTUNER_MACHINE", "gpu=test box; links=nvlink; multicast=no", 1);
    setenv("SYMTUNER_RULE", policy, 1);
}

static void random_question(struct t_random *random, struct question *question)
{
    question->func = t_below(random, 5);
    question->bytes = (size_t)1 << t_below(random, 24) << t_below(random, 3);
    question->bytes += (size_t)t_below(random, 3) - 1;
    question->pipe_ops = t_below(random, 4);
    question->registered = t_below(random, 2);
    question->channels = 0;
    t_table(random, question->table);
}

/* Put the same question to the API of include/symtuner.h. */
static void ask_api(const symtuner_rules *rules, const struct comm *comm, struct question *question)
{
    struct symtuner_query query = {
        .struct_size = sizeof query,
        .nccl = plugin.release->nccl,
        .coll = (enum symtuner_coll)question->func,
        .bytes = question->bytes,
        .ranks = comm->ranks,
        .nodes = comm->nodes,
        .pipe_ops = question->pipe_ops,
        .registered = question->registered,
        .machine = {"test box", 0, 1, 0, 0}};
    struct symtuner_decision decision = {.struct_size = sizeof decision};

    t_check(plugin.decide(rules, &query, &decision) == SYMTUNER_OK, "refused");
    plugin.apply(&decision, &query, question->table, T_ALGOS, T_PROTOS, &question->channels);
}

START_TEST(test_plugin_and_api_give_the_same_answer)
{
    struct t_random random = {t_seed()};
    symtuner_rules *rules;
    char error[SYMTUNER_ERROR_MAX];
    struct comm comm;
    long changed = 0, rounds = t_rounds(QUESTIONS);

    set_box();
    nccl_load(&releases[_i], 0);
    ck_assert_int_eq(plugin.inline_rules(policy, &rules, error, sizeof error), SYMTUNER_OK);
    ck_assert_int_eq(nccl_comm(&comm, 0x77, 8, 1), 0);
    for (long n = 0; n < rounds; n++) {
        struct question asked, api;

        random_question(&random, &asked);
        api = asked;
        changed += nccl_ask(&comm, &asked);
        ask_api(rules, &comm, &api);
        if (memcmp(asked.table, api.table, sizeof api.table) || asked.channels != api.channels)
            ck_abort_msg("seed 0x%llx question %ld: func %d, %zu bytes, %d ops, registered %d",
                         (unsigned long long)t_seed(), n, asked.func, asked.bytes, asked.pipe_ops,
                         asked.registered);
    }
    ck_assert_int_gt(changed, rounds / 20);
    nccl_comm_end(&comm);
    plugin.free_rules(rules);
}
END_TEST

enum { POOL = 512 };

START_TEST(test_answers_depend_on_nothing_that_was_asked_before)
{
    static struct question pool[POOL], answer[POOL];
    struct t_random random = {t_seed()};
    struct comm first, second;

    set_box();
    nccl_load(&releases[_i], 0);
    ck_assert_int_eq(nccl_comm(&first, 1, 8, 1), 0);
    for (int i = 0; i < POOL; i++) {
        random_question(&random, &pool[i]);
        answer[i] = pool[i];
        nccl_ask(&first, &answer[i]);
    }
    ck_assert_int_eq(nccl_comm(&second, 2, 8, 1), 0);
    for (int n = 0; n < 20 * POOL; n++) {
        int i = t_below(&random, POOL);
        struct question again = pool[i];

        nccl_ask(n & 1 ? &first : &second, &again);
        t_check(memcmp(&again, &answer[i], sizeof again) == 0, "question %d", i);
    }
    nccl_comm_end(&second);
    nccl_comm_end(&first);
}
END_TEST

START_TEST(test_a_collective_of_each_release_ends_as_the_rules_say)
{
    static const float table[T_CELLS] = {8, 9, 10, 6, 7, 12, -1, -1, -1, -1, -1,
                                         -1, -1, -1, 5, -1, -1, -1, -1, -1, -1};
    struct question last;
    struct comm comm;

    set_box();
    nccl_load(&releases[_i], ENV_PLUGIN);
    ck_assert_int_eq(nccl_comm(&comm, 0x77, 8, 1), 0);
    nccl_collective(&comm, SYMTUNER_ALLREDUCE, 4096, 0, table, 0, &last);
    /* table[3] is ring/ll, and table[14] is nvls/simple */
    ck_assert(last.table[3] == 6.0f && last.table[14] == 12.0f);
    nccl_collective(&comm, SYMTUNER_ALLREDUCE, 2 << 20, 1, table, 0, &last);
    /* table[0] is tree/ll */
    ck_assert(last.table[0] == INFINITY && last.table[14] == INFINITY);
    /* table[5] is ring/simple */
    ck_assert(last.table[5] == 12.0f && last.table[3] == 24.0f);
    nccl_collective(&comm, SYMTUNER_REDUCE, 4096, 0, table, 0, &last);
    ck_assert((last.table[5] == INFINITY) == (releases[_i].nccl / 100 == 230 ||
                                              releases[_i].nccl / 100 == 231));
    nccl_comm_end(&comm);
}
END_TEST

/* NCCL passes the bytes of one channel. They do not tell which rule covers the call, so the plugin
 * does not change chunk sizes. */
START_TEST(test_chunk_sizes_stay_nccl_s)
{
    const struct release *release = &releases[_i];
    const struct nccl_abi_tuner_v6 *tuner;
    struct comm comm;

    if (release->tuner < 6)
        return; /* these versions do not ask for a chunk size */
    set_box();
    nccl_load(release, 0);
    tuner = plugin.tuner;
    ck_assert_int_eq(nccl_comm(&comm, 0x77, 8, 1), 0);
    for (int func = -1; func < 20; func++) {
        size_t chunk = 55;

        ck_assert_int_eq(tuner->get_chunk_size(comm.tuner, func, 4096, 1, 2, 1, &chunk), 0);
        ck_assert_int_eq(tuner->get_chunk_size(NULL, func, 4096, 1, 2, 1, &chunk), 0);
        ck_assert_uint_eq(chunk, 55);
    }
    nccl_comm_end(&comm);
}
END_TEST

START_TEST(test_the_csv_of_nccl_s_example_is_read)
{
    struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {3, 2, 1, 3, 2, 1}, 0};
    struct comm comm;

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("NCCL_TUNER_CONFIG_FILE", "test/golden/rules/nccl_example.csv", 1);
    nccl_load(&releases[_i], 0);
    ck_assert_int_eq(nccl_comm(&comm, 0x77, 8, 1), 0);
    nccl_ask(&comm, &question);
    ck_assert_int_eq(question.channels, 2);
    nccl_comm_end(&comm);
}
END_TEST

/* A process may have several copies of NCCL: torch's and cupy's, or the one that vLLM opens. The
 * release of the first must not decide for communicators of the second. */
START_TEST(test_each_nccl_of_a_process_gets_the_rules_of_its_release)
{
    static const int copies[] = {22809, 22907, 22809};

    setenv("SYMTUNER_MACHINE", "gpu=test box; links=nvlink; multicast=no", 1);
    setenv("SYMTUNER_RULE", "allreduce nccl=2.28 channels=2; allreduce nccl=2.29 channels=3", 1);
    for (int copy = 0; copy < 3; copy++) {
        struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {1, 2, 3}, 0};
        const struct release *release = releases;
        struct comm comm;

        while (release->nccl != copies[copy])
            release++;
        nccl_load(release, _i ? ENV_PLUGIN : 0);
        ck_assert_int_eq(nccl_comm(&comm, 0x1234 + (uint64_t)copy, 8, 1), 0);
        ck_assert_int_eq(nccl_ask(&comm, &question), 0);
        ck_assert_int_eq(question.channels, copies[copy] / 100 % 100 == 28 ? 2 : 3);
        nccl_comm_end(&comm);
    }
}
END_TEST

Suite *rules_host_suite(void)
{
    Suite *suite = suite_create("rules in the plugin");
    TCase *same = tcase_create("same answer"), *effect = tcase_create("effect");

    tcase_set_timeout(same, 60);
    t_each_release(same, test_plugin_and_api_give_the_same_answer);
    t_each_release(same, test_answers_depend_on_nothing_that_was_asked_before);
    t_each_release(effect, test_a_collective_of_each_release_ends_as_the_rules_say);
    tcase_add_loop_test(effect, test_each_nccl_of_a_process_gets_the_rules_of_its_release, 0, 2);
    t_each_release(effect, test_chunk_sizes_stay_nccl_s);
    t_each_release(effect, test_the_csv_of_nccl_s_example_is_read);
    suite_add_tcase(suite, same);
    suite_add_tcase(suite, effect);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_chain.c - checks that symtuner asks a tuner behind it as NCCL would ask that tuner without
 * symtuner, and applies its rules to that tuner's answer. */
#include <stdlib.h>
#include <string.h>

#include "test/host/chain.h"

/* ---- every version behind every release -------------------------------------------------------
 */

enum { VERSIONS = 6 };

static int served(const struct release *release, int version)
{
    return release->tuner >= 5 || version <= 4;
}

START_TEST(test_every_version_behind_every_release)
{
    const struct release *release = &releases[_i / VERSIONS];
    int version = 2 + _i % VERSIONS;
    struct tuner_record *next;
    struct comm comm;

    chain_begin(NULL);
    next = chain_fake_version(version);
    next->bend = 0.25;
    nccl_load(release, 0);
    ck_assert_int_eq(nccl_rank(&comm, 0xbeef, 8, 2), 0);
    if (!served(release, version)) {
        ck_assert_int_eq(next->inits, 0);
        chain_said("which cannot be served by this NCCL's v4; not chained");
        nccl_comm_end(&comm);
        return;
    }
    chain_said("behind this tuner: \"fake\" (v");
    ck_assert_int_eq(next->inits, 1);
    ck_assert_uint_eq(next->ranks, 8);
    ck_assert_uint_eq(next->nodes, 2);
    ck_assert(next->logger == nccl_logger);
    if (version >= 5) {
        size_t n = release->tuner == 7 ? 5 : 4;

        ck_assert_uint_eq(next->comm_id, 0xbeef);
        ck_assert_int_eq(next->domains.domains, 2);
        ck_assert_int_eq(next->domains.max_ranks, 8);
        /* constants 84 and up are arrays, each with ${rows} rows of 3 numbers */
        for (size_t i = 0; i < (version == 7 ? 159 : 144); i++) {
            size_t rows = version == 7 ? 5 : 4, at = i < 84 ? 0 : (i - 84) % (rows * 3);
            size_t array = i < 84 ? 0 : (i - 84) / (rows * 3);
            double given = i < 84        ? 1 + (double)i
                           : at >= n * 3 ? -1
                                         : 1 + 84 + (double)(array * n * 3 + at);

            ck_assert_msg(next->constant[i] == given, "constant %zu: %g, not %g", i,
                          next->constant[i], given);
        }
        for (size_t i = 0; i < (n == 5 ? 159 : 144); i++) { /* NCCL keeps what the tuner wrote */
            int hidden = i >= 84 && n == 5 && version < 7 && (i - 84) % 15 >= 12;

            ck_assert_msg(nccl_constants.u.number[i] == 1 + (double)i + (hidden ? 0 : 0.25),
                          "NCCL's constant %zu: %g", i, nccl_constants.u.number[i]);
        }
    }
    for (int func = 0; func < 5; func++) {
        struct question q = chain_question(func);

        next->channels = 7;
        next->write = version >= 3;
        for (int i = 0; i < T_CELLS; i++)
            next->answer[i] = (float)(i - 5) / 3;
        next->algo = 1, next->proto = 2;
        ck_assert_int_eq(chain_ask(&comm, &q), 0);
        ck_assert_int_eq(next->asks, func + 1);
        ck_assert_int_eq(next->func, func);
        ck_assert_uint_eq(next->bytes, 4096);
        ck_assert_int_eq(next->pipe_ops, 3);
        ck_assert_int_eq(next->given_channels, 2);
        ck_assert_int_eq(q.channels, 7);
        if (version >= 3) {
            ck_assert_int_eq(next->n_algo, T_ALGOS);
            ck_assert_int_eq(next->n_proto, T_PROTOS);
            ck_assert(memcmp(next->given, chain_table, sizeof chain_table) == 0);
            /* the tables are equal bit for bit */
            ck_assert(memcmp(q.table, next->answer, sizeof chain_table) == 0);
        } else {
            struct question want = chain_question(func);

            want.table[1 * T_PROTOS + 2] = 0;
            ck_assert(memcmp(q.table, want.table, sizeof chain_table) == 0);
            ck_assert_int_eq(next->nvls, 1);
            ck_assert_int_eq(next->coll_net, 0);
        }
        if (version >= 4)
            ck_assert_int_eq(next->reg_buff, 1);
    }
    if (release->tuner >= 6) {
        size_t chunk = 65536;

        next->chunk = 4096;
        ck_assert_int_eq(((const struct nccl_abi_tuner_v6 *)plugin.tuner)
                             ->get_chunk_size(comm.tuner, 4, 777, 1, 2, 3, &chunk),
                         0);
        ck_assert_uint_eq(chunk, version >= 6 ? 4096 : 65536);
        ck_assert_int_eq(next->chunks, version >= 6);
        ck_assert(version < 6 || (next->chunk_func == 4 && next->chunk_bytes == 777 &&
                                  next->chunk_algo == 1 && next->chunk_proto == 2 &&
                                  next->chunk_channels == 3 && next->given_chunk == 65536));
    }
    nccl_comm_end(&comm);
    ck_assert_int_eq(next->ends, 1);
    ck_assert_int_eq(next->wrong_ctx, 0);
}
END_TEST

START_TEST(test_each_communicator_has_its_own_context)
{
    struct tuner_record *next;
    struct comm comm[3];

    chain_begin(NULL);
    next = chain_fake_version(4);
    nccl_load(&releases[_i], 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(nccl_rank(&comm[i], (uint64_t)i, 8, 1), 0);
    for (int i = 0; i < 3; i++) {
        struct question q = chain_question(SYMTUNER_ALLREDUCE);

        ck_assert_int_eq(chain_ask(&comm[i], &q), 0);
    }
    for (int i = 0; i < 3; i++)
        nccl_comm_end(&comm[i]);
    ck_assert_int_eq(next->inits, 3);
    ck_assert_int_eq(next->asks, 3);
    ck_assert_int_eq(next->ends, 3);
    ck_assert_int_eq(next->wrong_ctx, 0);
}
END_TEST

/* ---- first the tuner behind symtuner, then symtuner's rule ----------------------------------- */

static int picked(const float *costs, const struct release *release)
{
    int best = -1;

    for (int i = 0; i < T_CELLS; i++)
        if (chain_table[i] >= 0 && (release->nccl >= 23100 || costs[i] >= 0) &&
            (best < 0 || costs[i] < costs[best]))
            best = i;
    return best;
}

START_TEST(test_a_rule_has_the_last_word_and_only_where_it_covers)
{
    const struct release *release = &releases[_i];
    struct question q = chain_question(SYMTUNER_ALLREDUCE),
                    other = chain_question(SYMTUNER_BROADCAST);
    struct tuner_record *next;
    struct comm comm;

    chain_begin("allreduce prefer=general:ring/ll");
    next = chain_fake_version(release->tuner);
    next->write = 1;
    memcpy(next->answer, chain_table, sizeof chain_table);
    next->answer[0] = 0;   /* tree/ll wins in any case */
    next->answer[14] = -1; /* nvls/simple: "do not use" */
    nccl_load(release, 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 8, 1), 0);
    ck_assert_int_eq(chain_ask(&comm, &q), 0);
    ck_assert_int_eq(picked(q.table, release), 3);
    ck_assert_int_eq(chain_ask(&comm, &other), 0);
    ck_assert(memcmp(other.table, next->answer, sizeof chain_table) == 0);
    ck_assert_int_eq(next->asks, 2);
    nccl_comm_end(&comm);
}
END_TEST

static const char *const silent[] = {"SYMTUNER_MODE=off", "SYMTUNER_MODE=observe",
                                     "SYMTUNER_RULE=allreduce bytes=1GiB.. channels=4"};

START_TEST(test_where_we_do_nothing_theirs_passes_bit_for_bit)
{
    const struct release *release = &releases[_i / 3];
    char *setting = strdup(silent[_i % 3]);
    struct question q = chain_question(SYMTUNER_ALLREDUCE);
    struct tuner_record *next;
    struct comm comm;

    chain_begin("allreduce channels=4 prefer=general:ring/ll");
    putenv(setting);
    next = chain_fake_version(release->tuner);
    next->write = 1;
    next->channels = 9;
    for (int i = 0; i < T_CELLS; i++)
        next->answer[i] = (float)(7 - i);
    nccl_load(release, 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 8, 1), 0);
    ck_assert_int_eq(chain_ask(&comm, &q), 0);
    ck_assert(memcmp(q.table, next->answer, sizeof q.table) == 0);
    ck_assert_int_eq(q.channels, 9);
    nccl_comm_end(&comm);
    ck_assert_int_eq(next->ends, next->inits);
    if (_i % 3 == 0)
        ck_assert_str_eq(nccl_log.text, ""); /* with SYMTUNER_MODE=off symtuner logs nothing */
}
END_TEST

START_TEST(test_a_rule_has_the_last_word_for_every_collective)
{
    static const char *const rules[] = {
        "broadcast prefer=general:ring/ll", "reduce prefer=general:ring/ll",
        "allgather prefer=general:ring/ll", "reducescatter prefer=general:ring/ll",
        "allreduce prefer=general:ring/ll"};
    struct question q = chain_question(_i);
    struct comm comm;

    chain_begin(rules[_i]);
    chain_fake_version(4);
    nccl_load(&releases[3], 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 8, 1), 0);
    ck_assert_int_eq(chain_ask(&comm, &q), 0);
    ck_assert_int_eq(picked(q.table, &releases[3]), 3);
    nccl_comm_end(&comm);
}
END_TEST

START_TEST(test_v2_never_revives_what_is_not_there)
{
    struct question q = chain_question(SYMTUNER_ALLREDUCE);
    struct tuner_record *next;
    struct comm comm;
    static const int answers[][2] = {{2, 0}, {6, 2}, {7, 0}, {0, 3}, {-1, 2}, {1, -1}};

    chain_begin(NULL);
    next = chain_fake_version(2);
    next->algo = answers[_i][0], next->proto = answers[_i][1];
    nccl_load(&releases[3], 0);
    ck_assert_int_eq(nccl_rank(&comm, 1, 8, 1), 0);
    ck_assert_int_eq(chain_ask(&comm, &q), 0);
    ck_assert(memcmp(q.table, chain_table, sizeof chain_table) == 0);
    nccl_comm_end(&comm);
}
END_TEST

/* A v2 tuner gets no cost table. It is told only whether CollNet can be used, and whether NVLS or
 * NVLS_TREE can. symtuner finds that out from the table: costs of -1 mean that it cannot. */
START_TEST(test_v2_is_told_what_there_is)
{
    struct question q = chain_question(SYMTUNER_ALLREDUCE);
    struct tuner_record *next;
    struct comm comm;

    chain_begin(NULL);
    next = chain_fake_version(2);
    next->algo = next->proto = -1;
    nccl_load(&releases[3], 0);
    ck_assert_int_eq(nccl_rank(&comm, 1, 8, 1), 0);
    for (int i = 0; i < 3; i++) /* the entries COLLNET_CHAIN, NVLS and NVLS_TREE, with SIMPLE */
        q.table[(3 + i) * T_PROTOS + 2] = _i >> i & 1 ? 7 : -1;
    ck_assert_int_eq(chain_ask(&comm, &q), 0);
    ck_assert_int_eq(next->coll_net, _i & 1);
    ck_assert_int_eq(next->nvls, _i > 1);
    nccl_comm_end(&comm);
}
END_TEST

/* ---- their errors -----------------------------------------------------------------------------
 */

START_TEST(test_an_init_that_fails_is_said_and_we_go_on)
{
    struct question q = chain_question(SYMTUNER_ALLREDUCE), before = q;
    struct tuner_record *next;
    struct comm comm[2];

    chain_begin(NULL);
    next = chain_fake_version(releases[_i].tuner);
    next->fail_init = 3;
    nccl_load(&releases[_i], 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(nccl_rank(&comm[i], (uint64_t)i, 8, 1), 0);
    chain_said("failed its init with error 3: this communicator goes on without it");
    ck_assert_ptr_null(strstr(strstr(nccl_log.text, "failed its init") + 1, "failed its init"));
    ck_assert_int_eq(chain_ask(&comm[0], &q), 0);
    ck_assert(memcmp(&q, &before, sizeof q) == 0);
    for (int i = 0; i < 2; i++)
        nccl_comm_end(&comm[i]);
    ck_assert_int_eq(next->inits, 2);
    ck_assert_int_eq(next->asks, 0);
    ck_assert_int_eq(next->ends, 0);
}
END_TEST

START_TEST(test_an_error_of_a_question_is_handed_to_nccl)
{
    struct question q = chain_question(SYMTUNER_ALLREDUCE);
    struct tuner_record *next;
    struct comm comm;

    chain_begin("allreduce prefer=general:ring/ll");
    next = chain_fake_version(releases[_i].tuner);
    next->fail_ask = 5;
    nccl_load(&releases[_i], 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 8, 1), 0);
    ck_assert_int_eq(chain_ask(&comm, &q), 5);
    ck_assert(memcmp(q.table, chain_table, sizeof chain_table) == 0); /* symtuner applied no rule */
    nccl_comm_end(&comm);
}
END_TEST

Suite *chain_suite(void)
{
    Suite *suite = suite_create("chain");
    TCase *pass = tcase_create("pass on"), *errors = tcase_create("errors");

    tcase_add_loop_test(pass, test_every_version_behind_every_release, 0, RELEASES * VERSIONS);
    t_each_release(pass, test_each_communicator_has_its_own_context);
    t_each_release(pass, test_a_rule_has_the_last_word_and_only_where_it_covers);
    tcase_add_loop_test(pass, test_a_rule_has_the_last_word_for_every_collective, 0, 5);
    tcase_add_loop_test(pass, test_where_we_do_nothing_theirs_passes_bit_for_bit, 0, RELEASES * 3);
    tcase_add_loop_test(pass, test_v2_never_revives_what_is_not_there, 0, 6);
    tcase_add_loop_test(pass, test_v2_is_told_what_there_is, 0, 8);
    t_each_release(errors, test_an_init_that_fails_is_said_and_we_go_on);
    t_each_release(errors, test_an_error_of_a_question_is_handed_to_nccl);
    suite_add_tcase(suite, pass);
    suite_add_tcase(suite, errors);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_threads.c - tests many threads and communicators at the same time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/nccl.h"

enum { THREADS = 64, POOL = 1024 };

static struct question pool[POOL], answer[POOL];
static struct comm shared;
static long rounds;

static void make_pool(void)
{
    struct t_random random = {t_seed()};

    setenv("SYMTUNER_MACHINE", "gpu=test box; links=nvlink; multicast=no", 1);
    setenv("SYMTUNER_RULE", "allreduce bytes=..64KiB prefer=general:ring/ll; allgather "
                            "prefer=symmetric; any registered=yes forbid=tree channels=4", 1);
    rounds = t_rounds(20000);
    for (int i = 0; i < POOL; i++) {
        pool[i].func = t_below(&random, 5);
        pool[i].bytes = t_size(&random);
        pool[i].pipe_ops = t_below(&random, 3);
        pool[i].registered = t_below(&random, 2);
        t_table(&random, pool[i].table);
    }
}

static void answer_pool(const struct comm *comm)
{
    memcpy(answer, pool, sizeof pool);
    for (int i = 0; i < POOL; i++)
        nccl_ask(comm, &answer[i]);
}

/* Ask ${count} random questions and return how many answers differ from the expected ones. libcheck
 * allows assertions only in the main thread. */
static uintptr_t ask_at_random(const struct comm *comm, uint64_t seed, long count)
{
    struct t_random random = {seed};
    uintptr_t differ = 0;

    for (long n = 0; n < count; n++) {
        int i = t_below(&random, POOL);
        struct question again = pool[i];

        nccl_ask(comm, &again);
        differ += memcmp(&again, &answer[i], sizeof again) != 0;
    }
    return differ;
}

static void *share_one(void *argument)
{
    return (void *)ask_at_random(&shared, (uintptr_t)argument * 2 + 1, rounds);
}

enum { GROUP = 8 }; /* number of threads that are the ranks of one communicator */
static pthread_barrier_t barrier[THREADS / GROUP];

/* Create and end communicators one after the other; each thread is one rank. */
static void *own_many(void *argument)
{
    uintptr_t differ = 0, thread = (uintptr_t)argument, group = thread / GROUP;

    for (uint64_t n = 0; n < 20; n++) {
        struct comm comm;

        differ += nccl_rank(&comm, nccl_id(1 + n * THREADS + group), GROUP, 1) != 0;
        pthread_barrier_wait(&barrier[group]); /* NCCL, too, has a barrier here */
        differ += ask_at_random(&comm, thread * 1000 + n * 2 + 1, rounds / 100);
        nccl_comm_end(&comm);
    }
    return (void *)differ;
}

static void run(void *(*body)(void *))
{
    pthread_t thread[THREADS];
    uintptr_t wrong = 0;

    for (uintptr_t t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&thread[t], NULL, body, (void *)t), 0);
    for (int t = 0; t < THREADS; t++) {
        void *differ;

        pthread_join(thread[t], &differ);
        wrong += (uintptr_t)differ;
    }
    ck_assert_msg(wrong == 0, "%zu answers differ", (size_t)wrong);
}

START_TEST(test_64_threads_on_one_communicator_get_the_known_answers)
{
    make_pool();
    nccl_load(&releases[_i], 0);
    ck_assert_int_eq(nccl_comm(&shared, 9, 8, 1), 0);
    answer_pool(&shared);
    run(share_one);
    nccl_comm_end(&shared);
}
END_TEST

START_TEST(test_64_threads_make_use_and_end_communicators)
{
    make_pool();
    setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    nccl_load(&releases[_i], ENV_PLUGIN);
    ck_assert_int_eq(nccl_comm(&shared, 9, 8, 1), 0);
    answer_pool(&shared);
    nccl_comm_end(&shared);
    for (int g = 0; g < THREADS / GROUP; g++)
        pthread_barrier_init(&barrier[g], NULL, GROUP);
    run(own_many);
}
END_TEST

static pthread_barrier_t together;

static void *first_init(void *argument)
{
    struct comm *comm = argument;
    int wrong;

    pthread_barrier_wait(&together);
    wrong = nccl_rank(comm, nccl_id(5), THREADS, 1);
    return (void *)(uintptr_t)(unsigned)wrong;
}

START_TEST(test_64_first_inits_at_once_make_one_process)
{
    static struct comm comm[THREADS];
    pthread_t thread[THREADS];
    const char *at;

    make_pool();
    setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    nccl_load(&releases[_i], 0);
    pthread_barrier_init(&together, NULL, THREADS);
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&thread[t], NULL, first_init, &comm[t]), 0);
    for (int t = 0; t < THREADS; t++) {
        void *wrong;

        pthread_join(thread[t], &wrong);
        ck_assert_ptr_null(wrong);
    }
    at = strstr(nccl_log.text, "ranks, tuner");
    ck_assert_ptr_nonnull(at);
    for (int t = 0; t < THREADS; t++)
        nccl_comm_end(&comm[t]);
    if (releases[_i].tuner > 4) { /* the 64 ranks of the communicator have one entry together */
        const char *text = nccl_read(getenv("SYMTUNER_LEDGER"));

        char line[80];

        snprintf(line, sizeof line, "comm id=0x%016llx ranks=64 nodes=1 local=64",
                 (unsigned long long)nccl_id(5));
        at = strstr(text, line);
        ck_assert_msg(at, "%s", text);
        ck_assert_ptr_null(strstr(at + 1, "\ncomm id="));
    }
}
END_TEST

Suite *threads_suite(void)
{
    Suite *suite = suite_create("threads");
    TCase *threads = tcase_create("64 threads");

    tcase_set_timeout(threads, 300);
    tcase_add_loop_test(threads, test_64_threads_on_one_communicator_get_the_known_answers, 0,
                        RELEASES);
    t_each_release(threads, test_64_threads_make_use_and_end_communicators);
    t_each_release(threads, test_64_first_inits_at_once_make_one_process);
    suite_add_tcase(suite, threads);
    return suite;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_comms.c - tests the table of communicators. The table never reads the memory of a
 * communicator, so the tests use made-up addresses. */
#include <check.h>
#include <stdint.h>

#include "dropin/comms.h"
#include "test/suites.h"

enum { SAME = 4 };

static void *pointer(unsigned number)
{
    return (void *)((uintptr_t)(number + 1) << 6);
}

static void with_one_place(void *comm[SAME])
{
    comm[0] = pointer(0);
    for (unsigned number = 1, n = 1; n < SAME; number++)
        if (st_comm_place(pointer(number)) == st_comm_place(comm[0]))
            comm[n++] = pointer(number);
}

/* Several communicators may have the same hash, and so compete for one entry of the table. The
 * program may end them in any order. Those that have not ended must still be found, and each call
 * of st_comm_remove must return. */
START_TEST(test_communicators_with_one_place)
{
    void *comm[SAME];

    with_one_place(comm);
    for (int first = 0; first < SAME; first++) {
        struct st_comm *c[SAME];

        for (int i = 0; i < SAME; i++)
            ck_assert_ptr_nonnull(c[i] = st_comm_add(comm[i], NULL));
        for (int ended = 0; ended < SAME; ended++) {
            st_comm_remove(c[(first + ended) % SAME]);
            for (int i = 0; i < SAME; i++) {
                int k = (first + i) % SAME;

                ck_assert_ptr_eq(st_comm_find(comm[k]), i <= ended ? NULL : c[k]);
            }
        }
    }
}
END_TEST

/* A program may go on for ever like this: it makes a communicator, and only then ends the one
 * before. The table must not fill up. */
START_TEST(test_always_another_communicator)
{
    void *comm[SAME];
    struct st_comm *last, *next;

    with_one_place(comm);
    last = st_comm_add(comm[0], NULL);
    for (int i = 1; i < 2 * ST_COMM_PLACES; i++) {
        ck_assert_ptr_nonnull(next = st_comm_add(comm[i % 2], NULL));
        st_comm_remove(last);
        last = next;
    }
}
END_TEST

static unsigned add_until_full(void)
{
    unsigned n = 0;

    while (st_comm_add(pointer(n), NULL))
        n++;
    return n;
}

/* A communicator that finds no room in the table gets no record. When other communicators end,
 * there is room again. */
START_TEST(test_a_full_table_has_room_again)
{
    const unsigned most = add_until_full();

    ck_assert_uint_ge(most, 1000);
    for (int round = 0; round < 3; round++) {
        ck_assert_ptr_null(st_comm_find(pointer(most)));
        for (unsigned i = 0; i < most; i++) {
            struct st_comm *c = st_comm_find(pointer(i));

            ck_assert_ptr_nonnull(c);
            st_comm_remove(c);
            ck_assert_ptr_null(st_comm_find(pointer(i)));
        }
        ck_assert_uint_eq(add_until_full(), most);
    }
}
END_TEST

/* Only the ranks that stay in a shrunk communicator count this shrink. So one rank may have no room
 * for another list of left-out ranks while others have room. It must still get a key and take part,
 * or the others would wait for it without a time limit (struct st_made, parent_spans). */
START_TEST(test_a_shrunk_communicator_always_has_a_key)
{
    struct st_comm parent = {.key = 5}, unknown = {.key = 0};
    uint64_t first = 0, again;

    for (int i = 0; i < 2 * ST_SHRINKS; i++) {
        uint64_t key = st_comm_shrink_key(&parent, &i, 1);

        ck_assert_uint_ne(key, 0);
        ck_assert_uint_eq(st_comm_shrink_key(&unknown, &i, 1), 0);
        first = i == 0 ? key : first;
    }
    again = st_comm_shrink_key(&parent, &(int){0}, 1);
    ck_assert(again != 0 && again != first);
}
END_TEST

Suite *comms_suite(void)
{
    Suite *suite = suite_create("comms");
    TCase *tcase = tcase_create("comms");

    tcase_add_test(tcase, test_communicators_with_one_place);
    tcase_add_test(tcase, test_always_another_communicator);
    tcase_add_test(tcase, test_a_full_table_has_room_again);
    tcase_add_test(tcase, test_a_shrunk_communicator_always_has_a_key);
    suite_add_tcase(suite, tcase);
    return suite;
}

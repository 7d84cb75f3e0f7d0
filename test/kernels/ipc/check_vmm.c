/* SPDX-License-Identifier: Apache-2.0 */
/* check_vmm.c - checks memory from cuMemCreate, such as XLA's pool: which of it peers can map, and
 * that no descriptor, handle or mapping is left. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels/ipc/vmm.h"
#include "test/kernels/fake/capture_stderr.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/memory.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/ipc/ranks.h"
#include "test/kernels/suites.h"
#include "test/base/loader.h"

enum { NONE = 0, BY_FD = 1, FABRIC = 8 }; /* types of shareable handles */

static int files; /* number of open files before the test */

static void take_memory(unsigned types)
{
    for (int r = 0; r < 2; r++)
        fake_created(place[r], 4 * BYTES, r, types);
}

static void begin_pair(void)
{
    files = open_files();
    make_pair();
    take_memory(BY_FD | FABRIC);
}

static void begin_processes(void)
{
    files = open_files();
    make_processes();
    take_memory(BY_FD | FABRIC);
}

static void must_be_clean(void)
{
    ck_assert_int_eq(fake_memory.mapped + fake_memory.reserved, 0);
    ck_assert_int_eq(fake_memory.kept, 0);
    ck_assert_int_eq(open_files(), files);
}

static void end_pair(void)
{
    drop_pair();
    must_be_clean();
}

static void end_processes(void)
{
    drop_processes();
    must_be_clean();
}

/* Make a call on rank ${r} on its memory. If that rank has mapped allocation ${number} of its peer,
 * return the address at which the peer has it, else NULL. */
static char *peer_in_call(int r, int number)
{
    return fake_mapped_at(call(r, place[r], place[r])->ipc->base[1 - r][number - 1]);
}

START_TEST(test_ranks_map_by_descriptors)
{
    ck_assert_ptr_null(peer_in_call(0, 1));
    ck_assert_ptr_eq(peer_in_call(1, 1), place[0]);
    ck_assert_ptr_eq(peer_in_call(0, 1), place[1]);
    ck_assert_int_eq(fake_memory.handles, 0); /* no handle of CUDA IPC was asked for */
    ck_assert_int_eq(fake_memory.exported, 2);
    for (int i = 0; i < 3; i++)
        ck_assert(call(0, place[0] + 48, place[0] + 2 * BYTES)->at_recv ==
                  ar_ipc_place(1, 2 * BYTES));
    ck_assert(fake.launch[fake.launches - 1].args.at_send == ar_ipc_place(1, 48));
    ck_assert_int_eq(fake_memory.exported, 2);
    ck_assert_int_eq(fake_memory.mapped, 2);
}
END_TEST

/* A rank may have memory from cudaMalloc and memory from cuMemCreate. */
START_TEST(test_both_kinds)
{
    char *const other = place[0] + 8 * BYTES;

    fake_allocation(other, BYTES, 0);
    capture_stderr();
    ck_assert(call(0, other, other)->at_send == ar_ipc_place(1, 0));
    ck_assert(call(0, place[0], other)->at_send == ar_ipc_place(2, 0));
    ck_assert_str_eq(captured_stderr(), "");
    ck_assert_ptr_eq(peer_in_call(1, 2), place[0]);
    ck_assert_ptr_eq(fake.launch[fake.launches - 1].args.ipc->base[0][0], other);
}
END_TEST

/* When memory is freed, the driver may give its handle to new memory, and XLA may use its address
 * again. The new memory must have another number all the same. */
START_TEST(test_new_memory_has_a_new_number)
{
    ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(1, 0));
    for (int i = 2; i < 5; i++) {
        fake_created(place[0], 4 * BYTES, 0, BY_FD);
        ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(i, 0));
        ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(i, 0));
    }
    fake_created(place[0], 2 * BYTES, 0, BY_FD);
    ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(5, 0));
    for (int i = 1; i <= 5; i++)
        ck_assert_ptr_eq(peer_in_call(1, i), place[0]);
}
END_TEST

START_TEST(test_memory_that_ends_before_a_peer_maps_it)
{
    call(0, place[0], place[0]);
    fake_allocation_gone(place[0]);
    ck_assert_ptr_eq(peer_in_call(1, 1), place[0]);
    ck_assert(call(0, place[0], place[0])->at_send == 0);
}
END_TEST

/* A rank names a byte of its memory by the number of an allocation and the distance from its start.
 * So memory that is mapped twice has two numbers. */
START_TEST(test_memory_that_is_mapped_twice)
{
    char *const also = place[0] + BYTES;

    fake_allocation_gone(place[0]);
    fake_created(place[0], BYTES, 0, BY_FD);
    fake_created_also(also, place[0]);
    ck_assert(call(0, place[0], also)->at_send == ar_ipc_place(1, 0));
    ck_assert(fake.launch[fake.launches - 1].args.at_recv == ar_ipc_place(2, 0));
    ck_assert_ptr_eq(peer_in_call(1, 1), place[0]);
    ck_assert_ptr_eq(peer_in_call(1, 2), place[0]);
}
END_TEST

/* Peers can map memory only if it has a descriptor of its own. Memory of a pool has none, because
 * the pool has one descriptor for all its memory. */
START_TEST(test_some_memory_has_no_descriptor)
{
    take_memory(_i == 0 ? NONE : _i == 1 ? FABRIC : BY_FD);
    fake_memory.pool = _i == 2;
    fake_memory.no_handles = true;
    ck_assert(call(0, place[0], place[0])->at_send == 0);
    ck_assert_int_eq(fake_memory.exported, 0);
}
END_TEST

/* A buffer may lie in two allocations, as with torch's expandable segments. Then peers cannot map
 * it. */
START_TEST(test_a_buffer_in_two_allocations)
{
    fake_created(place[0], BYTES, 0, BY_FD);
    fake_created(place[0] + BYTES, BYTES, 0, BY_FD);
    ck_assert(call(0, place[0] + 16, place[0] + 16)->at_send == 0);
    ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(1, 0));
    ck_assert(call(0, place[0] + BYTES, place[0])->at_send == ar_ipc_place(2, 0));
    ck_assert(call(0, place[0] + BYTES + 16, place[0] + BYTES + 16)->at_send == 0);
}
END_TEST

/* Whatever fails in the driver, calls go through scratch memory, and no descriptor, handle or
 * mapping is left. */
static const struct {
    const char *function, *said; /* what the library prints on stderr; NULL: nothing */
} faults[] = {
    {"cuMemGetAddressRange", NULL},
    {"cuMemRetainAllocationHandle", NULL},
    {"cuMemExportToShareableHandle", "rank 0 gets no descriptor of its memory"},
    {"cuMemImportFromShareableHandle",
     "rank 1 cannot map memory of rank 0 (error 1 of the driver)"},
    {"cuMemAddressReserve", "rank 1 cannot map memory of rank 0 (error 1 of the driver)"},
    {"cuMemMap", "rank 1 cannot map memory of rank 0 (error 1 of the driver)"},
    {"cuMemSetAccess", "rank 1 cannot map memory of rank 0 (error 1 of the driver)"},
};

START_TEST(test_a_function_that_fails)
{
    const char *said;

    fake_memory.no_handles = true;
    fake_memory.fails = faults[_i].function;
    capture_stderr();
    for (int i = 0; i < 3; i++) {
        call(0, place[0], place[0]);
        ck_assert_ptr_null(peer_in_call(1, 1));
    }
    said = captured_stderr();
    if (faults[_i].said == NULL) {
        ck_assert_str_eq(said, "");
        return;
    }
    ck_assert_ptr_nonnull(strstr(said, faults[_i].said));
    ck_assert_ptr_null(strstr(strstr(said, faults[_i].said) + 1, faults[_i].said));
    ck_assert_int_le(fake_memory.exported, 2); /* a rank does not try again in each call */
    fake_memory.fails = NULL;
    fake_created(place[0] + 8 * BYTES, 4 * BYTES, 0, BY_FD);
    call(0, place[0] + 8 * BYTES, place[0] + 8 * BYTES);
    ck_assert_ptr_eq(peer_in_call(1, _i == 2 ? 1 : 2), place[0] + 8 * BYTES); /* new memory works */
}
END_TEST

START_TEST(test_an_old_driver)
{
    fake_memory.no_handles = true;
    fake_memory.lacks = "cuMemImportFromShareableHandle";
    ck_assert(call(0, place[0], place[0])->at_send == 0);
    ck_assert_int_eq(fake_memory.exported + fake_memory.kept, 0);
}
END_TEST

/* Allow ${more} further descriptors in this process; below 0: many. */
static void allow(int more)
{
    struct rlimit limit;
    const int lowest = dup(0);

    close(lowest);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = more < 0 ? limit.rlim_max : (rlim_t)(lowest + more);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* If a descriptor cannot be sent, the call goes on, and a later call sends it. */
START_TEST(test_a_descriptor_that_cannot_be_sent_now)
{
    allow(1); /* one descriptor: that is enough for the memory, but not for a socket */
    ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(1, 0));
    ck_assert_ptr_null(peer_in_call(1, 1));
    allow(-1);
    call(0, place[0], place[0]);
    ck_assert_ptr_eq(peer_in_call(1, 1), place[0]);
}
END_TEST

/* Close the sockets on which the ranks listen. */
static void silence(void)
{
    for (int fd = 3; fd < 256; fd++) {
        int listens = 0, null;
        socklen_t size = sizeof listens;

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
            continue;
        null = open("/dev/null", O_RDONLY);
        dup2(null, fd);
        close(null);
    }
}

START_TEST(test_a_peer_that_listens_no_more)
{
    static const char text[] = "rank 0 cannot send rank 1 a descriptor of its memory (Connection "
                               "refused); calls with it go through scratch";
    const char *said;

    silence();
    capture_stderr();
    for (int i = 0; i < 3; i++)
        ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(1, 0));
    said = captured_stderr();
    ck_assert_ptr_nonnull(strstr(said, text));
    ck_assert_ptr_null(strstr(strstr(said, text) + 1, text));
}
END_TEST

/* ---- memory that a program has shown (config.memory), as JAX does ---------------------------- */

static void create_with_memory(int rank)
{
    struct symtuner_ar_config config = small();
    ncclComm_t comm = (ncclComm_t)(uintptr_t)(rank + 1);

    fake_pid = 1000 + rank;
    config.timeout_ms = 5000;
    config.memory = place[rank] + 4096;
    ck_assert_int_eq(symtuner_ar_create(&of_rank[rank], &comm, 1, &config), ncclSuccess);
}

static const struct {
    unsigned types;
    const char *fails;
    bool fits;
} shown[] = {
    {BY_FD, NULL, true},
    {BY_FD | FABRIC, NULL, true},
    {NONE, NULL, false},
    {FABRIC, NULL, false},
    {BY_FD, "cuMemExportToShareableHandle", false},
};

START_TEST(test_memory_that_a_program_has_shown)
{
    const char *said;

    fake_nccl_threads(destroy_in_process);
    take_memory(shown[_i].types);
    fake_memory.fails = shown[_i].fails;
    fake_nccl_reset(2);
    capture_stderr();
    fake_nccl_threads(create_with_memory);
    said = captured_stderr();
    ck_assert((strstr(said, "SYMTUNER_AR_IPC=1 has no effect: other processes cannot map the "
                            "memory of this program") == NULL) == shown[_i].fits);
    for (int r = 0; r < 2; r++)
        ck_assert((of_rank[r]->ipc != NULL) == shown[_i].fits);
}
END_TEST

/* ---- the driver's functions ------------------------------------------------------------------ */

static void *find(void *unused)
{
    struct ar_vmm found;

    must(ar_vmm_find(place[0], &found) && found.base == place[0]);
    return unused;
}

/* While a thread looks up the driver's functions, a library's constructor may do the same
 * (loader.h). Neither waits for the other. */
START_TEST(test_a_constructor_and_a_look_up_do_not_wait_for_each_other)
{
    fake_memory_clear();
    take_memory(BY_FD);
    fake_memory.look_up = loader_enter;
    loader_meet(find, find);
}
END_TEST

Suite *st_suite_vmm(void)
{
    Suite *s = suite_create("ar_vmm");
    TCase *one = tcase_create("one process"), *two = tcase_create("processes");
    TCase *driver = tcase_create("driver");

    tcase_add_test(driver, test_a_constructor_and_a_look_up_do_not_wait_for_each_other);
    suite_add_tcase(s, driver);
    tcase_add_checked_fixture(one, begin_pair, end_pair);
    tcase_add_test(one, test_ranks_map_by_descriptors);
    tcase_add_test(one, test_new_memory_has_a_new_number);
    suite_add_tcase(s, one);
    tcase_add_checked_fixture(two, begin_processes, end_processes);
    tcase_add_test(two, test_ranks_map_by_descriptors);
    tcase_add_test(two, test_both_kinds);
    tcase_add_test(two, test_new_memory_has_a_new_number);
    tcase_add_test(two, test_memory_that_ends_before_a_peer_maps_it);
    tcase_add_test(two, test_memory_that_is_mapped_twice);
    tcase_add_loop_test(two, test_some_memory_has_no_descriptor, 0, 3);
    tcase_add_test(two, test_a_buffer_in_two_allocations);
    tcase_add_loop_test(two, test_a_function_that_fails, 0, sizeof faults / sizeof *faults);
    tcase_add_test(two, test_an_old_driver);
    tcase_add_test(two, test_a_descriptor_that_cannot_be_sent_now);
    tcase_add_test(two, test_a_peer_that_listens_no_more);
    tcase_add_loop_test(two, test_memory_that_a_program_has_shown, 0, sizeof shown / sizeof *shown);
    suite_add_tcase(s, two);
    return s;
}

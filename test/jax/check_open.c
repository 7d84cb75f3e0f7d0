/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_open.c FAKE_AR - opens groups, gives them up and closes them, while other threads make
 * calls.
 *
 * FAKE_AR is the library built from fake_ar.c. The library path must have the libcuda.so.1 and the
 * libnccl.so.2 of fake_driver.c. Build this program with -fsanitize=address,undefined and with
 * -fsanitize=thread.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jax/groups.h"
#include "jax/symtuner_ffi.h"
#include "test/jax/frames.h"

#define TURNS 300

static const int64_t ids[2] = {0, 1}, others[2] = {2, 3};
static int *alive, *dead_uses, *wait, *comms;
static int passed, failed;
static _Thread_local char message[640];

static void expect(int right, const char *what)
{
    passed += right;
    failed += !right;
    if (!right)
        printf("FAILED: %s (message \"%s\")\n", what, message);
}

static XLA_FFI_Error *keep_message(XLA_FFI_Error_Create_Args *args)
{
    snprintf(message, sizeof message, "%s", args->message);
    return (XLA_FFI_Error *)&runtime;
}

/* Make a call on ${gpu}. Returns whether it succeeded. */
static int call(int gpu)
{
    struct frame f;

    message[0] = 0;
    thread_ordinal = gpu;
    frame_fill(&f);
    f.frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    return symtuner_ffi_all_reduce(&f.frame) == NULL;
}

/* Make a call on ${gpu}. Returns whether it failed because no group is open, and said so. */
static int refused(int gpu)
{
    return !call(gpu) && strstr(message, "no group of 2 ranks is open") != NULL;
}

static void *open_comm(const int64_t *group)
{
    static const char id[128] = {[0 ... 127] = 'u'};
    void *ticket = NULL;

    if (symtuner_ffi_open_comm(group, 2, 0, 0, id, 0, &ticket, message, sizeof message) != 0)
        return NULL;
    return ticket;
}

static int admit(void *ticket)
{
    return symtuner_ffi_admit(&ticket, message, sizeof message) == 0;
}

static int give_up(void *ticket)
{
    return symtuner_ffi_give_up(ticket, message, sizeof message) == 0;
}

static int close_all(void)
{
    return symtuner_ffi_close(message, sizeof message) == 0;
}

static int holds(int handles, int communicators)
{
    return __atomic_load_n(alive, __ATOMIC_RELAXED) == handles &&
           __atomic_load_n(comms, __ATOMIC_RELAXED) == communicators;
}

static void fill_table(void)
{
    struct ffi_member member = {.ranks = 3, .across = 1, .xla = 1, .ordinal = 7};

    while (ffi_members_add(&member, 1) == 0)
        continue;
}

/* ---- tickets --------------------------------------------------------------------------------- */

/* Check that a ticket may be given up after it was admitted. Python does this if it is interrupted
 * right after admit. */
static void check_spent_ticket(void)
{
    void *ticket = open_comm(ids), *full;

    expect(symtuner_ffi_admit(&ticket, message, sizeof message) == 0 && ticket == NULL,
           "an admission takes the ticket");
    expect(give_up(ticket) && holds(1, 1) && call(0), "nothing of the group is given up then");
    expect(close_all() && holds(0, 0), "closed");
    full = open_comm(ids);
    fill_table();
    ticket = full;
    expect(symtuner_ffi_admit(&ticket, message, sizeof message) != 0 && ticket == full &&
               give_up(ticket) && holds(0, 0),
           "an admission that fails leaves the ticket");
    expect(close_all() && ffi_member_at(0) == NULL, "a full table is closed");
}

static void check_tickets(void)
{
    void *first, *second;

    first = open_comm(ids);
    expect(first != NULL && holds(1, 1) && refused(0) && ffi_member_at(0) == NULL,
           "what is opened is not open yet");
    expect(close_all() && holds(1, 1), "and not closed with the others");
    expect(give_up(first) && holds(0, 0) && refused(0), "given up, nothing is left of it");
    expect(give_up(NULL), "an opening that failed has nothing to give back");
    expect(!admit(NULL) && strstr(message, "not opened") != NULL, "and cannot be admitted");

    first = open_comm(ids);
    second = open_comm(ids);
    expect(admit(second) && call(0), "the second opening of a group is used");
    expect(give_up(first) && holds(1, 1) && call(0) && ffi_member_at(1) == NULL,
           "a late success of the first changes nothing");
    expect(close_all() && holds(0, 0) && refused(0), "closed");
    check_spent_ticket();

    setenv("NCCL_COMM_BLOCKING", "0", 1);
    expect(admit(open_comm(ids)) && call(0) && close_all() && holds(0, 0),
           "a communicator that does not block is no error");
    unsetenv("NCCL_COMM_BLOCKING");

    expect(admit(open_comm(ids)), "once more");
    setenv("FAKE_AR_FAIL", "destroy", 1);
    expect(!close_all() && strstr(message, "the fake cannot create or destroy") != NULL &&
               holds(0, 0),
           "a close that fails says why");
    first = open_comm(ids);
    message[0] = 0;
    expect(!give_up(first) && strstr(message, "cannot create or destroy") && holds(0, 0),
           "and so does a giving up");
    setenv("FAKE_AR_FAIL", "create", 1);
    expect(open_comm(ids) == NULL && holds(0, 0), "kernels that cannot be had");
    unsetenv("FAKE_AR_FAIL");
    setenv("FAKE_NCCL_FAIL", "1", 1);
    expect(open_comm(ids) == NULL && holds(0, 0), "a communicator that cannot be had");
    unsetenv("FAKE_NCCL_FAIL");
    setenv("FAKE_CUDA_FAIL", "46", 1);
    expect(open_comm(ids) == NULL && holds(0, 0) &&
               strstr(message, "GPU 0 cannot be made current: CUDA error 46; nvidia-smi") != NULL,
           "a GPU that cannot be had");
    unsetenv("FAKE_CUDA_FAIL");
}

/* If the table is full, opening a group must fail, so that all ranks hear of it. Admitting the
 * group would be too late for that. */
static void check_full(void)
{
    fill_table();
    expect(open_comm(ids) == NULL && strstr(message, "symtuner.close() frees") != NULL &&
               holds(0, 0),
           "no place for another group");
    expect(close_all() && ffi_member_at(0) == NULL, "a full table is closed");
}

/* ---- a close that takes long ----------------------------------------------------------------- */

static void *close_slowly(void *arg)
{
    (void)arg;
    return close_all() ? NULL : (void *)1;
}

static void check_late_close(void)
{
    pthread_t closer;
    char line[256];
    void *bad;

    expect(admit(open_comm(others)) && admit(open_comm(ids)) && holds(2, 2), "two groups");
    __atomic_store_n(wait, 1, __ATOMIC_RELEASE);
    pthread_create(&closer, NULL, close_slowly, NULL);
    while (ffi_member_at(0) != NULL)
        usleep(1000);
    expect(refused(0), "a group that is being closed is not called");
    expect(admit(open_comm(ids)) && call(0) && holds(3, 3), "one is opened meanwhile");
    expect(symtuner_ffi_member(0, line, sizeof line) == 0 && strstr(line, "calls=1") != NULL &&
               symtuner_ffi_member(1, line, sizeof line) != 0,
           "it is the only one in the list");
    __atomic_store_n(wait, 0, __ATOMIC_RELEASE);
    pthread_join(closer, &bad);
    expect(bad == NULL && holds(1, 1) && call(0), "the late close has left it alone");
    expect(close_all() && holds(0, 0) && ffi_member_at(0) == NULL, "the next one closes it");
    expect(admit(open_comm(ids)) && call(0) && close_all() && holds(0, 0), "and all goes on");
}

/* ---- calls while groups come and go ---------------------------------------------------------- */

static int over;

static void *keep_calling(void *gpu)
{
    long calls = 0, wrong = 0;

    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        int right = call((int)(intptr_t)gpu);

        calls += right;
        wrong += !right && strstr(message, "no group of 2 ranks is open") == NULL;
    }
    return (void *)(wrong != 0 ? -1 : calls);
}

static void *keep_asking(void *arg)
{
    char text[256];

    (void)arg;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        symtuner_ffi_describe(0, text, sizeof text);
        symtuner_ffi_member(1, text, sizeof text);
        symtuner_ffi_abort();
    }
    return NULL;
}

static void check_calls_meanwhile(void)
{
    static const int gpus[2] = {0, 1}, swapped[2] = {1, 0};
    pthread_t thread[3];
    void *calls[3];
    int bad = 0;

    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, keep_calling, (void *)(intptr_t)i);
    pthread_create(&thread[2], NULL, keep_asking, NULL);
    for (int turn = 0; turn < TURNS; turn++) { /* each turn reuses the same entries of the table */
        bad |= symtuner_ffi_open_local(turn % 2 ? others : ids, turn % 3 ? gpus : swapped, 2, 0,
                                       message, sizeof message);
        bad |= turn % 5 == 0 && !admit(open_comm(ids));
        usleep(300);
        bad |= !close_all();
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], &calls[i]);
    expect(bad == 0 && holds(0, 0), "groups come and go");
    expect((long)calls[0] > 0 && (long)calls[1] > 0, "calls go through or find no group");
    expect(*dead_uses == 0, "no call has a handle that is destroyed");
}

/* Check that a communicator with a dead rank is not aborted while the kernel of a call may still
 * use the memory that ncclCommAbort unmaps. */
static void check_lost(void)
{
    ffi_handle *handle;

    for (int pending = 0; pending < 2; pending++) {
        expect(admit(open_comm(ids)) && call(0), "a call");
        handle = ffi_member_at(0)->handle;
        __atomic_store_n(&ffi_member_at(0)->lost, 2, __ATOMIC_RELEASE);
        if (pending)
            setenv("FAKE_EVENT_PENDING", "1", 1);
        expect(close_all() && holds(1 + pending, pending) && ffi_member_at(0) == NULL,
               pending ? "nothing is freed under a call that waits" : "only the handle is kept");
        free(handle);
    }
}

/* Check that a new handle gets the address that symtuner_ffi_memory() was given last. */
static void check_memory(const void *const *of_handle)
{
    static const int gpus[2] = {0, 1};
    static const char xla[1];

    symtuner_ffi_memory(xla);
    expect(admit(open_comm(ids)) && *of_handle == xla, "a group across processes");
    symtuner_ffi_memory(NULL);
    expect(symtuner_ffi_open_local(ids, gpus, 2, 0, message, sizeof message) == 0 &&
               *of_handle == NULL,
           "a local group");
    expect(close_all() && holds(0, 0), "closed");
}

int main(int argc, char **argv)
{
    char why[512];
    void *ar;

    if (argc != 2 || symtuner_ffi_load(argv[1], why, sizeof why) != 0) {
        fprintf(stderr, "usage: check_open libfake_ar.so\n");
        return 2;
    }
    ar = dlopen(argv[1], RTLD_NOW);
    alive = dlsym(ar, "fake_alive");
    dead_uses = dlsym(ar, "fake_dead_uses");
    wait = dlsym(ar, "fake_wait");
    comms = dlsym(dlopen("libnccl.so.2", RTLD_NOW), "fake_comms");
    runtime_fill();
    runtime.api.XLA_FFI_Error_Create = keep_message;
    check_memory(dlsym(ar, "fake_memory"));
    check_tickets();
    check_full();
    check_late_close();
    check_calls_meanwhile();
    check_lost(); /* last, because handles stay */
    printf("jax groups: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}

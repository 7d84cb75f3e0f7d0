/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_handler.c FAKE_AR - calls the XLA handler with good and with damaged call frames.
 *
 * FAKE_AR is the library built from fake_ar.c. Build this program with
 * -fsanitize=address,undefined.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jax/frame.h"
#include "jax/groups.h"
#include "jax/peer_access.h"
#include "jax/liveness.h"
#include "jax/symtuner_ffi.h"
#include "test/jax/fake_ar.h"
#include "test/jax/frames.h"
#include "test/jax/hostile.h"
#include "test/base/signals.h"

static struct fake_call *last;
static int *alive, *asked, *aborted;
static int passed, failed;

static void expect(int right, const char *what)
{
    passed += right;
    failed += !right;
    if (!right)
        printf("FAILED: %s (message \"%s\")\n", what, runtime.message);
}

static XLA_FFI_Error *run(struct frame *f)
{
    runtime.message[0] = 0;
    return symtuner_ffi_all_reduce(&f->frame);
}

/* ---- hostile frames ---------------------------------------------------------------------- */

static void check_hostile(void)
{
    for (size_t i = 0; i < hostile_count; i++) {
        struct frame f;
        int before = last->calls;

        runtime_fill();
        frame_fill(&f);
        hostile[i].spoil(&f);
        expect(run(&f) != NULL && strstr(runtime.message, hostile[i].says) != NULL &&
                   last->calls == before && runtime.errors == 1,
               hostile[i].name);
    }
}

/* ---- good frames ----------------------------------------------------------------------------- */

static void check_good(void)
{
    static const struct {
        int xla, nccl, parts;
    } types[] = {{2, 0, 1},   {6, 1, 1},   {4, 2, 1},  {8, 3, 1},  {5, 4, 1},
                 {9, 5, 1},   {10, 6, 1},  {11, 7, 1}, {12, 8, 1}, {16, 9, 1},
                 {20, 10, 1}, {19, 11, 1}, {15, 7, 2}, {18, 8, 2}};
    struct frame f;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (int op = 0; op < 5; op++) {
            if (types[i].parts == 2 && op != 0 && op != 4)
                continue;
            runtime_fill();
            frame_fill(&f);
            f.in.dtype = f.out.dtype = (XLA_FFI_DataType)types[i].xla;
            f.op_value = op;
            expect(run(&f) == NULL && last->send == f.in.data && last->recv == f.out.data &&
                       last->count == (size_t)(42 * types[i].parts) &&
                       last->dtype == types[i].nccl && last->op == op && last->device == 1 &&
                       last->stream == runtime.stream,
                   "a good frame");
        }
    }
    frame_fill(&f);
    f.in.rank = f.out.rank = 0;
    f.in.dims = f.out.dims = NULL;
    expect(run(&f) == NULL && last->count == 1, "a scalar");
    frame_fill(&f);
    f.in_dims[0] = f.out_dims[0] = 0;
    f.in.data = f.out.data = NULL;
    expect(run(&f) == NULL && last->count == 0, "no elements");
    frame_fill(&f);
    f.ids[0] = 2, f.ids[1] = 3, f.ids[2] = 0, f.ids[3] = 1;
    expect(run(&f) == NULL && last->device == 1, "the group stands in another row");
    for (int stage = 0; stage < 3; stage++) {
        int before = last->calls;

        frame_fill(&f);
        f.frame.stage = (XLA_FFI_ExecutionStage)stage;
        f.frame.args.size = stage == 2; /* only stage 2, initialize, reads the frame's buffers */
        expect(run(&f) == NULL && last->calls == before, "stages before execute do nothing");
    }
    for (int coll = 0; coll < 3; coll++) {
        frame_fill(&f);
        frame_add_coll(&f, coll);
        expect(run(&f) == NULL && last->coll == coll && last->send == f.in.data &&
                   last->recv == f.out.data && last->count == (coll == 0 ? 42 : 21) &&
                   last->op == (coll == 2 ? -1 : 0) && last->stream == runtime.stream,
               "a good frame of each collective");
    }
    setenv("FAKE_AR_FAIL", "all_reduce", 1);
    frame_fill(&f);
    expect(run(&f) != NULL &&
               strstr(runtime.message, "rank 1 of 2 on GPU 1: the fake failed") != NULL,
           "the library's error is passed on");
    unsetenv("FAKE_AR_FAIL");
    frame_fill(&f);
    expect(run(&f) == NULL, "and the next call works");
}

/* ---- zero copy ------------------------------------------------------------------------------- */

static int yes(const void *p, const int *gpus, int n)
{
    return p != NULL && n == 2 && gpus[1] == 1;
}

static int only_first_gpu(const void *p, const int *gpus, int n)
{
    return yes(p, gpus, n) && thread_ordinal == 0;
}

static XLA_FFI_Error *(*handler)(XLA_FFI_CallFrame *) = symtuner_ffi_all_reduce;

/* Run one device: initialize, then execute. XLA does the same in each run. */
static void *run_device(void *arg)
{
    struct frame f;

    thread_ordinal = (int)(intptr_t)arg;
    frame_fill(&f);
    f.frame.stage = XLA_FFI_ExecutionStage_INITIALIZE;
    if (handler(&f.frame) != NULL)
        return (void *)1;
    f.frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    return handler(&f.frame) != NULL ? (void *)1 : NULL;
}

/* Run both devices once. Returns whether their calls knew each other's buffers; -1: a call
 * failed. */
static int run_both(void)
{
    static int64_t run;
    pthread_t other;
    void *bad[2];

    runtime_fill();
    runtime.run = ++run;
    pthread_create(&other, NULL, run_device, (void *)1);
    bad[0] = run_device((void *)0);
    pthread_join(other, &bad[1]);
    thread_ordinal = -1;
    return bad[0] != NULL || bad[1] != NULL ? -1 : last->with_peers;
}

static void check_zero_copy(void)
{
    int (*driver)(const void *, const int *, int) = ffi_peer_access;

    expect(run_both() == 0, "no meeting unless asked for");
    symtuner_ffi_zero_copy_from(42 * sizeof(float));
    expect(run_both() == 0, "no driver here that says that the memory can be reached");
    ffi_peer_access = yes;
    expect(run_both() == 1, "the ranks meet");
    ffi_peer_access = only_first_gpu;
    expect(run_both() == 0, "one rank's memory cannot be reached");
    ffi_peer_access = yes;
    symtuner_ffi_zero_copy_from(42 * sizeof(float) + 1);
    expect(run_both() == 0, "the call is too small");
    symtuner_ffi_zero_copy_from(1);
    handler = symtuner_ffi_all_reduce_recordable;
    expect(run_both() == 0, "a recorded call keeps no addresses");
    handler = symtuner_ffi_all_reduce;
    expect(run_both() == 1, "and the ranks meet again");
    symtuner_ffi_zero_copy_from(SIZE_MAX);
    ffi_peer_access = driver;
}

/* ---- recorded calls -------------------------------------------------------------------------- */

static void check_recordable(void)
{
    struct frame f;
    int before = last->calls;

    runtime_fill();
    frame_fill(&f);
    runtime.message[0] = 0;
    expect(symtuner_ffi_all_reduce_recordable(&f.frame) == NULL && last->calls == before + 1,
           "a recordable call runs like any other");
    setenv("FAKE_AR_FAIL", "status", 1);
    f.frame.stage = XLA_FFI_ExecutionStage_INITIALIZE;
    expect(symtuner_ffi_all_reduce_recordable(&f.frame) != NULL &&
               strstr(runtime.message,
                      "rank 1 of 2 on GPU 1: an earlier call failed: the fake failed") != NULL,
           "a replay that failed is an error of the next run");
    expect(symtuner_ffi_all_reduce(&f.frame) == NULL,
           "a call that is not recorded learns it when it executes");
    unsetenv("FAKE_AR_FAIL");
    expect(symtuner_ffi_all_reduce_recordable(&f.frame) == NULL && last->calls == before + 1,
           "initializing runs nothing");
    before = *asked;
    for (runtime.run = 1001; runtime.run < 1004; runtime.run++)
        for (int call = 0; call < 80; call++)
            expect(symtuner_ffi_all_reduce_recordable(&f.frame) == NULL, "one of 80 calls");
    expect(*asked == before + 3, "one of 80 calls looks, in every run");
    setenv("FAKE_AR_FAIL", "status", 1);
    for (int call = 0; call < 2; call++)
        expect(symtuner_ffi_all_reduce_recordable(&f.frame) != NULL, "all calls see what is wrong");
    unsetenv("FAKE_AR_FAIL");
}

/* ---- the handler's metadata ------------------------------------------------------------------ */

static void check_metadata(void)
{
    struct XLA_FFI_Metadata_Extension extension;
    struct XLA_FFI_Metadata metadata;
    XLA_FFI_CallFrame frame;

    /* A runtime accepts a handler that reports its own version or an older one. Our handler always
     * reports 0.3, the oldest version that has all that we use, whatever header it was compiled
     * with. */
    expect(XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR >= 3, "this jax takes a handler of 0.3");
    for (int recordable = 0; recordable < 2; recordable++) {
        memset(&extension, 0, sizeof extension);
        memset(&metadata, 0xee, sizeof metadata);
        memset(&frame, 0, sizeof frame);
        extension.metadata = &metadata;
        extension.extension_base.struct_size = sizeof extension;
        extension.extension_base.type = XLA_FFI_Extension_Metadata;
        frame.struct_size = sizeof frame;
        frame.extension_start = &extension.extension_base;
        expect((recordable ? symtuner_ffi_all_reduce_recordable(&frame)
                           : symtuner_ffi_all_reduce(&frame)) == NULL &&
                   metadata.api_version.major_version == 0 &&
                   metadata.api_version.minor_version == 3 &&
                   metadata.traits == (recordable ? 1u : 0u),
               "metadata");
    }
    extension.metadata = NULL;
    expect(symtuner_ffi_all_reduce(&frame) == NULL, "metadata without a place for it");
    expect(symtuner_ffi_all_reduce(NULL) == NULL, "no frame");
}

static void check_unknown_extension(void)
{
    struct XLA_FFI_Metadata_Extension other;
    struct frame f;
    int before = last->calls;

    runtime_fill();
    frame_fill(&f);
    memset(&other, 0, sizeof other);
    other.extension_base.struct_size = sizeof other.extension_base;
    other.extension_base.type = 129;
    f.frame.extension_start = &other.extension_base;
    expect(run(&f) == NULL && last->calls == before + 1,
           "an extension that we do not know is left alone");
    runtime.api.struct_size = 8;
    expect(run(&f) == NULL && last->calls == before + 1, "a runtime that takes no errors");
    f.frame.api = NULL;
    expect(run(&f) == NULL && last->calls == before + 1, "no runtime");
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void check_groups(const char *path)
{
    char why[512];
    int64_t ids[17] = {0, 1, 2, 3};
    int gpus[17] = {0, 1, 2, 3};
    struct frame f;

    runtime_fill();
    frame_fill(&f);
    expect(run(&f) != NULL && strstr(runtime.message, "not loaded") != NULL,
           "before the library is loaded");
    expect(symtuner_ffi_open_local(ids, gpus, 2, 0, why, sizeof why) != 0 &&
               strstr(why, "not loaded"),
           "open before load");
    expect(symtuner_ffi_load("/nonexistent.so", why, sizeof why) != 0 && strstr(why, "nonexistent"),
           "a library that is not there");
    expect(symtuner_ffi_load("libm.so.6", why, sizeof why) != 0 &&
               strstr(why, "has no symtuner_ar_"),
           "another library");
    expect(symtuner_ffi_load(NULL, why, sizeof why) != 0, "no path");
    expect(symtuner_ffi_load(path, why, sizeof why) == 0, "the library");
    expect(symtuner_ffi_load(path, why, sizeof why) == 0, "the library once more");
    expect(symtuner_ffi_load("libm.so.6", why, sizeof why) != 0 && strstr(why, "loaded already"),
           "two libraries");
    last = dlsym(dlopen(path, RTLD_NOW), "fake_last");
    alive = dlsym(dlopen(path, RTLD_NOW), "fake_alive");
    asked = dlsym(dlopen(path, RTLD_NOW), "fake_asked");
    aborted = dlsym(dlopen(path, RTLD_NOW), "fake_aborted");
    expect(symtuner_ffi_open_local(ids, gpus, 0, 0, why, sizeof why) != 0, "no ranks");
    expect(symtuner_ffi_open_local(ids, gpus, 17, 0, why, sizeof why) != 0 && strstr(why, "not 17"),
           "17 ranks");
    expect(symtuner_ffi_open_local(NULL, gpus, 2, 0, why, sizeof why) != 0, "no ids");
    setenv("FAKE_AR_FAIL", "create", 1);
    expect(symtuner_ffi_open_local(ids, gpus, 2, 0, why, sizeof why) != 0 &&
               strstr(why, "cannot create"),
           "create fails");
    unsetenv("FAKE_AR_FAIL");
    expect(*alive == 0 && ffi_member_at(0) == NULL, "nothing is left of failures");
    expect(symtuner_ffi_open_local(ids, gpus, 4, 0, why, sizeof why) == 0, "a group of four");
    expect(symtuner_ffi_open_local(ids, gpus, 2, 0, why, sizeof why) == 0 && *alive == 6,
           "a group of two");
}

/* Check that the handler notices the end of a process. Without a GPU no kernel waits for that
 * process, so this process lives on. */
static void check_watch(void)
{
    static struct ffi_member member = {.ranks = 2, .me = 0};
    int pids[2] = {getpid(), fork()};
    char why[512];

    if (pids[1] == 0) {
        pause();
        _exit(0);
    }
    expect(ffi_liveness_watch(&member, pids, why, sizeof why) == 0, "watch a process");
    expect(threads_with_signals() == 1, "the watch gets no signals");
    expect(member.lost == 0, "it lives");
    kill(pids[1], SIGKILL);
    waitpid(pids[1], NULL, 0);
    for (int i = 0; i < 100 && __atomic_load_n(&member.lost, __ATOMIC_ACQUIRE) == 0; i++)
        usleep(10000);
    expect(__atomic_load_n(&member.lost, __ATOMIC_ACQUIRE) == 2, "its end is noticed");
    pids[1] = -1;
    expect(ffi_liveness_watch(&member, pids, why, sizeof why) != 0 &&
               strstr(why, "cannot be watched") != NULL,
           "no process");
}

/* ---- XLA's communicator ---------------------------------------------------------------------- */

static XLA_FFI_Error *run_stage(struct frame *f, XLA_FFI_ExecutionStage stage)
{
    f->frame.stage = stage;
    return run(f);
}

static void check_xla(void)
{
    static const int64_t ids[2] = {0, 1};
    void *ticket = NULL;
    char first, second, why[512]; /* the addresses of first and second stand for communicators */
    ffi_handle *lost;
    struct frame f;
    int before = last->calls, handles = *alive;

    runtime_fill();
    frame_fill(&f);
    frame_add_flat(&f);
    f.frame.stage = XLA_FFI_ExecutionStage_PREPARE;
    expect(symtuner_ffi_probed() == -1, "before the probe");
    expect(symtuner_ffi_probe(&f.frame) == NULL && symtuner_ffi_probed() == 0,
           "nothing is offered");
    expect(run(&f) != NULL && strstr(runtime.message, "SYMTUNER_JAX_COMM=own") != NULL,
           "a program that wants what is not offered");
    runtime_offer(0, &first);
    expect(symtuner_ffi_probe(&f.frame) == NULL && symtuner_ffi_probed() == 0, "too old an offer");
    runtime_offer(2, &first);
    expect(symtuner_ffi_probe(&f.frame) == NULL && symtuner_ffi_probed() == 1, "a newer offer");
    runtime_offer(1, &first);
    expect(symtuner_ffi_probe(&f.frame) == NULL && symtuner_ffi_probed() == 1, "the offer we know");
    expect(run(&f) == NULL && offer.requests == 1 && offer.rows == 2 && offer.ranks == 2 &&
               offer.seen[0] == 0 && offer.seen[1] == 1 && offer.seen[3] == 3,
           "XLA is asked for all rows");
    f.flat.size = 3;
    expect(run(&f) != NULL && strstr(runtime.message, "flat") != NULL && offer.requests == 1,
           "rows that are no rows");
    f.flat.size = 4;
    expect(run_stage(&f, XLA_FFI_ExecutionStage_INITIALIZE) != NULL &&
               strstr(runtime.message, "no group of 2 ranks is open") != NULL && offer.gets == 0,
           "no group that uses XLA's communicator");
    expect(symtuner_ffi_open_xla(ids, 2, 1, 1, 0, &ticket, why, sizeof why) == 0 &&
               symtuner_ffi_admit(&ticket, why, sizeof why) == 0 && *alive == handles,
           "open a group on it: no handle yet");
    expect(symtuner_ffi_open_xla(ids, 17, 1, 1, 0, &ticket, why, sizeof why) != 0,
           "17 ranks on it");
    expect(run_stage(&f, XLA_FFI_ExecutionStage_EXECUTE) != NULL &&
               strstr(runtime.message, "not initialized") != NULL,
           "a call that was not initialized");
    offer.fails = 1;
    expect(run_stage(&f, XLA_FFI_ExecutionStage_INITIALIZE) != NULL &&
               strstr(runtime.message, "no cliques") != NULL && *alive == handles,
           "XLA's error is passed on");
    offer.fails = 0;
    setenv("FAKE_AR_FAIL", "create", 1);
    expect(run_stage(&f, XLA_FFI_ExecutionStage_INITIALIZE) != NULL &&
               strstr(runtime.message, "on XLA's communicator: the fake cannot create") != NULL,
           "no handle on it");
    unsetenv("FAKE_AR_FAIL");
    expect(run_stage(&f, XLA_FFI_ExecutionStage_INITIALIZE) == NULL && *alive == handles + 1 &&
               offer.seen[0] == 0 && offer.seen[3] == 3,
           "the first run brings the handle");
    expect(run_stage(&f, XLA_FFI_ExecutionStage_EXECUTE) == NULL && last->calls == before + 1 &&
               last->device == 0,
           "and it is used");
    expect(run_stage(&f, XLA_FFI_ExecutionStage_INITIALIZE) == NULL && *alive == handles + 1,
           "the next run brings nothing new");
    offer.comm = &second;
    lost = ffi_member_at(6)->handle;
    expect(run_stage(&f, XLA_FFI_ExecutionStage_INITIALIZE) == NULL && *alive == handles + 2,
           "another communicator is another handle");
    free(lost); /* the handle on the first communicator is leaked on purpose */
    *alive -= 1;
    f.frame.attrs.size = 3;
    expect(run_stage(&f, XLA_FFI_ExecutionStage_EXECUTE) == NULL && last->device == 1,
           "programs without places use the other group of the same devices");
    expect(ffi_member_at(6) != NULL && symtuner_ffi_member(6, why, sizeof why) == 0 &&
               strstr(why, "comm=xla-nccl") != NULL,
           "its member says so");
}

static void check_full(void)
{
    char why[512];
    int64_t ids[2] = {100, 101};
    int gpus[2] = {8, 9};
    int opened = 0;

    while (opened < FFI_GROUP_MEMBERS &&
           symtuner_ffi_open_local(ids, gpus, 2, 0, why, sizeof why) == 0)
        opened++;
    expect(opened == (FFI_GROUP_MEMBERS - 7) / 2 &&
               strstr(why, "places in groups; symtuner.close() frees"),
           "a full table says so");
    expect(symtuner_ffi_member(0, why, sizeof why) == 0 && strstr(why, "rank=0 ranks=4 gpu=0"),
           "member 0");
    expect(symtuner_ffi_member(FFI_GROUP_MEMBERS, why, sizeof why) != 0, "past the last member");
    expect(symtuner_ffi_plan(0, 7, 7, 0, why, sizeof why) == 0 &&
               strcmp(why, "fake 7 1 0 1 a test") == 0,
           "plan");
    expect(symtuner_ffi_describe(0, why, sizeof why) == 0 && strcmp(why, "fake") == 0, "describe");
    expect(symtuner_ffi_describe(FFI_GROUP_MEMBERS, why, sizeof why) != 0,
           "there is no such member");
    symtuner_ffi_abort();
    expect(*aborted == *alive && *alive > 0, "abort reaches every handle");
    expect(symtuner_ffi_close(why, sizeof why) == 0 && *alive == 0 && ffi_member_at(0) == NULL,
           "close destroys every handle");
    expect(symtuner_ffi_close(why, sizeof why) == 0, "close again");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: check_handler libfake_ar.so\n");
        return 2;
    }
    check_groups(argv[1]);
    check_hostile();
    check_good();
    check_zero_copy();
    check_recordable();
    check_metadata();
    check_unknown_extension();
    check_xla();
    check_watch();
    check_full();
    printf("jax handler: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}

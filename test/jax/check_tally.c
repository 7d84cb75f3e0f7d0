/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_tally.c FAKE_AR FILE - checks that the handler counts its calls for the summary of
 * `symtuner run`.
 *
 * FAKE_AR is the library built from fake_ar.c. FILE does not exist yet. LD_LIBRARY_PATH has the
 * libcuda.so.1 built from fake_driver.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dropin/tally.h"
#include "jax/library.h"
#include "jax/symtuner_ffi.h"
#include "test/jax/frames.h"
#include "test/must.h"

enum { BYTES = 42 * 4 }; /* bytes of the call in frame_fill() */

static struct st_tally *tally;
static struct frame f;
static char why[512];

/* Check the counters: calls by our kernels, calls by NCCL, and recorded calls. */
static void counted(uint64_t jax, uint64_t nccl, uint64_t captured)
{
    const struct st_tally_slot *slot = &tally->slot[0];

    MUST(st_tally_used(tally) == 1 && slot->pid == getpid() && slot->nccl == 0);
    MUST(slot->jax.calls == jax && slot->jax.bytes == jax * BYTES);
    MUST(slot->jax_nccl.calls == nccl && slot->jax_nccl.bytes == nccl * BYTES);
    MUST(slot->jax_captured == captured);
}

static XLA_FFI_Error *run_stage(XLA_FFI_ExecutionStage stage)
{
    f.frame.stage = stage;
    return symtuner_ffi_all_reduce(&f.frame);
}

/* In a group on XLA's communicator NCCL may run a call. Check that such a call counts as NCCL's. */
static void across(void)
{
    static const int64_t ids[2] = {0, 1};
    void *ticket = NULL;
    char comm; /* its address stands for the communicator */

    frame_add_flat(&f);
    runtime_offer(1, &comm);
    MUST(symtuner_ffi_open_xla(ids, 2, 1, 1, 0, &ticket, why, sizeof why) == 0);
    MUST(symtuner_ffi_admit(&ticket, why, sizeof why) == 0);
    MUST(run_stage(XLA_FFI_ExecutionStage_INITIALIZE) == NULL);
    MUST(run_stage(XLA_FFI_ExecutionStage_EXECUTE) == NULL);
    counted(4, 0, 1);
    setenv("FAKE_AR_KERNEL", "nccl", 1);
    MUST(run_stage(XLA_FFI_ExecutionStage_EXECUTE) == NULL);
    counted(4, 1, 1);
}

static void open_local(void)
{
    static const int64_t ids[2] = {0, 1};
    static const int gpus[2] = {0, 1};

    MUST(symtuner_ffi_open_local(ids, gpus, 2, 0, why, sizeof why) == 0);
}

static void run_call(void)
{
    runtime_fill();
    frame_fill(&f);
    MUST(symtuner_ffi_all_reduce(&f.frame) == NULL);
}

/* Run in a child process. Without a file for the counters, groups open and calls run. */
static void uncounted(const char *path)
{
    if (path)
        setenv(ST_TALLY_VARIABLE, path, 1);
    open_local();
    run_call();
    MUST(!ffi_slot());
}

/* Run in a child process. A forked child does not count in its parent's slot. It counts in a slot
 * of its own as soon as it opens a group. */
static void forked(const char *path)
{
    (void)path;
    MUST(!ffi_slot());
    run_call();
    MUST(tally->slot[0].jax.calls == 4 && st_tally_used(tally) == 1);
    open_local();
    run_call();
    MUST(tally->slot[0].jax.calls == 4 && st_tally_used(tally) == 2);
    MUST(tally->slot[1].pid == getpid() && tally->slot[1].jax.calls == 1);
    MUST(tally->slot[1].ranks == 2 && tally->slot[1].jax_groups == 1);
}

static void in_child(void (*what)(const char *), const char *path)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        what(path);
        _exit(0);
    }
    MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
    MUST(argc == 3);
    MUST(symtuner_ffi_load(argv[1], why, sizeof why) == 0);
    in_child(uncounted, NULL);
    in_child(uncounted, argv[2]); /* there is no such file yet */
    /* argv[1] names a library and not a file of counters, so it is not used */
    in_child(uncounted, argv[1]);
    tally = st_tally_create(argv[2], why, sizeof why);
    MUST(tally);
    setenv(ST_TALLY_VARIABLE, argv[2], 1);
    MUST(st_tally_used(tally) == 0);
    open_local();
    counted(0, 0, 0);
    run_call();
    counted(1, 0, 0);
    MUST(symtuner_ffi_all_reduce_recordable(&f.frame) == NULL);
    counted(2, 0, 0);
    setenv("FAKE_CAPTURING", "1", 1);
    MUST(symtuner_ffi_all_reduce_recordable(&f.frame) == NULL);
    counted(3, 0, 1);
    setenv("FAKE_AR_FAIL", "all_reduce", 1);
    MUST(symtuner_ffi_all_reduce(&f.frame) != NULL);
    unsetenv("FAKE_AR_FAIL");
    counted(3, 0, 1);
    across();
    MUST(tally->slot[0].jax_groups == 2);
    unsetenv("FAKE_AR_KERNEL");
    in_child(forked, NULL);
    st_tally_close(tally);
    printf("jax tally: all calls are counted\n");
    return 0;
}

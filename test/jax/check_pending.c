/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_pending.c - checks that calls that have not ended are noticed, and are waited for. Also
 * checks that nothing waits while a library's constructor runs. Put the libcuda.so.1 of
 * fake_driver.c into the library path. FAKE_AR_PATH names the library of fake_ar.c. The linker
 * replaces dlopen and dlsym.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "jax/library.h"
#include "jax/liveness.h"
#include "jax/peer_access.h"
#include "jax/symtuner_ffi.h"
#include "test/base/loader.h"
#include "test/base/signals.h"

enum { HANG = 60 /* seconds */ };

void *__real_dlopen(const char *file, int flags);
void *__real_dlsym(void *library, const char *name);
void *__wrap_dlopen(const char *file, int flags);
void *__wrap_dlsym(void *library, const char *name);

static int passed, failed;

static void expect(int fine, const char *what)
{
    passed += fine != 0;
    failed += fine == 0;
    if (!fine)
        printf("FAILED: %s\n", what);
}

void *__wrap_dlopen(const char *file, int flags)
{
    loader_enter();
    return __real_dlopen(file, flags);
}

void *__wrap_dlsym(void *library, const char *name)
{
    loader_enter();
    return __real_dlsym(library, name);
}

static void *look_up(void *unused)
{
    expect(ffi_is_captured(NULL) == 0, "the driver is there");
    return unused;
}

static void *look_up_access(void *unused)
{
    const int gpu = 0;

    expect(ffi_peer_access(NULL, &gpu, 1) == 0, "the fake driver does not know who has access");
    return unused;
}

static void *load_kernels(void *unused)
{
    char why[256] = "";

    expect(ffi_ar_load(getenv("FAKE_AR_PATH"), why, sizeof why) == 0, why);
    return unused;
}

/* While a thread calls the loader, a library's constructor may do the same (loader.h). Neither
 * waits for the other. */
static void check_loader(void)
{
    static void *(*const calls[])(void *) = {look_up, look_up_access, load_kernels};
    char why[256] = "";

    alarm(HANG);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        loader_meet(calls[i], calls[i]);
    alarm(0);
    expect(ffi_ar_load("other", why, sizeof why) == -1, "one library is loaded");
}

int main(void)
{
    struct ffi_member group = {.ranks = 2, .across = 1}, *member;
    int *made = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_events");

    check_loader();
    expect(symtuner_ffi_settle(100) == 0, "without a group there is nothing to wait for");
    ffi_members_add(&group, 1);
    member = ffi_member_at(0);
    setenv("FAKE_EVENT_PENDING", "1", 1);
    expect(!ffi_pending(member), "no call yet");

    setenv("FAKE_CAPTURING", "1", 1);
    ffi_pending_mark(member, NULL);
    expect(!ffi_pending(member), "a captured call has no event, which would be in the graph");
    unsetenv("FAKE_CAPTURING");

    setenv("FAKE_RECORD_FAIL", "1", 1);
    for (int i = 0; i < 3; i++)
        ffi_pending_mark(member, NULL);
    unsetenv("FAKE_RECORD_FAIL");
    ffi_pending_mark(member, NULL);
    expect(made != NULL && *made == 1, "an event that was not recorded is kept for the next call");
    expect(ffi_pending(member), "a call that runs");
    expect(symtuner_ffi_settle(100) == -1, "the GPU does not become idle");
    expect(threads_with_signals() == 1, "the thread that waits for the GPU gets no signals");
    unsetenv("FAKE_EVENT_PENDING");
    expect(!ffi_pending(member), "the call has ended");
    expect(symtuner_ffi_settle(5000) == 0, "the GPU is idle");

    setenv("FAKE_CUDA_FAIL", "1", 1);
    expect(symtuner_ffi_settle(5000) == -1, "a GPU that cannot be used");
    unsetenv("FAKE_CUDA_FAIL");
    for (int i = 0; i < 2 * FFI_GROUP_RANKS; i++)
        ffi_members_add(&group, 1);
    expect(symtuner_ffi_settle(5000) == 0, "many groups on one GPU");
    for (int i = 0; (member = ffi_member_at(i)) != NULL; i++)
        if (member->held != 0)
            expect(0, "a member is still held");
    setenv("FAKE_AR_WAITS", "1", 1);
    expect(!ffi_pending(ffi_member_at(0)), "a replay has no event");
    expect(symtuner_ffi_settle(100) == -1, "but it is waited for");
    printf("jax pending: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}

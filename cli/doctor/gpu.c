/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - measures on the GPUs: do bytes that one GPU writes into another's memory arrive, and how
 * fast do kernels and the copy engine move them?
 *
 * Whether a GPU supports multicast is read from its attribute; no multicast object is created.
 * A GPU or its driver may hang, so a child process measures. The doctor itself never calls CUDA.
 */
#include "cli/doctor/gpu.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/text.h"

enum { BLOCKS = 64, THREADS = 512, PROBE = 64 << 20, VERIFY = 1 << 20, CHASES = 2000 };

/* Three kernels in PTX. st_copy copies with 16-byte loads and stores. st_write sets the 32-bit word
 * k to k * 0x9e3779b1 + seed. st_chase loads n times. Each load waits for the load before, because
 * its address is the previous address plus the value that was loaded there, which is 0. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry st_copy(.param .u64 d, .param .u64 s, .param .u64 n)\n{\n"
    ".reg .pred %p; .reg .b32 %a, %b, %c, %x, %y, %z, %w; .reg .b64 %d, %s, %n, %i, %t, %o, %e;\n"
    "ld.param.u64 %d, [d]; ld.param.u64 %s, [s]; ld.param.u64 %n, [n];\n"
    "mov.u32 %a, %ctaid.x; mov.u32 %b, %ntid.x; mov.u32 %c, %tid.x;\n"
    "mad.lo.u32 %c, %a, %b, %c; cvt.u64.u32 %i, %c;\n"
    "mov.u32 %a, %nctaid.x; mul.lo.u32 %a, %a, %b; cvt.u64.u32 %t, %a;\n"
    "L: setp.ge.u64 %p, %i, %n; @%p bra E;\n"
    "shl.b64 %o, %i, 4; add.u64 %e, %s, %o; ld.global.v4.u32 {%x, %y, %z, %w}, [%e];\n"
    "add.u64 %e, %d, %o; st.global.v4.u32 [%e], {%x, %y, %z, %w};\n"
    "add.u64 %i, %i, %t; bra L;\nE: ret;\n}\n"
    ".visible .entry st_write(.param .u64 d, .param .u64 n, .param .u32 s)\n{\n"
    ".reg .pred %p; .reg .b32 %a, %b, %c, %v, %m; .reg .b64 %d, %n, %i, %t, %o;\n"
    "ld.param.u64 %d, [d]; ld.param.u64 %n, [n]; ld.param.u32 %m, [s];\n"
    "mov.u32 %a, %ctaid.x; mov.u32 %b, %ntid.x; mov.u32 %c, %tid.x;\n"
    "mad.lo.u32 %c, %a, %b, %c; cvt.u64.u32 %i, %c;\n"
    "mov.u32 %a, %nctaid.x; mul.lo.u32 %a, %a, %b; cvt.u64.u32 %t, %a;\n"
    "L: setp.ge.u64 %p, %i, %n; @%p bra E;\n"
    "cvt.u32.u64 %v, %i; mad.lo.u32 %v, %v, 0x9e3779b1, %m;\n"
    "shl.b64 %o, %i, 2; add.u64 %o, %d, %o; st.global.u32 [%o], %v;\n"
    "add.u64 %i, %i, %t; bra L;\nE: ret;\n}\n"
    ".visible .entry st_chase(.param .u64 d, .param .u64 s, .param .u32 n)\n{\n"
    ".reg .pred %p; .reg .b32 %n; .reg .b64 %d, %s, %v;\n"
    "ld.param.u64 %d, [d]; ld.param.u64 %s, [s]; ld.param.u32 %n, [n];\n"
    "L: ld.volatile.global.u64 %v, [%s]; add.u64 %s, %s, %v;\n"
    "add.u32 %n, %n, -1; setp.ne.u32 %p, %n, 0; @%p bra L;\n"
    "st.global.u64 [%d], %v; ret;\n}\n";

/* The measuring process and the doctor share this memory. */
static struct st_gpu_report *report;

struct gpu {
    void *context, *stream, *start, *stop, *copy, *write, *chase;
    st_address here, there; /* two buffers in this GPU's memory, of PROBE bytes each */
};

struct bench {
    struct st_cuda cuda;
    struct gpu gpu[ST_GPUS_MAX];
    int n;
};

static bool launch(struct bench *b, int i, void *function, unsigned blocks, void **arguments)
{
    return b->cuda.launch(function, blocks, 1, 1, blocks == 1 ? 1 : THREADS, 1, 1, 0,
                          b->gpu[i].stream, arguments, NULL) == 0;
}

static bool start_gpu(struct bench *b, int i)
{
    static const char *const kernel[] = {"st_copy", "st_write", "st_chase"};
    struct st_cuda *c = &b->cuda;
    struct gpu *gpu = &b->gpu[i];
    void **function[] = {&gpu->copy, &gpu->write, &gpu->chase}, *module;
    int device;

    if (c->device_get(&device, i) || c->context_retain(&gpu->context, device) ||
        c->context_set(gpu->context) || c->stream_create(&gpu->stream, 1) ||
        c->event_create(&gpu->start, 0) || c->event_create(&gpu->stop, 0) ||
        c->alloc(&gpu->here, PROBE) || c->alloc(&gpu->there, PROBE) ||
        c->fill(gpu->here, 0, PROBE) || c->fill(gpu->there, 0, PROBE) ||
        c->module_load(&module, ptx))
        return false;
    for (int k = 0; k < 3; k++)
        if (c->function_get(function[k], module, kernel[k]))
            return false;
    return true;
}

enum how { BY_KERNEL, BY_ENGINE, CHASE };

/* Time an operation of GPU ${i}: a copy of PROBE bytes by a kernel (BY_KERNEL) or by the copy
 * engine (BY_ENGINE), or CHASES loads from ${from} (CHASE). Returns the shortest of three times in
 * milliseconds, or -1 if an attempt fails. */
static double timed(struct bench *b, int i, enum how how, st_address to, int to_gpu,
                    st_address from, int from_gpu)
{
    struct st_cuda *c = &b->cuda;
    struct gpu *gpu = &b->gpu[i];
    size_t words = PROBE / 16;
    unsigned loads = CHASES;
    void *copy[] = {&to, &from, &words}, *chase[] = {&to, &from, &loads};
    double best = -1;

    c->context_set(gpu->context);
    for (int t = 0; t < 4; t++) {
        float ms;
        bool good;

        c->event_record(gpu->start, gpu->stream);
        good = how == CHASE       ? launch(b, i, gpu->chase, 1, chase)
               : how == BY_KERNEL ? launch(b, i, gpu->copy, BLOCKS, copy)
                                  : c->copy_peer(to, b->gpu[to_gpu].context, from,
                                                 b->gpu[from_gpu].context, PROBE, gpu->stream) == 0;
        c->event_record(gpu->stop, gpu->stream);
        if (!good || c->stream_wait(gpu->stream) || c->event_elapsed(&ms, gpu->start, gpu->stop))
            return -1;
        /* The first time is a warm-up and does not count. */
        if (t && (best < 0 || (double)ms < best))
            best = (double)ms;
    }
    return best;
}

static double gbps(double ms)
{
    return ms > 0 ? PROBE / ms / 1e6 : 0;
}

/* Let GPU ${i} write VERIFY bytes into the memory of GPU ${j}, by the copy engine if ${engine} is
 * set, otherwise by a kernel. Returns whether all bytes arrived. */
static bool verify(struct bench *b, int i, int j, bool engine)
{
    struct st_cuda *c = &b->cuda;
    static uint32_t got[VERIFY / 4];
    size_t words = VERIFY / 4;
    uint32_t seed = (uint32_t)(i * 977 + j * 131 + engine) * 2654435761u;
    st_address to = engine ? b->gpu[i].here : b->gpu[j].there;
    void *arguments[] = {&to, &words, &seed};

    c->context_set(b->gpu[j].context);
    c->fill(b->gpu[j].there, 0xa5, VERIFY);
    c->synchronize();
    c->context_set(b->gpu[i].context);
    if (!launch(b, i, b->gpu[i].write, BLOCKS, arguments))
        return false;
    if (engine && c->copy_peer(b->gpu[j].there, b->gpu[j].context, b->gpu[i].here,
                               b->gpu[i].context, VERIFY, b->gpu[i].stream))
        return false;
    if (c->stream_wait(b->gpu[i].stream))
        return false;
    c->context_set(b->gpu[j].context);
    if (c->to_host(got, b->gpu[j].there, VERIFY))
        return false;
    for (size_t k = 0; k < words; k++)
        if (got[k] != (uint32_t)k * 0x9e3779b1u + seed)
            return false;
    return true;
}

static double latency(struct bench *b, int i, int j)
{
    struct st_cuda *c = &b->cuda;
    double ms;

    c->context_set(b->gpu[j].context);
    c->fill(b->gpu[j].there, 0, 4096);
    c->synchronize();
    ms = timed(b, i, CHASE, b->gpu[i].here, i, b->gpu[j].there, j);
    return ms > 0 ? ms * 1000 / CHASES : 0;
}

static void probe_pair(struct bench *b, int i, int j)
{
    struct st_cuda *c = &b->cuda;
    struct st_pair *pair = &report->pair[i][j];
    enum { ALREADY_ENABLED = 704 }; /* CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED */
    int can = 0, enabled;

    c->can_access(&can, i, j);
    c->context_set(b->gpu[i].context);
    /* Enabling peer access may fail: without NVSwitch a GPU can have at most 8 peers. If it fails,
     * measure only the copy engine. A kernel that writes to a GPU that is no peer would fail, and
     * so would all CUDA calls after it. */
    enabled = can ? c->enable_peer(b->gpu[j].context, 0) : -1;
    pair->peer = enabled == 0 || enabled == ALREADY_ENABLED;
    pair->engine_arrives = verify(b, i, j, true);
    pair->engine = gbps(timed(b, i, BY_ENGINE, b->gpu[j].there, j, b->gpu[i].here, i));
    if (!pair->peer)
        return;
    pair->arrives = verify(b, i, j, false);
    pair->store = gbps(timed(b, i, BY_KERNEL, b->gpu[j].there, j, b->gpu[i].here, i));
    pair->load = gbps(timed(b, i, BY_KERNEL, b->gpu[i].here, i, b->gpu[j].there, j));
    pair->latency_us = latency(b, i, j);
}

/* Measure the bandwidth of each GPU while all GPUs write to their neighbours at once. On some hosts
 * the root complex gets much slower under this load. Keeps each GPU's best of two rounds. */
static void probe_together(struct bench *b)
{
    struct st_cuda *c = &b->cuda;

    for (int t = 0; t < 2; t++)
        for (int step = 0; step < 2; step++)
            for (int i = 0; i < b->n; i++) {
                int j = (i + 1) % b->n;
                st_address to = b->gpu[j].there, from = b->gpu[i].here;
                size_t words = PROBE / 16;
                void *arguments[] = {&to, &from, &words};
                float ms = 0;

                if (!report->pair[i][j].peer)
                    continue;
                c->context_set(b->gpu[i].context);
                if (step == 0) {
                    c->event_record(b->gpu[i].start, b->gpu[i].stream);
                    launch(b, i, b->gpu[i].copy, BLOCKS, arguments);
                    c->event_record(b->gpu[i].stop, b->gpu[i].stream);
                } else if (c->stream_wait(b->gpu[i].stream) == 0 &&
                           c->event_elapsed(&ms, b->gpu[i].start, b->gpu[i].stop) == 0 &&
                           gbps((double)ms) > report->together[i]) {
                    report->together[i] = gbps((double)ms);
                }
            }
}

/* ---- the measuring process ------------------------------------------------------------------- */

/* What the measuring process fills in, and the doctor reads. */
static struct shared {
    struct st_gpu_report report;
    struct symtuner_machine machine;
    bool found, loaded;  /* ${machine} is filled in; the CUDA driver has started      */
    char error[400];     /* why the CUDA driver did not start                         */
    char doing[80];      /* what the process is doing now, for messages               */
    int gpu;             /* the GPU on which it does this                             */
    atomic_int steps;    /* grows as soon as the process does something else          */
} *shared;

static void step(int gpu, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(shared->doing, sizeof shared->doing, format, arguments);
    va_end(arguments);
    shared->gpu = gpu;
    atomic_fetch_add(&shared->steps, 1);
}

static void measure(bool gpus)
{
    static struct bench bench;
    enum { MULTICAST_SUPPORTED = 132 };

    report = &shared->report;
    step(0, "the driver");
    symtuner_machine_find(&shared->machine);
    shared->found = true;
    step(0, "the driver");
    if (!gpus || !st_cuda_load(&bench.cuda, &bench.n, shared->error, sizeof shared->error))
        return;
    if (bench.n > ST_GPUS_MAX)
        bench.n = ST_GPUS_MAX;
    shared->loaded = true;
    for (int i = 0; i < bench.n; i++) {
        int device = 0;

        step(i, "GPU %d", i);
        report->gpus = i + 1;
        bench.cuda.device_get(&device, i);
        bench.cuda.device_name(report->name[i], sizeof report->name[i], device);
        report->multicast[i] = -1;
        bench.cuda.device_attribute(&report->multicast[i], MULTICAST_SUPPORTED, device);
        if (!start_gpu(&bench, i)) {
            report->failed = i + 1;
            return;
        }
    }
    for (int i = 0; i < bench.n; i++)
        for (int j = 0; j < bench.n; j++)
            if (i != j) {
                step(i, "GPU %d to %d", i, j);
                probe_pair(&bench, i, j);
            }
    step(0, "all GPUs at once");
    if (bench.n > 1)
        probe_together(&bench);
}

/* Wait until process ${pid} ends. If it finishes no step of its work for ${limit_s} seconds, kill
 * it. Fills ${why} with what happened, or "" if the process ended by itself. */
static void watch(pid_t pid, int limit_s, char *why, size_t size)
{
    static const struct timespec nap = {.tv_nsec = 2000000};
    /* Seconds to wait after SIGKILL: a process that waits inside the driver may die late or
     * never. */
    enum { KILLED_S = 3 };
    double since = st_child_now();
    int steps = 0, status = 0;
    bool late = false;

    why[0] = '\0';
    while (waitpid(pid, &status, WNOHANG) == 0) {
        double now = st_child_now();

        if (atomic_load(&shared->steps) != steps && !late) {
            steps = atomic_load(&shared->steps);
            since = now;
        }
        if (now - since > (late ? KILLED_S : limit_s)) {
            if (late)
                return;
            late = true;
            since = now;
            kill(pid, SIGKILL);
            snprintf(why, size, "no answer within %d s", limit_s);
        }
        nanosleep(&nap, NULL);
    }
    if (!late && WIFSIGNALED(status))
        snprintf(why, size, "the measuring process ended by signal %d", WTERMSIG(status));
}

void st_doctor_gpu(struct st_doctor *doctor, bool gpus, int limit_s)
{
    char why[80], text[500];
    pid_t parent = getpid(), pid;

    doctor->machine = (struct symtuner_machine){.nvlink = -1, .multicast = -1};
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        st_doctor_unchecked(doctor, "GPUs: out of memory");
        return;
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            measure(gpus);
        _exit(0);
    }
    if (pid < 0) {
        st_doctor_unchecked(doctor, "GPUs: no process to measure with");
        return;
    }
    watch(pid, limit_s, why, sizeof why);
    report = &shared->report;
    if (shared->found)
        doctor->machine = shared->machine;
    if (gpus && why[0]) {
        report->failed = shared->gpu + 1;
        snprintf(report->failed_text, sizeof report->failed_text, "%s: %s", shared->doing, why);
    } else if (!gpus || !shared->loaded) {
        snprintf(text, sizeof text, "GPUs%s%s", gpus || why[0] ? ": " : "",
                 gpus ? shared->error : why);
        st_doctor_unchecked(doctor, text);
        return;
    }
    doctor->gpus = report;
    if (report->gpus > 1 && !report->failed)
        st_doctor_windows(doctor, report);
}

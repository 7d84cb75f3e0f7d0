/* SPDX-License-Identifier: Apache-2.0 */
/* fake_gpu.c - GPUs made of host memory (fake_gpu.h). Compiled three times: -DFAKE_CUDA gives
 * libcuda.so.1, -DFAKE_NCCL libnccl.so.2, -DFAKE_CUBLAS libcublas.so.12. */
#include "test/cli/fake_gpu.h"

#ifdef FAKE_CUDA
static __thread struct context *current;

/* Return the context of GPU ${device}. */
static struct context *context_of(int device)
{
    static struct context contexts[RANKS];

    contexts[device].device = device;
    return &contexts[device];
}

static void hang_if(int hangs) { while (hangs) pause(); }
EXPORT int cuInit(unsigned f)
{
    (void)f;
    hang_if(fault("driver-hangs"));
    return fault("init") ? 999 : 0;
}
EXPORT int cuDriverGetVersion(int *v)
{
    *v = number("FAKE_DRIVER", 12080);
    return 0;
}
EXPORT int cuDeviceGetCount(int *n) { *n = number("FAKE_GPUS", 2); return 0; }
EXPORT int cuDeviceGet(int *d, int i) { *d = i; return 0; }
EXPORT int cuDeviceGetName(char *s, int n, int d)
{
    snprintf(s, (size_t)n, "%s", d && fault("gpus-differ") ? "NVIDIA Other" : "NVIDIA Fake");
    return 0;
}
EXPORT int cuDeviceGetAttribute(int *v, int a, int d) { (void)d; *v = a == 132; return 0; }
EXPORT int cuDeviceCanAccessPeer(int *v, int a, int b)
{
    *v = !(fault("peer-missing") && a + b == 1);
    return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void **c, int d) { *c = context_of(d); return 0; }
EXPORT int cuCtxSetCurrent(void *c) { current = c; return 0; }
EXPORT int cuCtxSynchronize(void) { return 0; }
/* With FAKE_FAULT=peers-full, GPUs 0 and 1 get error 711, too many peers. The real driver returns
 * this error for a ninth peer on machines without NVSwitch. */
EXPORT int cuCtxEnablePeerAccess(void *c, unsigned f)
{
    (void)f;
    return fault("peers-full") && ((struct context *)c)->device + current->device == 1 ? 711 : 0;
}
/* The addresses of this thread's large buffers, which hold the matrices of the GEMMs. */
enum { BIG = 3 };
static __thread struct {
    uint64_t at, end;
} big[BIG];
EXPORT int cuMemAlloc_v2(uint64_t *p, size_t n)
{
    static __thread int bigs;

    *p = (uint64_t)(uintptr_t)calloc(1, n);
    if (n >= 64 << 20 && bigs < BIG) {
        big[bigs].at = *p;
        big[bigs++].end = *p + n;
    }
    return *p && !fault("gpu-fails") ? 0 : 2;
}
EXPORT int cuMemFree_v2(uint64_t p) { free((void *)(uintptr_t)p); return 0; }
EXPORT int cuMemcpyHtoD_v2(uint64_t d, const void *s, size_t n)
{
    size_t skip = 0;

    for (int i = 0; i < BIG && n > 4096; i++) /* of a matrix copy only the tail, to save time */
        if (big[i].at <= d && d < big[i].end)
            skip = n - 4096;
    memcpy((char *)(uintptr_t)d + skip, (const char *)s + skip, n - skip);
    return 0;
}
EXPORT int cuMemcpyDtoH_v2(void *d, uint64_t s, size_t n)
{
    memcpy(d, (void *)(uintptr_t)s, n);
    return 0;
}
EXPORT int cuMemsetD8_v2(uint64_t d, unsigned char v, size_t n)
{
    memset((void *)(uintptr_t)d, v, n);
    return 0;
}
EXPORT int cuMemcpyPeerAsync(uint64_t d, void *dc, uint64_t s, void *sc, size_t n, void *stream)
{
    int pair = ((struct context *)dc)->device + ((struct context *)sc)->device;

    memcpy((void *)(uintptr_t)d, (void *)(uintptr_t)s, n < 1 << 20 ? n : 1 << 20);
    if (fault("write-lost-engine"))
        *(char *)(uintptr_t)d ^= 1;
    charge(stream, (double)n / (fault("slow-pair") && pair == 1 ? 60e3 : 390e3));
    return 0;
}
EXPORT int cuStreamCreate(void **s, unsigned f)
{
    (void)f;
    *s = calloc(1, sizeof(struct stream));
    return 0;
}
EXPORT int cuStreamCreateWithPriority(void **s, unsigned f, int priority)
{
    cuStreamCreate(s, f);
    ((struct stream *)*s)->high = priority < 0;
    return 0;
}
EXPORT int cuStreamWaitEvent(void *s, void *e, unsigned f)
{
    struct stream *stream = s;
    struct event *event = e;

    (void)f;
    if (stream->clock_us < event->us)
        stream->clock_us = event->us;
    if (!stream->high) {
        stream->clock_us += event->stolen_us - stream->waited_us;
        stream->waited_us = event->stolen_us;
    }
    return 0;
}
EXPORT int cuStreamSynchronize(void *s)
{
    (void)s, hang_if(fault("gpu-hangs") && current->device == 1);
    if (fault("driver-crashes"))
        abort();
    return 0;
}
EXPORT int cuEventCreate(void **e, unsigned f)
{
    (void)f;
    *e = calloc(1, sizeof(struct event));
    return 0;
}
EXPORT int cuEventRecord(void *e, void *s)
{
    struct stream *stream = s;

    *(struct event *)e = (struct event){stream->clock_us, stream->stolen_us};
    return 0;
}
EXPORT int cuEventElapsedTime(float *ms, void *a, void *b)
{
    *ms = (float)((((struct event *)b)->us - ((struct event *)a)->us) / 1000);
    return 0;
}
EXPORT int cuStreamBeginCapture_v2(void *s, int mode)
{
    (void)mode;
    ((struct stream *)s)->capturing = 1;
    ((struct stream *)s)->graph_us = 0;
    return 0;
}
EXPORT int cuStreamEndCapture(void *s, void **g)
{
    double *us = malloc(sizeof *us);

    ((struct stream *)s)->capturing = 0;
    *us = ((struct stream *)s)->graph_us;
    *g = us;
    return 0;
}
EXPORT int cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long f)
{
    double *us = malloc(sizeof *us);

    (void)f;
    *us = *(double *)g;
    *e = us;
    return 0;
}
EXPORT int cuGraphLaunch(void *e, void *s)
{
    ((struct stream *)s)->clock_us += noisy(*(double *)e);
    return 0;
}
EXPORT int cuGraphExecDestroy(void *e) { free(e); return 0; }
EXPORT int cuGraphDestroy(void *g) { free(g); return 0; }
EXPORT int cuModuleLoadData(void **m, const void *text) { *m = (void *)text; return 0; }
EXPORT int cuModuleGetFunction(void **f, void *m, const char *name)
{
    (void)m;
    *f = (void *)name;
    return 0;
}
EXPORT int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                          unsigned g, unsigned h, void *stream, void **argument, void **more)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)g, (void)h, (void)more;
    if (strcmp(f, "st_write") == 0) {
        uint32_t *to = *(uint32_t **)argument[0];
        size_t n = *(size_t *)argument[1];

        for (size_t k = 0; k < n; k++)
            to[k] = (uint32_t)k * 0x9e3779b1u + *(uint32_t *)argument[2];
        if (fault("write-lost"))
            to[n - 1] ^= 1;
    } else if (strcmp(f, "st_copy") == 0) {
        static __thread unsigned launches;
        /* the doctor launches four stores, then four loads, and so on; this tells them apart */
        int store = launches++ / 4 % 2 == 0;

        charge(stream, (64 << 20) / (fault("peer-staged")                      ? 20e3
                                     : store && fault("write-collapse")       ? 50e3
                                                                               : 350e3));
    } else {
        charge(stream, *(unsigned *)argument[2] * 1.3);
    }
    return 0;
}
EXPORT int cuGetErrorString(int e, const char **s) { (void)e; *s = "fake error"; return 0; }
#endif

#ifdef FAKE_NCCL
#ifndef FAKE_RELEASE
#define FAKE_RELEASE      22809
#define FAKE_RELEASE_TEXT "2.28.9"
#endif
const char version_text[] = "NCCL version " FAKE_RELEASE_TEXT "+cuda13.0";

struct id {
    char bytes[128];
};

EXPORT int ncclGetVersion(int *v) { *v = number("FAKE_NCCL", FAKE_RELEASE); return 0; }
EXPORT const char *ncclGetErrorString(int e) { (void)e; return "fake NCCL error"; }
EXPORT int ncclGetUniqueId(struct id *id)
{
    struct group *group = calloc(1, sizeof *group);

    memcpy(id->bytes, &group, sizeof group);
    return 0;
}
EXPORT int ncclCommInitRank(void **c, int n, struct id id, int rank)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct comm *comm = calloc(1, sizeof *comm);

    memcpy(&comm->group, id.bytes, sizeof comm->group);
    comm->rank = rank;
    pthread_mutex_lock(&lock);
    if (!comm->group->ranks) {
        comm->group->ranks = n;
        pthread_barrier_init(&comm->group->barrier, NULL, (unsigned)n);
    }
    pthread_mutex_unlock(&lock);
    usleep((useconds_t)number("FAKE_SLEEP_MS", 0) * 1000);
    *c = comm;
    return fault("window-failed") ? 3 : 0;
}
EXPORT int ncclCommDestroy(void *c) { free(c); return 0; }
EXPORT int ncclMemAlloc(void **p, size_t n) { *p = calloc(1, n); return *p ? 0 : 1; }
EXPORT int ncclMemFree(void *p) { free(p); return 0; }
EXPORT int ncclCommWindowRegister(void *c, void *p, size_t n, void **w, int flags)
{
    struct comm *comm = c;

    (void)flags;
    if (fault("window-null"))
        return *w = NULL, 0;
    comm->window[comm->windows] = p;
    comm->size[comm->windows++] = n;
    *w = p;
    return 0;
}
EXPORT int ncclCommWindowDeregister(void *c, void *w) { (void)c; (void)w; return 0; }

static void account(struct comm *comm, const void *send, size_t bytes, struct stream *stream)
{
    int in_window = 0, ctas = number("NCCL_SYM_CTAS", 0);
    double rate;

    for (int i = 0; i < comm->windows; i++)
        in_window |= (const char *)send >= comm->window[i] &&
                     (const char *)send < comm->window[i] + comm->size[i];
    if (ctas == 0)
        ctas = getenv("FAKE_CONF") && !getenv("NCCL_ENV_PLUGIN") ? 16 : 7;
    rate = in_window ? 330e3 * ctas / (ctas + 3) : 315e3;
    charge_call(stream, (in_window ? 4.2 : 6.3) + (double)bytes / rate, in_window ? ctas : 24);
}
EXPORT int ncclAllReduce(const void *s, void *r, size_t n, int t, int op, void *c, void *stream)
{
    (void)op;
    account(c, s, n * size_of(t), stream);
    if (computes(stream, r))
        add_up(c, s, r, 0, n, t);
    if (fault("wrong-result") && n == 2048)
        put(r, 0, 100, t);
    return 0;
}
EXPORT int ncclAllGather(const void *s, void *r, size_t n, int t, void *c, void *stream)
{
    struct comm *comm = c;

    account(c, s, n * size_of(t) * (size_t)comm->group->ranks, stream);
    if (computes(stream, r))
        gather(comm, s, r, n * size_of(t));
    return 0;
}
EXPORT int ncclReduceScatter(const void *s, void *r, size_t n, int t, int op, void *c, void *stream)
{
    struct comm *comm = c;

    (void)op;
    account(c, s, n * size_of(t) * (size_t)comm->group->ranks, stream);
    if (computes(stream, r))
        add_up(c, s, r, (size_t)comm->rank * n, n, t);
    return 0;
}
#endif

#ifdef FAKE_CUBLAS
/* With FAKE_FAULT=cublas-create, cublasCreate fails. With FAKE_FAULT=gemm, a GEMM fails. */
EXPORT int cublasCreate_v2(void **h)
{
    *h = calloc(1, sizeof(void *));
    return fault("cublas-create") ? 1 : 0;
}
EXPORT int cublasSetStream_v2(void *h, void *s)
{
    *(void **)h = s;
    return 0;
}
EXPORT int cublasSetWorkspace_v2(void *h, void *p, size_t n)
{
    (void)h, (void)p, (void)n;
    return 0;
}
EXPORT int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *one,
                        const void *a, int a_type, int a_lead, const void *b, int b_type,
                        int b_lead, const void *zero, void *c, int c_type, int c_lead, int kind,
                        int algorithm)
{
    struct stream *stream = *(struct stream **)h;

    if (ta || tb || *(const float *)one != 1 || *(const float *)zero != 0 || a_type != b_type ||
        a_type != c_type || a_lead != m || b_lead != k || c_lead != m || kind != 68 ||
        algorithm != -1 || !c || stream->high ||
        (m == 8192 &&
         memcmp((const char *)a + m * k * 2 - 128, (const char *)b + k * n * 2 - 128, 128) == 0))
        return 7;
    charge(stream, noisy(2.0 * m * n * k / number("FAKE_FLOPS", 700) / 1e6));
    return fault("gemm") ? 13 : 0;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.c - a CUDA runtime on the CPU: four GPUs in host memory.
 *
 * A stream is a thread that runs what was put into it in order. Calls return at once, as CUDA's do,
 * so the host runs ahead of the kernels. Kernels are those of test/kernels/emulated/emulate.h; one
 * that waits for another rank holds up its own stream only. A captured stream adds to a graph, and
 * replaying the graph puts its operations into a stream. It is stricter than CUDA in one point: no
 * kernel starts before the one in front of it on its stream has ended.
 *
 * What CUDA refuses is refused here where the library could do it: waiting for a stream that
 * captures, freeing what a graph still holds.
 */
#include "test/whole/cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/shared/args.h"
#include "test/kernels/emulated/emulate.h"

enum { DEVICES = 4, MULTIPROCESSORS = 8, OBJECTS_OF_GRAPH = 4096 };
enum {
    SHARED_ALWAYS = 48 << 10,
    SHARED_MOST = 227 << 10
}; /* bytes a block may have unasked, at all */

/* ---- operations ------------------------------------------------------------------------------ */

enum kind { KERNEL, COPY, FILL, RECORD, WAIT, HOST };

struct op {
    enum kind kind;
    struct op *next;
    const void *kernel, *from;
    void *to;
    size_t bytes;
    int ctas, threads, device, value;
    struct CUevent_st *event;
    unsigned long stamp;
    void (*host)(void *what);
    struct ar_args args;
    max_align_t what[16]; /* of a host function */
};

/* Records and waits count from 1. */
struct CUevent_st {
    unsigned long recorded, reached;
    struct CUgraph_st *graph; /* of the capture in which it was recorded last */
};

struct object_of_cuda {
    void *what;
    cudaHostFn_t drop;
    int refs;
};

struct CUgraph_st {
    struct op *first, **last;
    struct object_of_cuda *objects[OBJECTS_OF_GRAPH];
    int n_objects, refs;
    unsigned long long id;
};

struct CUstream_st {
    int device;
    unsigned long long id;
    pthread_t thread;
    struct op *first, **last;
    bool busy, ended;
    struct CUgraph_st *graph; /* NULL: does not capture */
    struct CUstream_st *next;
};

/* One lock for all: the time goes into kernels, which run without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct CUstream_st *streams, *standard[DEVICES];
static unsigned long long numbers;
static _Thread_local int current;
static _Thread_local cudaError_t last_error;

static cudaError_t ends(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

static void run(struct op *op)
{
    if (op->kind == KERNEL)
        emulate_launch(op->kernel, &op->args, op->ctas, op->threads, op->device);
    else if (op->kind == COPY)
        memmove(op->to, op->from, op->bytes);
    else if (op->kind == FILL)
        memset(op->to, op->value, op->bytes);
    else if (op->kind == HOST)
        op->host(op->what);
}

static void *work(void *p)
{
    struct CUstream_st *s = p;

    pthread_mutex_lock(&lock);
    while (s->first != NULL || !s->ended) {
        struct op *op = s->first;

        if (op == NULL || (op->kind == WAIT && op->event->reached < op->stamp)) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        s->first = op->next;
        if (s->first == NULL)
            s->last = &s->first;
        s->busy = true;
        pthread_mutex_unlock(&lock);
        run(op);
        pthread_mutex_lock(&lock);
        if (op->kind == RECORD && op->event->reached < op->stamp)
            op->event->reached = op->stamp;
        s->busy = false;
        free(op);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The functions from here to the next line run with the lock held. */

static struct CUstream_st *begin_stream(int device)
{
    struct CUstream_st *s = calloc(1, sizeof *s);

    s->device = device;
    s->id = ++numbers;
    s->last = &s->first;
    s->next = streams;
    streams = s;
    pthread_create(&s->thread, NULL, work, s);
    return s;
}

static struct CUstream_st *stream_of(cudaStream_t stream)
{
    if (stream != NULL)
        return stream;
    if (standard[current] == NULL)
        standard[current] = begin_stream(current);
    return standard[current];
}

static void append(struct op ***last, const struct op *op)
{
    struct op *copy = malloc(sizeof *copy);

    *copy = *op;
    copy->next = NULL;
    **last = copy;
    *last = &copy->next;
}

static bool idle(const struct CUstream_st *s)
{
    return s->first == NULL && !s->busy;
}

/* ---- with the lock not held ------------------------------------------------------------------ */

static cudaError_t put(cudaStream_t stream, struct op op)
{
    struct CUstream_st *s;

    pthread_mutex_lock(&lock);
    s = stream_of(stream);
    op.device = s->device;
    append(s->graph != NULL ? &s->graph->last : &s->last, &op);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t whole_host(cudaStream_t stream, void (*host)(void *what), const void *what, size_t size)
{
    struct op op = {.kind = HOST, .host = host};

    if (size > sizeof op.what)
        abort();
    memcpy(op.what, what, size);
    return put(stream, op);
}

static cudaError_t launch(const void *kernel, unsigned ctas, unsigned threads, void **params,
                          cudaStream_t stream)
{
    struct op op = {.kind = KERNEL, .kernel = kernel, .ctas = (int)ctas, .threads = (int)threads};

    memcpy(&op.args, params[0], sizeof op.args);
    return put(stream, op);
}

/* The kernels that may have more shared memory than usual. In the emulation kernels use less than on
 * a GPU, so a kernel must be here if it uses any that is given at the launch. */
static const void *large[1024];

static bool is_large(const void *kernel)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; large[i] != NULL && !found; i++)
        found = large[i] == kernel;
    pthread_mutex_unlock(&lock);
    return found;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    int i = 0;

    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value > SHARED_MOST)
        return ends(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    while (large[i] != NULL && large[i] != func)
        i++;
    large[i] = func;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **params)
{
    if (config->dynamicSmemBytes != 0 && !is_large(kernel))
        return ends(cudaErrorInvalidValue);
    return launch(kernel, config->gridDim.x, config->blockDim.x, params, config->stream);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **params,
                             size_t shared, cudaStream_t stream)
{
    (void)shared;
    return launch(kernel, grid.x, block.x, params, stream);
}

void emulate_take_room(int device)
{
    (void)device; /* each block has room: kernels of several ranks may share a GPU */
}

void emulate_give_room(int device)
{
    (void)device;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t error =
        put(stream, (struct op){.kind = COPY, .to = to, .from = from, .bytes = bytes});

    /* to or from memory that is not pinned, the copy has ended when the call returns */
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToDevice
               ? cudaStreamSynchronize(stream)
               : error;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return put(stream, (struct op){.kind = FILL, .to = p, .value = value, .bytes = bytes});
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    put(NULL, (struct op){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    return cudaStreamSynchronize(NULL);
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    cudaMemsetAsync(p, value, bytes, NULL);
    return cudaStreamSynchronize(NULL);
}

/* ---- streams and events ---------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    *stream = begin_stream(current);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    stream->ended = true; /* its thread ends after its work; the record stays */
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_detach(stream->thread);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    struct CUstream_st *s;
    bool captures;

    pthread_mutex_lock(&lock);
    s = stream_of(stream);
    captures = s->graph != NULL;
    while (!captures && !idle(s))
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return ends(captures ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    struct CUstream_st *s;
    cudaError_t error;

    pthread_mutex_lock(&lock);
    s = stream_of(stream);
    error = s->graph != NULL ? cudaErrorStreamCaptureUnsupported
            : idle(s)        ? cudaSuccess
                             : cudaErrorNotReady;
    pthread_mutex_unlock(&lock);
    return ends(error);
}

cudaError_t cudaDeviceSynchronize(void)
{
    bool all = false;

    pthread_mutex_lock(&lock);
    while (!all) {
        all = true;
        for (struct CUstream_st *s = streams; s != NULL && all; s = s->next)
            all = s->device != current || idle(s);
        if (!all)
            pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    struct CUstream_st *s;
    cudaError_t error;

    pthread_mutex_lock(&lock);
    s = stream_of(stream);
    *id = s->id;
    error = s->graph != NULL ? cudaErrorStreamCaptureUnsupported : cudaSuccess; /* as in CUDA 13 */
    pthread_mutex_unlock(&lock);
    return ends(error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event; /* a stream may still wait for it */
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct CUstream_st *s;
    struct op op = {.kind = RECORD, .event = event};

    pthread_mutex_lock(&lock);
    s = stream_of(stream);
    event->graph = s->graph;
    if (s->graph == NULL) {
        op.stamp = ++event->recorded;
        append(&s->last, &op);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* A stream that waits for an event of a capture joins the capture. The operations of a graph have
 * one order here, so that it needs no further edges. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    struct CUstream_st *s;
    struct op op = {.kind = WAIT, .event = event};
    cudaError_t error = cudaSuccess;

    (void)flags;
    pthread_mutex_lock(&lock);
    s = stream_of(stream);
    op.stamp = event->recorded;
    if (event->graph != NULL && s->graph == NULL)
        s->graph = event->graph;
    else if (event->graph != s->graph)
        error = cudaErrorStreamCaptureIsolation;
    else if (s->graph == NULL)
        append(&s->last, &op);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return ends(error);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    static _Thread_local enum cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
    enum cudaStreamCaptureMode before = now;

    now = *mode;
    *mode = before;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);

    (void)mode;
    graph->last = &graph->first;
    graph->refs = 1;
    pthread_mutex_lock(&lock);
    graph->id = ++numbers;
    stream->graph = graph;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    pthread_mutex_lock(&lock);
    *out = stream->graph;
    for (struct CUstream_st *s = streams; s != NULL; s = s->next)
        if (s->graph == *out)
            s->graph = NULL;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    pthread_mutex_lock(&lock);
    *status = stream_of(stream)->graph != NULL ? cudaStreamCaptureStatusActive
                                               : cudaStreamCaptureStatusNone;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *n)
{
    (void)edges;
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **nodes, size_t *n)
{
#endif
    (void)nodes, (void)n;
    cudaStreamIsCapturing(stream, status);
    pthread_mutex_lock(&lock);
    if (*status == cudaStreamCaptureStatusActive) {
        *id = stream_of(stream)->graph->id;
        if (graph != NULL)
            *graph = stream_of(stream)->graph;
    }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *out, void *what, cudaHostFn_t drop,
                                 unsigned refs, unsigned flags)
{
    struct object_of_cuda *object = malloc(sizeof *object);

    (void)flags;
    *object = (struct object_of_cuda){what, drop, (int)refs};
    *out = (cudaUserObject_t)object;
    return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t o, unsigned refs)
{
    struct object_of_cuda *object = (struct object_of_cuda *)o;

    if (__atomic_sub_fetch(&object->refs, (int)refs, __ATOMIC_ACQ_REL) == 0) {
        object->drop(object->what);
        free(object);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned refs,
                                      unsigned flags)
{
    if (refs != 1 || flags != cudaGraphUserObjectMove || graph->n_objects == OBJECTS_OF_GRAPH)
        return ends(cudaErrorInvalidValue);
    graph->objects[graph->n_objects++] = (struct object_of_cuda *)object;
    return cudaSuccess;
}

/* A graph, what was made from it, and each replay that has not ended hold it. */
static void let_go(struct CUgraph_st *graph)
{
    if (__atomic_sub_fetch(&graph->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    for (int i = 0; i < graph->n_objects; i++)
        cudaUserObjectRelease((cudaUserObject_t)graph->objects[i], 1);
    for (struct op *op = graph->first, *next; op != NULL; op = next) {
        next = op->next;
        free(op);
    }
    free(graph);
}

static void replayed(void *what)
{
    let_go(*(struct CUgraph_st **)what);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    __atomic_add_fetch(&graph->refs, 1, __ATOMIC_ACQ_REL);
    *out = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)exec, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    let_go(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    let_go((struct CUgraph_st *)exec);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct CUgraph_st *graph = (struct CUgraph_st *)exec;
    struct CUstream_st *s;

    __atomic_add_fetch(&graph->refs, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_lock(&lock);
    s = stream_of(stream);
    for (const struct op *op = graph->first; op != NULL; op = op->next)
        append(&s->last, op);
    pthread_mutex_unlock(&lock);
    return whole_host(stream, replayed, &graph, sizeof graph);
}

/* ---- memory ---------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return ends(*p != NULL ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *p)
{
    cudaDeviceSynchronize();
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(p, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags;
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    (void)p;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = (size_t)8 << 30;
    return cudaSuccess;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = DEVICES;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= DEVICES)
        return ends(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    (void)device;
    *value = attr == cudaDevAttrMaxSharedMemoryPerBlockOptin ? SHARED_MOST
             : attr == cudaDevAttrMultiProcessorCount        ? MULTIPROCESSORS
             : attr == cudaDevAttrComputeCapabilityMinor     ? 0
                                                             : 9;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    (void)func;
    memset(attr, 0, sizeof *attr);
    attr->ptxVersion = 90;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device, (void)peer;
    *can = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    snprintf(text, (size_t)length, "0000:%02x:00.0", device);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    *device = (int)strtol(text + 5, NULL, 16);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int from, int to)
{
    (void)attr, (void)from, (void)to;
    *value = 1;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error";
}

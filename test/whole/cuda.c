/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.c - a CUDA runtime on the CPU, with eight GPUs in host memory. This file has operations,
 * streams and events; graph.c has captures and graphs; gpu.c has memory and the properties of the
 * GPUs.
 *
 * A stream is a thread that runs the operations of the stream in order. Calls return at once, as
 * CUDA's do, so the host runs ahead of the kernels. test/kernels/emulated/emulate.h runs the
 * kernels. A kernel that waits for another rank holds up its own stream only. While a stream is
 * captured, its operations go into a graph; launching the graph puts copies of them into a stream.
 * This runtime is stricter than CUDA in one point: no kernel starts before the kernel in front of
 * it on its stream has ended.
 *
 * Like CUDA, the runtime refuses two misuses that the library could commit: waiting for a stream
 * that is being captured, and launching a kernel with shared memory that cudaFuncSetAttribute has
 * not allowed.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/kernels/emulated/emulate.h"
#include "test/whole/stream.h"

/* ---- operations ------------------------------------------------------------------------------ */

pthread_mutex_t whole_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t whole_changed = PTHREAD_COND_INITIALIZER;
struct CUstream_st *whole_list;
static struct CUstream_st *ended; /* streams that were destroyed; graphs may still name them */
struct whole_cuda whole_cuda;
unsigned long long whole_numbers;
static struct CUstream_st *standard[DEVICES];

/* Run a copy. Every fifth copy of a stream is late, so that an operation that fails to wait for it
 * reads old data. Some copies are so late that a kernel can begin and end in the meantime. A copy
 * of 4 or 8 aligned bytes is one store, because kernels may read the word meanwhile. */
static void move(const struct op *op)
{
    static _Thread_local unsigned turn;

    if (turn % 5 == 0)
        usleep(turn % 35 == 0 ? 10000 : 300);
    turn++;
    if (op->bytes == sizeof(uint64_t) && ((uintptr_t)op->to | (uintptr_t)op->from) % 8 == 0)
        __atomic_store_n((uint64_t *)op->to, *(const uint64_t *)op->from, __ATOMIC_RELEASE);
    else if (op->bytes == sizeof(uint32_t) && ((uintptr_t)op->to | (uintptr_t)op->from) % 4 == 0)
        __atomic_store_n((uint32_t *)op->to, *(const uint32_t *)op->from, __ATOMIC_RELEASE);
    else
        memmove(op->to, op->from, op->bytes);
}

static void fill(const struct op *op)
{
    const size_t most = whole_cuda.fills;

    memset(op->to, op->value, most != 0 && op->bytes > most ? most : op->bytes);
}

static void run(struct op *op)
{
    if (op->kind == KERNEL)
        emulate_launch(op->kernel, &op->args, op->ctas, op->threads, op->device);
    else if (op->kind == COPY)
        move(op);
    else if (op->kind == FILL)
        fill(op);
    else if (op->kind == HOST)
        op->host(op->what);
    else if (op->kind == AWAIT_WORD)
        while (__atomic_load_n((const uint64_t *)op->from, __ATOMIC_ACQUIRE) < (uint64_t)op->value)
            usleep(20);
    else if (op->kind == WRITE_WORD)
        __atomic_store_n((uint64_t *)op->to, (uint64_t)op->value, __ATOMIC_RELEASE);
}

void whole_let_go(struct mark *mark)
{
    if (mark != NULL && --mark->refs == 0)
        free(mark);
}

/* Move ${s} from the list of all streams to that of destroyed ones. The caller holds the lock. */
static void leave_list(struct CUstream_st *s)
{
    struct CUstream_st **at = &whole_list;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->next = ended;
    ended = s;
}

static void *work(void *p)
{
    struct CUstream_st *s = p;

    pthread_mutex_lock(&whole_lock);
    while (s->first != NULL || !s->ended) {
        struct op *op = s->first;

        if (op == NULL || (op->kind == WAIT && !op->mark->reached)) {
            pthread_cond_wait(&whole_changed, &whole_lock);
            continue;
        }
        s->first = op->next;
        if (s->first == NULL)
            s->last = &s->first;
        s->busy = true;
        pthread_mutex_unlock(&whole_lock);
        run(op);
        pthread_mutex_lock(&whole_lock);
        if (op->kind == RECORD)
            op->mark->reached = true;
        whole_let_go(op->mark);
        s->busy = false;
        free(op);
        pthread_cond_broadcast(&whole_changed);
    }
    leave_list(s);
    pthread_mutex_unlock(&whole_lock);
    return NULL;
}

/* Callers hold the lock when they call the functions from here to the next heading. */

struct CUstream_st *whole_stream_begin(int device)
{
    struct CUstream_st *s = calloc(1, sizeof *s);

    s->device = device;
    s->id = ++whole_numbers;
    s->last = &s->first;
    s->next = whole_list;
    whole_list = s;
    pthread_create(&s->thread, NULL, work, s);
    return s;
}

void whole_stream_end(struct CUstream_st *s)
{
    s->ended = true;
    pthread_cond_broadcast(&whole_changed);
    pthread_detach(s->thread);
}

struct CUstream_st *whole_stream_of(cudaStream_t stream)
{
    if (stream != NULL)
        return stream;
    if (standard[whole_current] == NULL)
        standard[whole_current] = whole_stream_begin(whole_current);
    return standard[whole_current];
}

struct op *whole_append(struct op ***last, const struct op *op)
{
    struct op *copy = malloc(sizeof *copy);

    *copy = *op;
    copy->next = NULL;
    **last = copy;
    *last = &copy->next;
    return copy;
}

static bool idle(const struct CUstream_st *s)
{
    return s->first == NULL && !s->busy;
}

/* ---- with the lock not held ------------------------------------------------------------------ */

cudaError_t whole_queue(cudaStream_t stream, struct op op)
{
    struct CUstream_st *s;

    pthread_mutex_lock(&whole_lock);
    s = whole_stream_of(stream);
    op.device = s->device;
    op.captured = s;
    whole_append(s->graph != NULL ? &s->graph->last : &s->last, &op);
    pthread_cond_broadcast(&whole_changed);
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t whole_host(cudaStream_t stream, void (*host)(void *what), const void *what, size_t size)
{
    struct op op = {.kind = HOST, .host = host};

    if (size > sizeof op.what)
        abort();
    memcpy(op.what, what, size);
    return whole_queue(stream, op);
}

static cudaError_t launch(const void *kernel, unsigned ctas, unsigned threads, void **params,
                          cudaStream_t stream)
{
    struct op op = {.kind = KERNEL, .kernel = kernel, .ctas = (int)ctas, .threads = (int)threads};

    memcpy(&op.args, params[0], sizeof op.args);
    return whole_queue(stream, op);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **params)
{
    if (config->dynamicSmemBytes != 0 && !whole_may_share(kernel))
        return whole_error(cudaErrorInvalidValue);
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
    (void)device; /* any number of blocks fits on a GPU, because ranks may share it */
}

void emulate_give_room(int device)
{
    (void)device;
}

static cudaError_t await_stream(cudaStream_t stream)
{
    struct CUstream_st *s;
    bool captures;

    pthread_mutex_lock(&whole_lock);
    s = whole_stream_of(stream);
    captures = s->graph != NULL;
    while (!captures && !idle(s))
        pthread_cond_wait(&whole_changed, &whole_lock);
    pthread_mutex_unlock(&whole_lock);
    return whole_error(captures ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const bool between = kind == cudaMemcpyDefault || kind == cudaMemcpyDeviceToDevice;
    cudaError_t error = cudaSuccess;

    if (!between || !whole_cuda.no_copies)
        error =
            whole_queue(stream, (struct op){.kind = COPY, .to = to, .from = from, .bytes = bytes});

    /* This runtime treats all host memory as memory that is not pinned. A copy from or to such
     * memory has ended when the call returns, as in CUDA. */
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToDevice ? await_stream(stream)
                                                                            : error;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return whole_queue(stream, (struct op){.kind = FILL, .to = p, .value = value, .bytes = bytes});
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    whole_queue(NULL, (struct op){.kind = COPY, .to = to, .from = from, .bytes = bytes});
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
    pthread_mutex_lock(&whole_lock);
    *stream = whole_stream_begin(whole_current);
    whole_live(1);
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    pthread_mutex_lock(&whole_lock);
    whole_stream_end(stream);
    pthread_mutex_unlock(&whole_lock);
    whole_live(-1);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    whole_prohibited();
    return await_stream(stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    struct CUstream_st *s;
    cudaError_t error;

    whole_prohibited();
    pthread_mutex_lock(&whole_lock);
    s = whole_stream_of(stream);
    error = s->graph != NULL ? cudaErrorStreamCaptureUnsupported
            : idle(s)        ? cudaSuccess
                             : cudaErrorNotReady;
    pthread_mutex_unlock(&whole_lock);
    return whole_error(error);
}

cudaError_t cudaDeviceSynchronize(void)
{
    bool all = false;

    pthread_mutex_lock(&whole_lock);
    while (!all) {
        all = true;
        for (struct CUstream_st *s = whole_list; s != NULL && all; s = s->next)
            all = s->device != whole_current || idle(s);
        if (!all)
            pthread_cond_wait(&whole_changed, &whole_lock);
    }
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    struct CUstream_st *s;
    cudaError_t error;

    pthread_mutex_lock(&whole_lock);
    s = whole_stream_of(stream);
    *id = s->id;
    /* CUDA 13, too, gives this error for a stream that is being captured */
    error = s->graph != NULL ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
    pthread_mutex_unlock(&whole_lock);
    return whole_error(error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    whole_live(1);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    pthread_mutex_lock(&whole_lock);
    whole_let_go(event->latest);
    pthread_mutex_unlock(&whole_lock);
    free(event);
    whole_live(-1);
    return cudaSuccess;
}

struct mark *whole_mark(cudaEvent_t event, struct CUgraph_st *graph)
{
    whole_let_go(event->latest);
    event->latest = calloc(1, sizeof *event->latest);
    event->latest->refs = 2;
    event->graph = graph;
    return event->latest;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct op op = {.kind = RECORD};
    struct CUstream_st *s;

    pthread_mutex_lock(&whole_lock);
    s = whole_stream_of(stream);
    op.mark = whole_mark(event, s->graph);
    op.captured = s;
    whole_append(s->graph != NULL ? &s->graph->last : &s->last, &op);
    pthread_cond_broadcast(&whole_changed);
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    bool captured;

    whole_prohibited();
    pthread_mutex_lock(&whole_lock);
    captured = event->graph != NULL;
    while (!captured && event->latest != NULL && !event->latest->reached)
        pthread_cond_wait(&whole_changed, &whole_lock);
    pthread_mutex_unlock(&whole_lock);
    return whole_error(captured ? cudaErrorCapturedEvent : cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    bool captured, reached;

    whole_prohibited();
    pthread_mutex_lock(&whole_lock);
    captured = event->graph != NULL;
    reached = event->latest == NULL || event->latest->reached;
    pthread_mutex_unlock(&whole_lock);
    return whole_error(captured  ? cudaErrorCapturedEvent
                       : reached ? cudaSuccess
                                 : cudaErrorNotReady);
}

/* A stream that waits for an event of a capture joins the capture. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    struct CUstream_st *s;
    struct op op = {.kind = WAIT};
    cudaError_t error = cudaSuccess;

    (void)flags;
    pthread_mutex_lock(&whole_lock);
    s = whole_stream_of(stream);
    op.mark = event->latest;
    op.captured = s;
    if (event->graph != NULL && s->graph == NULL)
        s->graph = event->graph;
    if (event->graph != s->graph) {
        error = cudaErrorStreamCaptureIsolation;
    } else if (op.mark != NULL) {
        op.mark->refs++;
        whole_append(s->graph != NULL ? &s->graph->last : &s->last, &op);
    }
    pthread_cond_broadcast(&whole_changed);
    pthread_mutex_unlock(&whole_lock);
    return whole_error(error);
}

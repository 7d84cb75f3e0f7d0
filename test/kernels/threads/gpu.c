/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - graphs of check-threads, and what its kernels do. */
#include "test/kernels/threads/gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/group/nccl_wait.h"
#include "kernels/shared/args.h"
#include "test/kernels/emulated/emulate.h"

/* Read and write a byte of ${p}, as something else may do at the same time. */
static void touch(char *p)
{
    __atomic_fetch_add(p, 0, __ATOMIC_RELAXED);
}

/* Like a real kernel, use nothing but the counters if the handle is dead. */
void emulate_launch(const void *kernel, const struct ar_args *args, int ctas, int threads,
                    int device)
{
    (void)kernel, (void)ctas, (void)threads, (void)device;
    if (__atomic_load_n(&args->state->dead, __ATOMIC_ACQUIRE) != AR_ALIVE)
        return;
    touch((char *)&args->mailbox->waits);
    for (int r = 0; r < args->ranks; r++)
        if (r == args->me || args->timeout_ns == LOCAL_MS * UINT64_C(1000000))
            touch(args->peer[r]);
}

/* ---- the thread that ends graphs ------------------------------------------------------------- */

struct held {
    struct held *next;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int device;
    uint64_t due;
    bool runs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *list;
static bool stopped;
static pthread_t thread;

void graph_hand_over(cudaGraph_t graph, int device, int us, bool runs)
{
    struct held *g = calloc(1, sizeof *g);

    *g = (struct held){.graph = graph, .device = device, .runs = runs};
    g->due = ar_now_ns() + (uint64_t)us * 1000;
    cudaGraphInstantiate(&g->exec, graph, 0);
    pthread_mutex_lock(&lock);
    g->next = list;
    list = g;
    pthread_mutex_unlock(&lock);
}

/* Take a graph that is due off the list. If all ${stopped}, every graph is due. */
static struct held *take(bool *done)
{
    struct held **at = &list, *g;
    const uint64_t now = ar_now_ns();

    pthread_mutex_lock(&lock);
    while (*at != NULL && !stopped && (*at)->due > now)
        at = &(*at)->next;
    g = *at;
    if (g != NULL)
        *at = g->next;
    *done = stopped && list == NULL;
    pthread_mutex_unlock(&lock);
    return g;
}

static void end(struct held *g, cudaStream_t stream)
{
    if (g->runs) {
        cudaGraphLaunch(g->exec, stream);
        cudaStreamSynchronize(stream);
    }
    cudaGraphDestroy(g->graph);
    cudaGraphExecDestroy(g->exec);
    free(g);
}

static void *end_graphs(void *unused)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaStream_t stream;
    bool done = false;

    (void)unused;
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    while (!done) {
        struct held *g = take(&done);

        if (g != NULL)
            end(g, stream);
        else
            usleep(50);
    }
    cudaStreamDestroy(stream);
    return NULL;
}

void graphs_start(void)
{
    stopped = false;
    pthread_create(&thread, NULL, end_graphs, NULL);
}

void graphs_stop(void)
{
    pthread_mutex_lock(&lock);
    stopped = true;
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* member.c - calls of a rank of check-threads. */
#include "test/kernels/threads/member.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "test/kernels/threads/gpu.h"

void member_begin(struct member *m)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

    cudaSetDevice(m->group->gpu[m->rank]);
    for (int i = 0; i < STREAMS; i++)
        cudaStreamCreateWithFlags(&m->stream[i], cudaStreamNonBlocking);
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaMalloc((void **)&m->memory, MEMORY);
    cudaThreadExchangeStreamCaptureMode(&mode);
    MUST(symtuner_ar_use_nccl(dlopen(NULL, RTLD_NOW)));
}

void member_end(struct member *m)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

    cudaThreadExchangeStreamCaptureMode(&mode);
    for (int i = 0; i < STREAMS; i++) {
        cudaStreamSynchronize(m->stream[i]);
        cudaStreamDestroy(m->stream[i]);
    }
    cudaFree(m->memory);
}

void member_fail(const struct member *m, const char *file, int line, const char *call, int result)
{
    fprintf(stderr, "%s:%d: group %d rank %d: %s: %d: %s; %s\n", file, line, m->group->number,
            m->rank, call, result, symtuner_ar_error(NULL),
            m->h != NULL ? symtuner_ar_error(m->h) : "no handle");
    _exit(1);
}

bool member_meet(struct member *m)
{
    return pthread_barrier_wait(&m->group->all) == PTHREAD_BARRIER_SERIAL_THREAD;
}

void member_look(struct member *m)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    const size_t count = (size_t)1 << t_below(&m->own, 22);
    char text[8192];
    float factor = 2;
    ncclRedOp_t op;

    symtuner_ar_waits(m->h);
    symtuner_ar_registered(m->h, m->memory, 64);
    switch (t_below(&m->own, 4)) {
    case 0:
        symtuner_ar_describe(m->h, text, sizeof text);
        break;
    case 1:
        symtuner_ar_query(m->memory, m->memory, count, ncclFloat, ncclSum, m->h, &plan);
        break;
    case 2:
        if (symtuner_ar_op_create_premul_sum(&op, &factor, ncclFloat, ncclScalarHostImmediate,
                                             m->h) == ncclSuccess)
            symtuner_ar_op_destroy(op, m->h);
        break;
    default:
        symtuner_ar_separate(m->stream[0]);
    }
}

/* One collective call. Long messages need scratch that the handle does not have at first. */
static ncclResult_t call(struct member *m, struct t_random *random, size_t most,
                         cudaStream_t stream)
{
    static const size_t sizes[] = {8, 4 << 10, 256 << 10, 3 << 20, 16 << 20};
    const int coll = t_below(random, 3);
    size_t bytes = sizes[t_below(random, 5)];
    char *send = m->memory, *recv = t_below(random, 2) ? send : send + MEMORY / 2;

    bytes = bytes < most ? bytes : most;
    if (coll == 0)
        return symtuner_ar_all_reduce(send, recv, bytes / 4, ncclFloat, ncclSum, m->h, stream);
    recv = send + MEMORY / 2;
    bytes /= MOST_RANKS * 4;
    return coll == 1
               ? symtuner_ar_reduce_scatter(send, recv, bytes, ncclFloat, ncclSum, m->h, stream)
               : symtuner_ar_all_gather(send, recv, bytes, ncclFloat, m->h, stream);
}

ncclResult_t member_call(struct member *m, struct t_random *random, size_t most)
{
    return call(m, random, most, m->stream[t_below(&m->own, STREAMS)]);
}

ncclResult_t member_capture(struct member *m, struct t_random *random, size_t most)
{
    const int calls = 1 + t_below(random, 3), at = t_below(&m->own, STREAMS);
    cudaStream_t stream = m->stream[at];
    ncclResult_t result = ncclSuccess;
    cudaGraph_t graph;

    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int i = 0; i < calls && result == ncclSuccess; i++)
        result = call(m, random, most, stream);
    if (result == ncclSuccess && t_below(random, 2)) /* a call outside of the capture meanwhile */
        result = call(m, random, most, m->stream[(at + 1) % STREAMS]);
    cudaStreamEndCapture(stream, &graph);
    graph_hand_over(graph, m->group->gpu[m->rank], t_below(&m->own, 3000), m->group->local);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* collectives.c - the collectives of the fake NCCL. */
#include "test/dropin/fake/nccl.h"

int ncclBcast(void *buffer, size_t count, int dtype, int root, void *comm, void *stream)
{
    return ncclBroadcast(buffer, buffer, count, dtype, root, comm, stream);
}

/* The drop-in has no function of this name, so calls always come here directly. cost.c compares
 * their time with that of calls through the drop-in. */
EXPORT int fake_direct(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                       void *stream);
EXPORT int fake_direct(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                       void *stream)
{
    (void)send, (void)recv, (void)dtype, (void)op, (void)comm, (void)stream;
    return fake_run("direct", count);
}

int ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                  void *stream)
{
    (void)comm, (void)stream;
    sum_of_two(send, recv, count, dtype, op);
    return fake_run("AllReduce", count);
}

int ncclReduceScatter(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                      void *stream)
{
    (void)comm, (void)stream;
    sum_of_two(send, recv, count, dtype, op);
    return fake_run("ReduceScatter", count);
}

int ncclAllGather(const void *send, void *recv, size_t count, int dtype, void *comm, void *stream)
{
    (void)comm, (void)stream;
    gather_of_two(send, recv, count, dtype);
    return fake_run("AllGather", count);
}

int ncclBroadcast(const void *send, void *recv, size_t count, int dtype, int root, void *comm,
                  void *stream)
{
    (void)send, (void)recv, (void)dtype, (void)root, (void)comm, (void)stream;
    return fake_run("Broadcast", count);
}

int ncclReduce(const void *send, void *recv, size_t count, int dtype, int op, int root, void *comm,
               void *stream)
{
    (void)send, (void)recv, (void)dtype, (void)op, (void)root, (void)comm, (void)stream;
    return fake_run("Reduce", count);
}

int ncclSend(const void *send, size_t count, int dtype, int peer, void *comm, void *stream)
{
    (void)send, (void)dtype, (void)peer, (void)comm, (void)stream;
    return fake_run("Send", count);
}

int ncclRecv(void *recv, size_t count, int dtype, int peer, void *comm, void *stream)
{
    (void)recv, (void)dtype, (void)peer, (void)comm, (void)stream;
    return fake_run("Recv", count);
}

int ncclAlltoAll(const void *send, void *recv, size_t count, int dtype, void *comm, void *stream)
{
    (void)send, (void)recv, (void)dtype, (void)comm, (void)stream;
    return fake_run("AlltoAll", count);
}

/* A config that is an empty string is wrong. As in NCCL, the open group does not notice a call with
 * a wrong config. */
static bool is_wrong(const void *config)
{
    return config && *(const char *)config == '\0';
}

int ncclAllReduceConfig(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                        void *stream, const void *config)
{
    (void)comm, (void)stream;
    if (is_wrong(config))
        return 4;
    sum_of_two(send, recv, count, dtype, op);
    return fake_run("AllReduceConfig", count);
}

int ncclReduceScatterConfig(const void *send, void *recv, size_t count, int dtype, int op,
                            void *comm, void *stream, const void *config)
{
    (void)comm, (void)stream;
    if (is_wrong(config))
        return 4;
    sum_of_two(send, recv, count, dtype, op);
    return fake_run("ReduceScatterConfig", count);
}

int ncclAllGatherConfig(const void *send, void *recv, size_t count, int dtype, void *comm,
                        void *stream, const void *config)
{
    (void)comm, (void)stream;
    if (is_wrong(config))
        return 4;
    gather_of_two(send, recv, count, dtype);
    return fake_run("AllGatherConfig", count);
}

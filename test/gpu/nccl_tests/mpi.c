/* SPDX-License-Identifier: Apache-2.0 */
#include "test/gpu/nccl_tests/mpi.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RANKS = 16, SLOT = 256 << 10 };

/* The file that the processes share. In every collective each process copies its data into the slot
 * of its rank. Then all wait for each other, read the slots, and wait again, so that nobody
 * overwrites a slot that another process still reads. */
struct shared {
    _Atomic uint64_t arrived;
    char pad[4096 - 8];
    char slot[RANKS][SLOT];
};

#define EXPORT __attribute__((visibility("default")))

static struct shared *shared;
static int me, ranks;
static uint64_t met;

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "one_box mpi: %s\n", what);
    exit(1);
}

static int number(const char *name)
{
    const char *value = getenv(name);

    must(value != NULL, name);
    return atoi(value);
}

EXPORT int MPI_Init(int *argc, char ***argv)
{
    const char *path = getenv("ONE_BOX_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    (void)argc, (void)argv;
    me = number("ONE_BOX_RANK");
    ranks = number("ONE_BOX_RANKS");
    must(fd >= 0 && ranks >= 1 && ranks <= RANKS && me >= 0 && me < ranks, "ONE_BOX_FILE or ranks");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(shared != MAP_FAILED, "cannot map ONE_BOX_FILE");
    return MPI_SUCCESS;
}

EXPORT int MPI_Finalize(void)
{
    return MPI_Barrier(MPI_COMM_WORLD);
}

EXPORT int MPI_Comm_size(MPI_Comm comm, int *ranks_out)
{
    (void)comm;
    *ranks_out = ranks;
    return MPI_SUCCESS;
}

EXPORT int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    (void)comm;
    *rank = me;
    return MPI_SUCCESS;
}

EXPORT int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made)
{
    int least = color, most = color;

    (void)key;
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, comm);
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, comm);
    must(least == most, "MPI_Comm_split: one color only (NCCL_TESTS_SPLIT is set?)");
    *made = comm;
    return MPI_SUCCESS;
}

EXPORT int MPI_Comm_free(MPI_Comm *comm)
{
    *comm = 0;
    return MPI_SUCCESS;
}

EXPORT int MPI_Barrier(MPI_Comm comm)
{
    (void)comm;
    met += (uint64_t)ranks;
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < met)
        sched_yield();
    return MPI_SUCCESS;
}

static size_t bytes_of(int count, MPI_Datatype type)
{
    static const size_t size[] = {0, 1, 4, 8, 8, 8, 8};
    size_t bytes;

    must(type >= 0 && type <= MPI_DOUBLE, "an unknown type");
    bytes = (size_t)count * size[type];
    must(bytes <= SLOT, "a message of more than 256 KiB");
    return bytes;
}

static void exchange(const void *send, size_t bytes)
{
    memcpy(shared->slot[me], send, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

EXPORT int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    size_t bytes = bytes_of(count, type);

    exchange(data, bytes);
    memcpy(data, shared->slot[root], bytes);
    return MPI_Barrier(comm);
}

EXPORT int MPI_Allgather(const void *send, int count, MPI_Datatype type, void *recv, int recv_count,
                         MPI_Datatype recv_type, MPI_Comm comm)
{
    size_t bytes = bytes_of(recv_count, recv_type);

    must(send == MPI_IN_PLACE || bytes_of(count, type) == bytes, "counts that differ");
    exchange(send == MPI_IN_PLACE ? (char *)recv + bytes * (size_t)me : send, bytes);
    for (int r = 0; r < ranks; r++)
        memcpy((char *)recv + bytes * (size_t)r, shared->slot[r], bytes);
    return MPI_Barrier(comm);
}

EXPORT int MPI_Gather(const void *send, int count, MPI_Datatype type, void *recv, int recv_count,
                      MPI_Datatype recv_type, int root, MPI_Comm comm)
{
    size_t bytes = bytes_of(count, type);

    must(me != root || bytes_of(recv_count, recv_type) == bytes, "counts that differ");
    exchange(send == MPI_IN_PLACE ? (char *)recv + bytes * (size_t)me : send, bytes);
    for (int r = 0; r < ranks && me == root; r++)
        memcpy((char *)recv + bytes * (size_t)r, shared->slot[r], bytes);
    return MPI_Barrier(comm);
}

#define REDUCE(type)                                                                               \
    for (int i = 0; i < count; i++) {                                                              \
        type all = ((type *)shared->slot[0])[i];                                                   \
                                                                                                   \
        for (int r = 1; r < ranks; r++) {                                                          \
            type one = ((type *)shared->slot[r])[i];                                               \
                                                                                                   \
            all = op == MPI_SUM ? all + one : (op == MPI_MIN) == (one < all) ? one : all;          \
        }                                                                                          \
        ((type *)recv)[i] = all;                                                                   \
    }

EXPORT int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm)
{
    exchange(send == MPI_IN_PLACE ? recv : send, bytes_of(count, type));
    if (type == MPI_INT) {
        REDUCE(int)
    } else if (type == MPI_DOUBLE) {
        REDUCE(double)
    } else {
        REDUCE(int64_t)
    }
    return MPI_Barrier(comm);
}

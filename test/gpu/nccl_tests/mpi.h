/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi.h - the part of MPI that NVIDIA's nccl-tests call, for processes of one box without an MPI.
 *
 * The variables ONE_BOX_RANK and ONE_BOX_RANKS give a process its rank and the number of ranks.
 * ONE_BOX_FILE names a file of 8 MiB zeros that the processes share. There is one communicator. An
 * error ends the process.
 */
#ifndef TEST_NCCL_TESTS_MPI_H_
#define TEST_NCCL_TESTS_MPI_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef int MPI_Comm, MPI_Datatype, MPI_Op;

enum { MPI_SUCCESS, MPI_COMM_WORLD = 1 };
enum { MPI_DATATYPE_NULL, MPI_BYTE, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT64_T, MPI_DOUBLE };
enum { MPI_SUM = 1, MPI_MIN, MPI_MAX };
#define MPI_IN_PLACE ((void *)1)

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Comm_size(MPI_Comm comm, int *ranks);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
/* all ranks must have one color */
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Barrier(MPI_Comm comm);
int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Gather(const void *send, int count, MPI_Datatype type, void *recv, int recv_count,
               MPI_Datatype recv_type, int root, MPI_Comm comm);
int MPI_Allgather(const void *send, int count, MPI_Datatype type, void *recv, int recv_count,
                  MPI_Datatype recv_type, MPI_Comm comm);
int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif

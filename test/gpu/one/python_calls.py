# SPDX-License-Identifier: Apache-2.0
"""python_calls.py - all-reduces, reduce-scatters and all-gathers by CuPy or nccl4py, all checked.

usage: python3 python_calls.py cupy|nccl4py [RANKS [CALLS]]     (2 ranks, 200 calls)

Each rank is a process. Ranks may share a GPU. The values are small whole numbers, so each sum is
exact in every type.
"""
import ast
import os
import subprocess
import sys

PACKAGE = sys.argv[1]
RANKS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
CALLS = int(sys.argv[3]) if len(sys.argv) > 3 else 200
TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


class CuPy:
    """Calls NCCL through cupy.cuda.nccl, which is linked with NCCL."""

    def __init__(self, rank, unique):
        from cupy.cuda import nccl
        self.nccl = nccl
        self.comm = nccl.NcclCommunicator(RANKS, unique, rank)
        self.release = nccl.get_version()

    @staticmethod
    def unique():
        from cupy.cuda import nccl
        return nccl.get_unique_id()

    def call(self, kind, send, recv, stream):
        dtype = getattr(self.nccl, "NCCL_" + str(send.dtype).upper())
        head, ops = (send.data.ptr, recv.data.ptr), (self.nccl.NCCL_SUM,)
        if kind == "allGather":
            self.comm.allGather(*head, send.size, dtype, stream.ptr)
        else:
            getattr(self.comm, kind)(*head, min(send.size, recv.size), dtype, *ops, stream.ptr)


class Nccl4py:
    """Calls NCCL through nccl.core, which opens NCCL by name."""

    def __init__(self, rank, unique):
        import nccl.core
        self.nccl = nccl.core
        self.comm = nccl.core.Communicator.init(RANKS, rank, nccl.core.UniqueId.from_bytes(unique))
        self.release = nccl.core.get_version().libnccl.version

    @staticmethod
    def unique():
        import nccl.core
        return nccl.core.get_unique_id().as_bytes

    def call(self, kind, send, recv, stream):
        if kind == "allGather":
            self.comm.allgather(send, recv, stream=stream.ptr)
        elif kind == "allReduce":
            self.comm.allreduce(send, recv, self.nccl.SUM, stream=stream.ptr)
        else:
            self.comm.reduce_scatter(send, recv, self.nccl.SUM, stream=stream.ptr)


USED = {"cupy": CuPy, "nccl4py": Nccl4py}[PACKAGE]


def rank_main(rank, unique):
    import cupy
    import numpy

    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    library = USED(rank, unique)
    random = numpy.random.default_rng(1)  # the sequence is the same on every rank
    stream = cupy.cuda.Stream(non_blocking=True)
    for i in range(CALLS):
        kind = ("allReduce", "reduceScatter", "allGather")[random.integers(3)]
        dtype = TYPES[random.integers(len(TYPES))]
        count = int(2 ** random.uniform(0, 20)) // RANKS * RANKS + RANKS
        data = random.integers(0, 8, (RANKS, count)).astype(dtype)
        part = slice(rank * count // RANKS, (rank + 1) * count // RANKS)
        want = {"allReduce": data.sum(0, dtype=dtype), "allGather": data.ravel(),
                "reduceScatter": data.sum(0, dtype=dtype)[part]}[kind]
        send, recv = cupy.asarray(data[rank]), cupy.full(want.size, 99, dtype)
        cupy.cuda.Device().synchronize()
        library.call(kind, send, recv, stream)
        stream.synchronize()
        got = cupy.asnumpy(recv)
        if not numpy.array_equal(got, want):
            bad = int(numpy.nonzero(got != want)[0][0])
            sys.exit("python_calls: rank %d, call %d: %s of %d x %s: element %d is %s, not %s"
                     % (rank, i, kind, count, dtype, bad, got[bad], want[bad]))
    if rank == 0:
        print("python: %d calls by %s right on %d ranks, NCCL %s"
              % (CALLS, PACKAGE, RANKS, library.release))


def main():
    """Start the ranks, and stop all of them when one fails."""
    given = os.environ.get("PYTHON_CALLS_UNIQUE")
    if given:
        return rank_main(int(os.environ["RANK"]), ast.literal_eval(given))
    unique = repr(USED.unique())  # text of bytes, or of a tuple of numbers
    ranks = [subprocess.Popen([sys.executable, *sys.argv],
                              env=dict(os.environ, PYTHON_CALLS_UNIQUE=unique, RANK=str(r)))
             for r in range(RANKS)]
    status = 0
    for r in ranks:
        status = r.wait() or status
        if status:
            for other in ranks:
                other.kill()
    return status


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many CTAs should NCCL's symmetric kernels get? Measures them alone and beside GEMMs.

    python3 -m torch.distributed.run --nproc_per_node 2 bench/nccl_beside.py --out rows.csv

There is one communicator for each CTA count (ncclConfig minCTAs = maxCTAs = N; 0 is NCCL's own count),
so that all counts take turns in the same processes. It measures two things, on the slowest rank:

alone    us per call: a CUDA graph of 20 calls, replayed
beside   ms until 24 GEMMs of 8192^3 bf16 on one stream and a number of collectives on a second
         stream of higher priority are both done

bytes is NCCL's nBytes: for all-gather and reduce-scatter the bytes of all ranks together. NCCL_LIBRARY
names another libnccl.so.2 than torch's. The first count of --counts is measured twice, the second
time as "A/A": two counts only differ if they differ by more than these two measurements of the same
count do.
"""
import argparse
import collections
import ctypes
import glob
import os
import statistics
import time

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
COLLS = ["allreduce", "allgather", "reducescatter"]
BF16, SUM, SYMMETRIC, UNDEFINED = 9, 0, 1, -(1 << 31)
CALLS = {16 << 20: 200, 64 << 20: 60, 256 << 20: 16}    # calls beside the GEMMs: a third of their time
GEMMS, GRAPH, MOST = 24, 20, 256 << 20


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Config(ctypes.Structure):    # ncclConfig_t of NCCL 2.28; later releases accept it
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint)] + [
        (name, ctypes.c_int) for name in ("blocking", "cluster", "min_ctas", "max_ctas")] + [
        ("net", ctypes.c_void_p), ("split", ctypes.c_int), ("traffic", ctypes.c_int),
        ("name", ctypes.c_void_p)] + [(name, ctypes.c_int) for name in (
            "collnet", "policy", "shrink", "nvls_ctas", "per_net_peer", "nvlink_centric")]


def load():
    import nvidia.nccl
    found = os.environ.get("NCCL_LIBRARY") or glob.glob(
        list(nvidia.nccl.__path__)[0] + "/lib/libnccl.so.2")[0]
    return ctypes.CDLL(found)


def check(result, what):
    if result:
        raise SystemExit(f"{what}: NCCL says {result}")


def communicator(nccl, ctas):
    """Make a communicator whose symmetric kernels run ``ctas`` CTAs; 0: NCCL's own count."""
    ident = Id()
    if RANK == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(ident)), "ncclGetUniqueId")
    text = torch.tensor(list(ctypes.string_at(ctypes.byref(ident), 128)), dtype=torch.uint8)
    dist.broadcast(text, 0)
    ctypes.memmove(ctypes.byref(ident), bytes(text.tolist()), 128)
    undefined = {name: UNDEFINED for name, kind in Config._fields_ if kind is ctypes.c_int}
    config = Config(size=ctypes.sizeof(Config), magic=0xcafebeef, version=22809, **undefined)
    if ctas:
        config.min_ctas = config.max_ctas = ctas
    comm = ctypes.c_void_p()
    check(nccl.ncclCommInitRankConfig(ctypes.byref(comm), RANKS, ident, RANK, ctypes.byref(config)),
          "ncclCommInitRankConfig")
    return comm


class Buffers:
    """Send and receive buffers, registered as symmetric windows of every communicator."""

    def __init__(self, nccl, comms):
        self.address = []
        for _ in range(2):
            address = ctypes.c_void_p()
            check(nccl.ncclMemAlloc(ctypes.byref(address), ctypes.c_size_t(MOST)), "ncclMemAlloc")
            for comm in comms:
                window = ctypes.c_void_p()
                check(nccl.ncclCommWindowRegister(comm, address, ctypes.c_size_t(MOST),
                                                  ctypes.byref(window), SYMMETRIC), "window")
                if not window.value:
                    raise SystemExit("no symmetric window: the general kernels would run")
            self.address.append(address)


def collective(nccl, coll, comm, buffers, size):
    """Return a function that starts one call of ``size`` bytes (NCCL's nBytes) on a stream."""
    send, receive = buffers.address
    whole, part = size // 2, size // 2 // RANKS
    if coll == "allreduce":
        return lambda s: nccl.ncclAllReduce(send, receive, whole, BF16, SUM, comm, s)
    if coll == "allgather":
        return lambda s: nccl.ncclAllGather(send, receive, part, BF16, comm, s)
    return lambda s: nccl.ncclReduceScatter(send, receive, part, BF16, SUM, comm, s)


def slowest(value):
    worst = torch.tensor(value)
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.item()


def graph_of(call):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        check(call(ctypes.c_void_p(side.cuda_stream)), "a collective")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(GRAPH):
            check(call(ctypes.c_void_p(side.cuda_stream)), "a collective")
    return graph


def alone_us(graph, replays):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    dist.barrier()
    torch.cuda.synchronize()
    graph.replay()
    begin.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return slowest(begin.elapsed_time(end) * 1e3 / replays / GRAPH)


class Gemms:
    def __init__(self):
        self.stream, self.high = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
        self.a, self.b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
                          for _ in range(2))
        self.c = torch.empty_like(self.a)

    def makespan_ms(self, call, calls, gemms):
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            check(call(ctypes.c_void_p(self.high.cuda_stream)), "a collective")
        with torch.cuda.stream(self.stream):
            for _ in range(gemms):
                torch.mm(self.a, self.b, out=self.c)
        torch.cuda.synchronize()
        return slowest((time.perf_counter() - start) * 1e3)


def summary(rows, names):
    """Print medians of the times, and medians of each count's time divided by that of the first
    count in the same round."""
    by_round = collections.defaultdict(dict)
    for what, coll, size, name, turn, value in rows:
        by_round[what, coll, size, turn][name] = value
    cells = collections.defaultdict(list)
    for (what, coll, size, _), values in sorted(by_round.items()):
        for name in names:
            cells[what, coll, size, name].append((values[name], values[name] / values[names[0]]))
    print(f"{'':<7} {'coll':<13} {'bytes':>10} " + " ".join(f"{n:>14}" for n in names))
    for what, coll, size in dict.fromkeys(key[:3] for key in cells):
        line = [f"{statistics.median(v for v, _ in cells[what, coll, size, n]):8.2f} "
                f"{statistics.median(r for _, r in cells[what, coll, size, n]):5.3f}"
                for n in names]
        print(f"{what:<7} {coll:<13} {size:>10} " + " ".join(line))
    print(f"cells: median (us alone, ms beside), median ratio to {names[0]} of the same round")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--counts", default="0,8,12,16,20,24,32", help="CTAs; 0 is NCCL's own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least", type=int, default=1 << 10, help="bytes of the smallest call alone")
    parser.add_argument("--colls", default=",".join(COLLS))
    parser.add_argument("--what", default="alone,beside")
    parser.add_argument("--out", default="nccl_beside.csv")
    args = parser.parse_args()
    counts = [int(c) for c in args.counts.split(",")]
    names = [str(c) if c else "own" for c in counts] + ["A/A"]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo")
    nccl = load()
    nccl.ncclCommInitRankConfig.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int,
                                            ctypes.c_void_p]
    for name, arguments in (("ncclAllReduce", "ppziipp"), ("ncclAllGather", "ppzipp"),
                            ("ncclReduceScatter", "ppziipp")):
        getattr(nccl, name).argtypes = [{"p": ctypes.c_void_p, "z": ctypes.c_size_t,
                                         "i": ctypes.c_int}[c] for c in arguments]
    comms = [communicator(nccl, c) for c in counts]
    buffers = Buffers(nccl, comms)
    comms.append(comms[0])
    rows = []

    def turns(what, coll, size, measure):
        for turn in range(args.rounds):
            order = list(range(len(comms)))
            for i in order[turn % len(order):] + order[:turn % len(order)]:
                rows.append((what, coll, size, names[i], turn, measure(i)))

    for coll in args.colls.split(","):
        size = args.least
        while "alone" in args.what and size <= MOST:
            graphs = [graph_of(collective(nccl, coll, c, buffers, size)) for c in comms]
            first = alone_us(graphs[0], 1)
            replays = max(1, min(20, int(4000 / first / GRAPH)))
            turns("alone", coll, size, lambda i: alone_us(graphs[i], replays))
            size *= 2
    gemms = Gemms()
    idle = collective(nccl, "allreduce", comms[0], buffers, 1 << 20)
    for _ in range(2):
        gemm_ms = gemms.makespan_ms(idle, 0, GEMMS)
    for coll in args.colls.split(","):
        for size, calls in CALLS.items():
            if "beside" not in args.what:
                continue
            every = [collective(nccl, coll, c, buffers, size) for c in comms]
            gemms.makespan_ms(every[0], calls, GEMMS)
            turns("beside", coll, size,
                  lambda i: gemms.makespan_ms(every[i], calls, GEMMS))
    if RANK == 0:
        version = ctypes.c_int()
        nccl.ncclGetVersion(ctypes.byref(version))
        with open(args.out, "w") as f:
            f.write("nccl,ranks,what,coll,bytes,ctas,round,value\n")
            for what, coll, size, name, turn, value in rows:
                f.write(f"{version.value},{RANKS},{what},{coll},{size},{name},{turn},{value:.4g}\n")
        print(f"NCCL {version.value}, {RANKS} ranks, {args.rounds} rounds; GEMMs alone {gemm_ms:.2f} ms")
        summary(rows, names)
    dist.barrier()
    os._exit(0)    # skip destroying eight communicators, which takes long


if __name__ == "__main__":
    main()

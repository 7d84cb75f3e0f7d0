#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast are NCCL's and our kernels alone and beside GEMMs, and with how many CTAs?

    python3 -m torch.distributed.run --nproc_per_node 2 bench/beside.py --out rows.csv
    ... bench/beside.py --library build/libsymtuner_ar.so \\
        --with own,16,default,ours,ours:tma:8,staged:chunked

The contenders of --with take turns in the same processes:

N         NCCL with registered buffers and N CTAs (ncclConfig minCTAs = maxCTAs = N)
own       NCCL with registered buffers and its own number of CTAs
general   NCCL with buffers that are not registered
default   libsymtuner_ar.so with registered buffers; nothing tells it what runs beside it
ours      as default, but SYMTUNER_AR_BESIDE=alone tells it that nothing runs beside it
staged    as ours, but with buffers that are not registered
unregistered  as default, but with buffers that are not registered

The last four may end with :KERNEL, :KERNEL:CTAS or :KERNEL:CTAS:THREADS, which forces a kernel, a
number of CTAs, and a number of threads per CTA.

The program measures four durations, each on the slowest rank:

alone    us per call, in replays of a CUDA graph of 20 calls
beside   ms for 24 GEMMs of 8192^3 bf16 on one stream and, at the same time, a number of collectives
         on a second stream of higher priority
comm     ms until the collectives of "beside" are done
behind   ms that collectives of 25 MiB add to 192 GEMMs of 4096^3 bf16. A collective follows every
         second GEMM, or in other runs every fourth or eighth, as the buckets of a backward pass
         follow its layers. The ms without collectives are measured before each run

For each size that it measures for "beside", the program also prints how each contender runs: a
number of CTAs, or KERNEL/CTAS/THREADS. Each CTA of our kernels occupies a whole multiprocessor.

The column bytes is NCCL's nBytes: for all-gather and reduce-scatter the bytes of all ranks
together. The variable NCCL_LIBRARY names a libnccl.so.2 to use instead of torch's. The first
contender is measured twice, the second time as "A/A". A difference between two contenders counts
only if it is larger than the difference between these two measurements. Before it times anything,
the program compares every contender's results for random numbers with those of the first.

Exit status 2: an argument is wrong. 77: the program cannot run here; it prints what is missing.
"""
import argparse
import collections
import ctypes
import glob
import os
import re
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
except ImportError:    # --help works without torch
    torch = dist = None

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 0))
COLLS = ["allreduce", "allgather", "reducescatter"]
AR_COLLS = ["allreduce", "reducescatter", "allgather"]    # in the order of enum symtuner_ar_coll
# {contender: value of SYMTUNER_AR_BESIDE, are the buffers registered?}
OURS = {"default": ("unknown", True), "ours": ("alone", True), "staged": ("alone", False),
        "unregistered": ("unknown", False)}
BF16, SUM, SYMMETRIC, UNDEFINED = 9, 0, 1, -(1 << 31)
# {bytes of a call: how many such calls take a third of the time of the GEMMs}
CALLS = {2 << 20: 1280, 4 << 20: 740, 8 << 20: 400, 16 << 20: 200, 64 << 20: 60, 256 << 20: 16}
GEMMS, GRAPH, MOST = 24, 20, 256 << 20
# for "behind": number of GEMMs; bytes of a call; GEMMs from one call to the next, in three runs
BEHIND, BUCKET, EVERY = 192, 25 << 20, (2, 4, 8)
WORD = re.compile(r"(?P<way>[1-9]\d*|own|general|default|ours|staged|unregistered)"
                  r"(:(?P<kernel>[a-z0-9_]+)(:(?P<ctas>[1-9]\d*)(:(?P<threads>[1-9]\d*))?)?)?")


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Config(ctypes.Structure):    # is ncclConfig_t of NCCL 2.28, which later releases accept, too
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


def prototypes(nccl, library):
    """Declare the argument types of the functions called here. ``library`` may be None."""
    nccl.ncclCommInitRankConfig.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int,
                                            ctypes.c_void_p]
    kinds = {"p": ctypes.c_void_p, "z": ctypes.c_size_t, "i": ctypes.c_int}
    for of, name, arguments in (
            (nccl, "ncclAllReduce", "ppziipp"), (nccl, "ncclAllGather", "ppzipp"),
            (nccl, "ncclReduceScatter", "ppziipp"), (library, "symtuner_ar_all_reduce", "ppziipp"),
            (library, "symtuner_ar_all_gather", "ppzipp"),
            (library, "symtuner_ar_reduce_scatter", "ppziipp"),
            (library, "symtuner_ar_force", "ppii"),
            (library, "symtuner_ar_query_coll", "ippziipp")):
        if hasattr(of, name):
            getattr(of, name).argtypes = [kinds[c] for c in arguments]


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


def allocate(nccl):
    """Allocate a send buffer and a receive buffer that can be registered. Return their
    addresses."""
    both = []
    for _ in range(2):
        address = ctypes.c_void_p()
        check(nccl.ncclMemAlloc(ctypes.byref(address), ctypes.c_size_t(MOST)), "ncclMemAlloc")
        both.append(address)
    return both


class Nccl:
    """NCCL with ``ctas`` CTAs; 0: its own count. If ``symmetric``, the buffers are registered."""

    def __init__(self, nccl, buffers, ctas, symmetric=True):
        self.all_reduce, self.all_gather = nccl.ncclAllReduce, nccl.ncclAllGather
        self.reduce_scatter = nccl.ncclReduceScatter
        self.context, self.ctas = communicator(nccl, ctas), ctas
        for address in buffers if symmetric else []:
            window = ctypes.c_void_p()
            check(nccl.ncclCommWindowRegister(self.context, address, ctypes.c_size_t(MOST),
                                              ctypes.byref(window), SYMMETRIC), "window")
            if not window.value:
                raise SystemExit("no symmetric window: the general kernels would run")

    def check(self, result):
        check(result, "a collective")

    def how(self, coll, buffers, size):
        return f"{self.ctas} CTAs" if self.ctas else "NCCL's own CTAs"


class Plan(ctypes.Structure):    # struct symtuner_ar_plan
    _fields_ = [("size", ctypes.c_size_t), ("kernel", ctypes.c_char_p)] + [
        (name, ctypes.c_int) for name in ("ctas", "threads", "zero_copy", "pieces")] + [
        ("why", ctypes.c_char * 192), ("boxes", ctypes.c_int)]


class Ours:
    """libsymtuner_ar.so on a communicator of its own; ``beside``: a value for
    SYMTUNER_AR_BESIDE."""

    def __init__(self, nccl, library, buffers, beside, kernel, ctas, threads, symmetric):
        self.library, self.context = library, ctypes.c_void_p()
        comm = communicator(nccl, 0)
        os.environ["SYMTUNER_AR_BESIDE"] = beside    # the library reads it when a handle is made
        self.check(library.symtuner_ar_create(
            ctypes.byref(self.context), ctypes.byref(comm), 1, None))
        for address in buffers if symmetric else []:
            self.check(library.symtuner_ar_register(
                ctypes.byref(self.context), ctypes.byref(address), None, 1, ctypes.c_size_t(MOST)))
        if kernel:
            self.check(library.symtuner_ar_force(self.context, kernel.encode(), int(ctas or 0),
                                                 int(threads or 0)))
        everything = ctypes.c_size_t(-1)    # allocate all scratch before graphs capture calls
        self.check(library.symtuner_ar_reserve(ctypes.byref(self.context), 1, everything))
        self.all_reduce = library.symtuner_ar_all_reduce
        self.all_gather = getattr(library, "symtuner_ar_all_gather", None)
        self.reduce_scatter = getattr(library, "symtuner_ar_reduce_scatter", None)

    def check(self, result):
        if result:
            self.library.symtuner_ar_error.restype = ctypes.c_char_p
            raise SystemExit(self.library.symtuner_ar_error(self.context).decode())

    def how(self, coll, buffers, size):
        """Say how a call of ``size`` bytes (NCCL's nBytes) runs."""
        plan = Plan(size=ctypes.sizeof(Plan))
        count = size // 2 // (1 if coll == "allreduce" else RANKS)
        self.check(self.library.symtuner_ar_query_coll(
            AR_COLLS.index(coll), buffers[0], buffers[1], count, BF16, SUM, self.context,
            ctypes.byref(plan)))
        return f"{plan.kernel.decode()}/{plan.ctas}/{plan.threads}"


def contender(nccl, library, buffers, word):
    """Return the contender that the ``word`` of --with names."""
    part = WORD.fullmatch(word)
    way = part["way"]
    if way in OURS:
        told, registered = OURS[way]
        return Ours(nccl, library, buffers, told, part["kernel"], part["ctas"], part["threads"],
                    registered)
    if way == "general":
        return Nccl(nccl, buffers, 0, symmetric=False)
    return Nccl(nccl, buffers, 0 if way == "own" else int(way))


def collective(who, coll, buffers, size, kind=BF16, width=2):
    """Return a function that starts one call of ``size`` bytes (NCCL's nBytes) on a stream.
    ``kind`` is NCCL's number of the type, ``width`` the bytes of an element."""
    send, receive = buffers
    whole, part = size // width, size // width // RANKS
    if coll == "allreduce":
        return lambda s: who.check(who.all_reduce(send, receive, whole, kind, SUM, who.context, s))
    if coll == "allgather":
        return lambda s: who.check(who.all_gather(send, receive, part, kind, who.context, s))
    return lambda s: who.check(who.reduce_scatter(send, receive, part, kind, SUM, who.context, s))


class Memory:
    """A device buffer that torch can use as a tensor."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"data": (address.value, False), "shape": (size // 2,),
                                         "typestr": "<i2", "version": 3}


def compare(who, names, coll, buffers, size):
    """End the program if the results of two contenders for ``size`` bytes of random numbers
    differ."""
    send, receive = (torch.as_tensor(Memory(b, size), device="cuda").view(torch.bfloat16)
                     for b in buffers)
    torch.manual_seed(RANK + size)
    send.copy_(torch.randn(size // 2, device="cuda"))
    first = None
    for one, name in zip(who, names):
        receive.fill_(float("nan"))
        torch.cuda.synchronize()
        dist.barrier()
        collective(one, coll, buffers, size)(
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        torch.cuda.synchronize()
        got = receive[:size // 2 // (RANKS if coll == "reducescatter" else 1)].float()
        first = got if first is None else first
        # NCCL's general kernel rounds after each addition, so with more than two ranks the error of
        # a small sum can be large compared with the sum. Then compare it with 1 instead
        least = 0.1 if RANKS == 2 else 1
        worst = ((got - first).abs() / first.abs().clamp(min=least)).max().item()
        if not worst < 0.05:
            raise SystemExit(f"{coll} by {name} differs from {names[0]} at {size} bytes: {worst}")


def slowest(value):
    worst = torch.tensor(value)
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.item()


def graph_of(call):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call(ctypes.c_void_p(side.cuda_stream))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(GRAPH):
            call(ctypes.c_void_p(side.cuda_stream))
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

    def run_ms(self, call, calls, gemms):
        """Return two times in ms: until calls and GEMMs are done, and until the calls are done."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        begin.record(self.high)
        for _ in range(calls):
            call(ctypes.c_void_p(self.high.cuda_stream))
        end.record(self.high)
        with torch.cuda.stream(self.stream):
            for _ in range(gemms):
                torch.mm(self.a, self.b, out=self.c)
        torch.cuda.synchronize()
        span = (time.perf_counter() - start) * 1e3
        return slowest(span), slowest(begin.elapsed_time(end))


class Layers:
    """GEMMs and collectives as in a backward pass: each collective waits for the GEMMs before
    it."""

    def __init__(self, gemms):
        self.gemms = gemms
        self.a, self.b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
                          for _ in range(2))
        self.c = torch.empty_like(self.a)

    def run_ms(self, call, every):
        """Return the ms until all is done, with one call after every ``every`` GEMMs, or without
        calls if ``call`` is None."""
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(1, BEHIND + 1):
            with torch.cuda.stream(self.gemms.stream):
                torch.mm(self.a, self.b, out=self.c)
            if call and i % every == 0:
                done = torch.cuda.Event()
                done.record(self.gemms.stream)
                self.gemms.high.wait_event(done)
                call(ctypes.c_void_p(self.gemms.high.cuda_stream))
        torch.cuda.synchronize()
        return slowest((time.perf_counter() - start) * 1e3)

    def added_ms(self, call, every):
        without = self.run_ms(None, every)
        return self.run_ms(call, every) - without


def summary(rows, names):
    """Print each contender's median time, and the median of its ratios. A ratio is a contender's
    time divided by the first contender's time in the same round."""
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
    print(f"cells: the median time (us in rows alone, else ms), and the median ratio to {names[0]} "
          "in the same round; in rows behind, bytes are those of all calls together")


def number(least):
    """Return a function with which argparse reads whole numbers of at least ``least``."""
    def read(text):
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: at least {least}")
        return value
    read.__name__ = "whole number"    # argparse prints this name in errors
    return read


def words(known):
    """Return a function with which argparse reads a list of words. ``known``: the allowed words, or
    a pattern that each word must match."""
    def read(text):
        for word in text.split(","):
            if not (word in known if isinstance(known, list) else known.fullmatch(word)):
                raise argparse.ArgumentTypeError(
                    f"\"{word}\" is none of " + (", ".join(known) if isinstance(known, list) else
                                               "N, own, general, " + ", ".join(OURS) +
                                               ", each of the last four perhaps with "
                                               ":KERNEL[:CTAS[:THREADS]]"))
        return text.split(",")
    return read


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="who", type=words(WORD), default="own,8,12,16,20,24,32")
    parser.add_argument("--library", help="libsymtuner_ar.so, for ours, staged and default")
    parser.add_argument("--rounds", type=number(1), default=5)
    parser.add_argument("--least", type=number(64), default=1 << 10,
                        help="bytes of the smallest call that is timed alone")
    parser.add_argument("--step", type=number(2), default=2,
                        help="factor from one size that is timed alone to the next")
    parser.add_argument("--colls", type=words(COLLS), default=",".join(COLLS))
    parser.add_argument("--what", type=words(["alone", "beside", "behind"]),
                        default="alone,beside,behind")
    parser.add_argument("--out", default="beside.csv")
    args = parser.parse_args()
    for word in args.who:
        part = WORD.fullmatch(word)
        ours = part["way"] in OURS
        if part["kernel"] and not ours:
            parser.error(f"--with {word}: NCCL takes no kernel")
        if ours and not args.library:
            parser.error(f"--with {word}: name the library with --library")
    if args.library and not os.path.exists(args.library):
        parser.error(f"--library {args.library}: there is no such file")
    missing = ("torch" if torch is None else
               "a launcher: python3 -m torch.distributed.run --nproc_per_node N" if RANKS < 2 else
               f"{RANKS} GPUs" if torch.cuda.device_count() < RANKS else None)
    if missing:
        print(f"beside.py: skipped: it needs {missing}", file=sys.stderr)
        raise SystemExit(77)
    return args


def main():
    args = arguments()
    names = args.who + ["A/A"]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo")
    nccl = load()
    library = ctypes.CDLL(os.path.abspath(args.library)) if args.library else None
    prototypes(nccl, library)
    buffers = allocate(nccl)
    who = [contender(nccl, library, buffers, word) for word in args.who]
    for coll in args.colls:
        for size in (1 << 20, 16 << 20):
            compare(who, names, coll, buffers, size)
    who.append(who[0])
    rows = []

    def turns(coll, size, whats, measure):
        for turn in range(args.rounds):
            order = list(range(len(who)))
            for i in order[turn % len(order):] + order[:turn % len(order)]:
                rows.extend((what, coll, size, names[i], turn, value)
                            for what, value in zip(whats, measure(i)))

    for coll in args.colls:
        size = args.least
        while "alone" in args.what and size <= MOST:
            graphs = [graph_of(collective(w, coll, buffers, size)) for w in who]
            first = alone_us(graphs[0], 1)
            replays = max(1, min(20, int(4000 / first / GRAPH)))
            turns(coll, size, ["alone"], lambda i: [alone_us(graphs[i], replays)])
            size *= args.step
    gemms = Gemms()
    for _ in range(2):
        gemm_ms = gemms.run_ms(None, 0, GEMMS)[0]
    for coll in args.colls:
        for size, calls in CALLS.items():
            if "beside" not in args.what:
                continue
            every = [collective(w, coll, buffers, size) for w in who]
            gemms.run_ms(every[0], calls, GEMMS)
            turns(coll, size, ["beside", "comm"], lambda i: gemms.run_ms(every[i], calls, GEMMS))
            if RANK == 0:
                print(f"{coll} of {size} bytes:", ", ".join(
                    f"{name}: {w.how(coll, buffers, size)}" for name, w in zip(args.who, who)))
    layers = Layers(gemms)
    for coll in args.colls if "behind" in args.what else []:
        every_one = [collective(w, coll, buffers, BUCKET) for w in who]
        for every in EVERY:
            for one in every_one:    # these runs are not timed, because the first runs are slower
                layers.run_ms(one, every)
            turns(coll, BUCKET * (BEHIND // every), ["behind"],
                  lambda i: [layers.added_ms(every_one[i], every)])
    if RANK == 0:
        version = ctypes.c_int()
        nccl.ncclGetVersion(ctypes.byref(version))
        with open(args.out, "w") as f:
            f.write("nccl,ranks,what,coll,bytes,contender,round,value\n")
            for what, coll, size, name, turn, value in rows:
                f.write(f"{version.value},{RANKS},{what},{coll},{size},{name},{turn},{value:.4g}\n")
        print(f"NCCL {version.value}, {RANKS} ranks, {args.rounds} rounds; GEMMs alone "
              f"{gemm_ms:.2f} ms")
        summary(rows, names)
    dist.barrier()
    os._exit(0)    # do not destroy the communicators: that takes long


if __name__ == "__main__":
    main()

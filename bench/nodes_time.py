#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time all-reduces over several boxes by libsymtuner_ar.so and by ncclAllReduce, in turns, and
compare the times with those that the model predicts.

    python3 -m torch.distributed.run --nproc_per_node 4 \\
        bench/nodes_time.py --per-box 2 --out nodes.json
    python3 bench/nodes_time.py --dry-run --out dry.json             without torch, without GPUs

The "boxes" are ranks of one machine: NCCL_HOSTID differs between them, so NCCL and the library take
them for several machines, and NCCL moves the data between them through the host. Times mean
something only if each rank has a GPU of its own: with 2 x 2 ranks, on four GPUs. With fewer GPUs
the boxes share them, which is good for trying this program. (On one GPU preload hosts.so, as
test/gpu/one/one.sh does; it tells NCCL the boxes.)

In each of --rounds rounds NCCL, symtuner, and NCCL again take turns in the same processes, out of
place on f32, as calls in a row, or with --graphs as graphs of calls. A time is that of the slowest
rank. Before a size is timed, each contender reduces fresh random numbers into an output that was
filled with NaN. Both results must be exactly right.

For each size the program prints how symtuner ran it (0 pieces: by NCCL), both times, the median
ratio with its spread and the A/A spread (bench/turns.py), the times that the start-up figures of
this run predict, and by how much the measured times differ from these. A run is good if three
things are true. At no size is symtuner slower than NCCL by more than --slower (0.02). Where
symtuner ran box by box, it is faster than NCCL. No prediction is wrong by more than --predicts
(0.15). A run in which no size ran box by box does not count. SYMTUNER_RULE="kernels
network-pieces=2" in the environment makes every size run box by box.

The output of symtuner_ar_describe goes to OUT.figures, for bench/nodes.py --measured. This program
takes 25 s on 4 H200s. Exit 1: the run is not good, or a result is wrong. 77: something is missing.
"""
import argparse
import ctypes
import os
import random
import statistics
import sys
import time

import beside
import nodes
import turns
from beside import RANK, RANKS, torch, dist

F32, WIDTH = 7, 4
SAMPLE_US = 20000    # about how long a sample is


class Bed:
    """The ranks, their boxes, and both contenders."""

    def __init__(self, given):
        os.environ.setdefault("SYMTUNER_AR_NODES", "1")
        if "ONE_GPU_BOX" not in os.environ:
            os.environ["NCCL_HOSTID"] = f"box{RANK // given.per_box}"
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        dist.init_process_group("gloo")
        nccl, library = beside.load(), ctypes.CDLL(os.path.abspath(given.library))
        beside.prototypes(nccl, library)
        self.graphs, self.buffers = given.graphs, beside.allocate(nccl)
        self.nccl = beside.Nccl(nccl, self.buffers, 0, symmetric=False)
        self.ours = beside.Ours(nccl, library, self.buffers, "alone", None, None, None,
                                symmetric=False)
        text, version = ctypes.create_string_buffer(1 << 16), ctypes.c_int()
        library.symtuner_ar_describe(self.ours.context, text, ctypes.c_size_t(len(text)))
        nccl.ncclGetVersion(ctypes.byref(version))
        self.described = text.value.decode()
        self.about = {"torch": torch.__version__, "NCCL": version.value}
        self.seed = torch.tensor(time.time_ns() % (1 << 40))
        dist.broadcast(self.seed, 0)

    def pieces(self, size):
        """Return in how many pieces symtuner runs a message box by box, or 0 if NCCL runs it."""
        plan = beside.Plan(size=ctypes.sizeof(beside.Plan))
        self.ours.check(self.ours.library.symtuner_ar_query_coll(
            0, *self.buffers, size // WIDTH, F32, beside.SUM, self.ours.context,
            ctypes.byref(plan)))
        return plan.pieces if plan.boxes else 0

    def check(self, who, run, size):
        """End the program on all ranks if an element of the sum is wrong on a rank."""
        send, receive = (torch.as_tensor(beside.Memory(b, size), device="cuda").view(torch.float32)
                         for b in self.buffers)
        expected = 0
        self.seed += RANKS
        for rank in range(RANKS):
            numbers = torch.Generator("cuda").manual_seed(int(self.seed.item()) + rank)
            drawn = torch.randint(-1000, 1001, (size // WIDTH,), generator=numbers,
                                  device="cuda").float()
            expected = drawn + expected
            if rank == RANK:
                send.copy_(drawn)
        receive.fill_(float("nan"))
        torch.cuda.synchronize()
        dist.barrier()
        run()
        torch.cuda.synchronize()
        wrong = beside.slowest(float((receive != expected).sum().item()))
        if wrong:
            raise SystemExit(f"{who}, {size} bytes: {wrong:.0f} elements are wrong on a rank")

    def runs(self, size, calls):
        """Return for each contender a function that makes ``calls`` calls of ``size`` bytes."""
        made = {}
        for name, who in ((turns.NCCL, self.nccl), (turns.OURS, self.ours)):
            call = beside.collective(who, "allreduce", self.buffers, size, F32, WIDTH)

            def run(call=call):
                stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
                for _ in range(calls):
                    call(stream)
            self.check(name, run, size)
            if self.graphs:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    run()
                run = graph.replay
                self.check(f"{name} in a graph", run, size)
            made[name] = run
        made[turns.AGAIN] = made[turns.NCCL]
        return made

    def us(self, run, calls):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        dist.barrier()
        run()    # this run is not timed; after it the ranks' GPUs begin at the same time
        first.record()
        run()
        last.record()
        torch.cuda.synchronize()
        return beside.slowest(first.elapsed_time(last) * 1e3 / calls)

    def end(self, status):
        dist.barrier()
        sys.stdout.flush()
        os._exit(status)    # do not destroy the communicators: that takes long


class Invented:
    """Takes the place of several boxes. Its figures are invented, and its times are what the model
    predicts, but for some noise."""

    described = """start-up figures, us for messages of 65536 1048576 16777216 bytes:
  NCCL over all ranks       110.0     900.0   12000.0
  in the box                 15.0      30.0     150.0
  between the boxes         100.0     400.0    5000.0
rules that keep this choice:
"""
    about = {"torch": "none"}

    def __init__(self, given):
        self.ways, self.noise = nodes.measured(self.described), random.Random()

    def pieces(self, size):
        return self.ways.chosen(size)

    def runs(self, size, calls):
        return {c: lambda c=c: self.ways.us(size, self.pieces(size) if c == turns.OURS else 0)
                for c in turns.CONTENDERS}

    def us(self, run, calls):
        return run() * self.noise.uniform(0.998, 1.002)

    def end(self, status):
        sys.exit(status)


def measure(given, bed, ways, size):
    pieces = bed.pieces(size)
    calls = max(2, min(50, int(SAMPLE_US / ways.us(size, 0))))
    runs, times = bed.runs(size, calls), {c: [] for c in turns.CONTENDERS}
    for turn in range(given.rounds):
        for contender in turns.order(turn):
            times[contender].append(bed.us(runs[contender], calls))
    row = turns.compare({"bytes": size, "pieces": pieces}, times,
                        1.0 if pieces else 1 + given.slower)
    for name, expected in ((turns.NCCL, ways.us(size, 0)), (turns.OURS, ways.us(size, pieces))):
        off = statistics.median(times[name]) / expected - 1
        row[f"predicted {name}"] = {"us": round(expected, 1), "off": round(off, 4),
                                    "within": abs(off) <= given.predicts}
    return row


def predictions(rows):
    lines = ["     bytes pieces   NCCL predicted   measured    off"
             "   symtuner predicted   measured    off"]
    for row in rows:
        line = f"{row['bytes']:10} {row['pieces']:6}"
        for name, width in ((turns.NCCL, 16), (turns.OURS, 20)):
            said = row[f"predicted {name}"]
            line += (f" {said['us']:{width}.1f} {statistics.median(row[name]):10.1f} "
                     f"{100 * said['off']:+5.1f}%"
                     + (" " if said["within"] else "!"))
        lines.append(line)
    return "\n".join(lines)


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--per-box", type=beside.number(2), default=2)
    p.add_argument("--rounds", type=beside.number(1), default=5)
    p.add_argument("--least", type=beside.number(64), default=1 << 16)
    p.add_argument("--most", type=beside.number(64), default=1 << 26)
    p.add_argument("--step", type=beside.number(2), default=4,
                   help="factor from one size to the next")
    p.add_argument("--slower", type=float, default=0.02)
    p.add_argument("--predicts", type=float, default=0.15)
    p.add_argument("--graphs", action="store_true")
    p.add_argument("--library", default=os.path.join(turns.ROOT, "build", "libsymtuner_ar.so"))
    p.add_argument("--out", default="nodes.json")
    p.add_argument("--dry-run", action="store_true", help="play invented times")
    given = p.parse_args()
    if not given.least <= given.most <= beside.MOST or given.least % WIDTH:
        p.error(f"--least is a multiple of {WIDTH} and at most --most, and --most is at most "
                f"{beside.MOST}")
    if given.dry_run:
        return given
    if RANKS and (RANKS % given.per_box or RANKS == given.per_box):
        p.error(f"--per-box {given.per_box}: {RANKS} ranks do not make several boxes of as many")
    missing = ("torch" if torch is None else
               "a launcher: python3 -m torch.distributed.run --nproc_per_node 4" if RANKS < 4 else
               given.library if not os.path.exists(given.library) else
               "a GPU" if torch.cuda.device_count() < 1 else None)
    if missing:
        print(f"nodes_time.py: skipped: it needs {missing}", file=sys.stderr)
        raise SystemExit(77)
    return given


def report(given, bed, rows):
    """Print and write the results. Return 1 if they are not what they should be, else 0."""
    turns.write(given.out, turns.origin(None, **{
        "ranks": RANKS, "per box": given.per_box, "graphs": given.graphs, "rounds": given.rounds,
        "dry_run": given.dry_run, "programs": bed.about, "described": bed.described, "rows": rows}))
    with open(f"{given.out}.figures", "w", encoding="utf-8") as f:
        f.write(bed.described)
    print(turns.table(rows, ("bytes", "pieces")))
    print(predictions(rows))
    failed = turns.failed(rows)
    far = [row for row in rows for c in (turns.NCCL, turns.OURS)
           if not row[f"predicted {c}"]["within"]]
    ran = sum(row["pieces"] > 0 for row in rows)
    print(f"{ran} of {len(rows)} sizes ran box by box"
          + ("" if ran else ": this run does not count")
          + f"; {len(failed)} bars do not hold; {len(far)} predictions are off by more than "
          f"{100 * given.predicts:g} %" + ("; INVENTED TIMES" if given.dry_run else ""))
    return 1 if failed or far or not ran else 0


def main():
    given = arguments()
    bed = Invented(given) if given.dry_run else Bed(given)
    try:
        ways = nodes.measured(bed.described)
    except ValueError as error:
        raise SystemExit(f"nodes_time.py: {error}; symtuner_ar_describe printed:\n"
                         f"{bed.described}") from None
    rows, size = [], given.least
    while size <= given.most:
        rows.append(measure(given, bed, ways, size))
        size *= given.step
    bed.end(report(given, bed, rows) if RANK == 0 else 0)


if __name__ == "__main__":
    main()

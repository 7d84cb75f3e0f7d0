#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nodes.py - a simulation: from which length on is an all-reduce faster box by box (docs/nodes.md)?

usage: bench/nodes.py [--boxes 2,4,16,128,1024] [--per-box 8] [--gbps 50] [--cards 8]   (needs xz)
       bench/nodes.py --measured FILE

It prints NCCL's time, our time with the best number of pieces, and the ratio of the two. With
--measured the inputs are the start-up figures that symtuner_ar_describe printed on several boxes,
and FILE is its output; bench/nodes_time.py writes such a file and compares these predictions with
times. Without --measured nothing was measured on a network. The inputs are then:

- In the box: all-reduces of bf16 by our kernels ("staged", unregistered buffers) on 4 H200, medians
  of bench/results/2026-11-22-h200x4b/ar-compare.csv.xz (2026-11-22, five rounds). Reduce-scatter
  and all-gather were not measured; for each we take half of the all-reduce's time plus 2 us for a
  launch. For other numbers of GPUs we multiply the part of a time that exceeds the shortest time by
  the ratio of the bytes per link, which for 8 GPUs is (7/8) / (3/4). For boxes of 2 we take the
  rows of 2 ranks.
- NCCL: the latencies and efficiencies of NCCL 2.30.7's own cost model (src/graph/tuning.cc, the
  tables for Hopper). NCCL's time is the shortest among ring and tree with each of the three
  protocols; NVLS, CollNet and PAT are left out. The same model, with one rank per box, gives the
  time of the steps between boxes.
- The network: each box has --cards network cards of --gbps GB/s (50 GB/s is the signalling rate of
  one 400 Gb/s port of NVIDIA's ConnectX-7). NCCL over all ranks may use all cards of a box. In the
  steps between boxes, each rank uses only its own share of the cards.

Limits: the model has no congestion, no jitter, no kernels that share a GPU and no NVLS. In boxes
with NVSwitch NCCL would use NVLS and be faster than the model says. 8 GPUs are extrapolated from 4.
So a ratio says only where measuring is worthwhile. --check tests the functions that do what
kernels/nodes/model.c does, with the numbers of test/kernels/nodes/check_model.c.
"""
import argparse
import csv
import functools
import io
import math
import pathlib
import re
import statistics
import subprocess

RESULTS = pathlib.Path(__file__).parent / "results/2026-11-22-h200x4b/ar-compare.csv.xz"
LAUNCH = 2.0
PIECES = (1, 2, 4, 8, 16)
# the names of the steps, as kernels/nodes/describe.c prints them
NAMES = ("NCCL over all ranks", "in the box", "between the boxes")
NVLINK = 346e3  # bytes per us of a ring in a box: nccl-tests 2.19.6, 8 H200, bf16, 256 MiB, one run
# Each tuple has a number for LL, LL128 and Simple. BASE, INSIDE and BETWEEN are latencies in us: of
# a call, of a step inside a box, and of a step between boxes. SHARE is the fraction of the rate
# that carries data.
BASE = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}
INSIDE = {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)}
BETWEEN = {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)}
SHARE = {"tree": (0.92 / 3.8, 0.92 * 120 / 128, 0.92), "ring": (0.5, 0.92, 1.0)}


def nccl(size, boxes, each, network):
    """Return the us that ncclAllReduce of ``size`` bytes takes with ``each`` ranks in each box.
    ``network`` is the rate, in bytes per us, of the network cards that the ranks of one box may use
    together."""
    ranks, best = boxes * each, math.inf
    rate = min(NVLINK, network) if each > 1 else network
    for way in ("tree", "ring"):
        for p in range(3):
            if way == "ring":
                steps, between = 2 * (ranks - 1), 2 * (boxes - 1)
                latency = (steps - between) * max(INSIDE[way][p], 3.0 if p == 2 else 1.0)
                latency += between * BETWEEN["tree" if each == 1 else way][p]
                volume = 2 * (ranks - 1) / ranks
            else:
                latency = 2 * ((each - 1) * INSIDE[way][p] + math.log2(boxes) * BETWEEN[way][p])
                volume = 2.0
            best = min(best, BASE[way][p] + latency + volume * size / (rate * SHARE[way][p]))
    return best


def in_box(per_box):
    """Return [(bytes, us)] of a reduce-scatter and an all-gather in a box of ``per_box`` GPUs."""
    text = subprocess.run(["xz", "-dc", str(RESULTS)], check=True, capture_output=True,
                          text=True).stdout
    times, ranks = {}, 2 if per_box == 2 else 4
    for row in csv.DictReader(io.StringIO(text)):
        if (row["ranks"], row["mode"], row["contender"], row["type"], row["op"], row["cache"]) == \
                (str(ranks), "threads", "staged", "bf16", "sum", "warm"):
            times.setdefault(int(row["bytes"]), []).append(float(row["us"]))
    least = min(statistics.median(t) for t in times.values())
    scale = (per_box - 1) / per_box / ((ranks - 1) / ranks)
    return sorted((size, least + (statistics.median(t) - least) * scale + 2 * LAUNCH)
                  for size, t in times.items())


def line(points, size):
    """Return the time for ``size``, by linear interpolation between two points. Before the first
    point it is the first point's time. After the last point it lies on the line through the last
    two points."""
    if size <= points[0][0]:
        return points[0][1]
    at = max(i for i in range(len(points) - 1) if points[i][0] < size)
    (x, y), (to, end) = points[at], points[at + 1]
    return y + max(0.0, end - y) / (to - x) * (size - x)


def pieces_time(half, across, pieces):
    """Return what ar_nodes_time() in kernels/nodes/model.c returns: the time until all pieces are
    done. The reduce-scatters and all-gathers run on one stream, the steps between the boxes on
    another. ``half``: us of the reduce-scatter of a piece; its all-gather takes as long.
    ``across``: us of its step between the boxes."""
    stream = network = 0.0
    ended = [0.0, 0.0]
    for p in range(pieces + 1):
        if p < pieces:
            stream += half
            network = max(network, stream) + across
            ended[p % 2] = network
        if p > 0:
            stream = max(stream, ended[(p - 1) % 2]) + half
    return stream


class Ways:
    """Three functions. Each takes the bytes of a message and returns a time in us. ``whole``: of
    NCCL's all-reduce over all ranks. ``box``: of the reduce-scatter and the all-gather in the box.
    ``between``: of the step between the boxes, for one rank's part of the message."""

    def __init__(self, whole, box, between):
        self.whole, self.box, self.between = whole, box, between

    def us(self, size, pieces):
        """Return the time of a message that runs box by box in ``pieces`` pieces. If ``pieces`` is
        0, NCCL runs it over all ranks."""
        if pieces == 0:
            return self.whole(size)
        return pieces_time(self.box(size / pieces) / 2, self.between(size / pieces), pieces)

    def best(self, size):
        """Return the number of pieces with which box by box takes the least time."""
        return min((k for k in PIECES if k == 1 or size // k >= 1 << 18),
                   key=lambda k: self.us(size, k))

    def chosen(self, size):
        """Return what ar_nodes_pieces() in kernels/nodes/model.c returns: 0 where NCCL runs the
        message."""
        pieces = self.best(size)
        return pieces if self.us(size, pieces) < 0.9 * self.us(size, 0) else 0


def simulated(boxes, per_box, rate, box):
    """Return the Ways of a network of which nothing was measured. ``rate``: bytes per us of a
    rank's share of the network cards. ``box``: what in_box() returns."""
    return Ways(lambda size: nccl(size, boxes, per_box, rate * per_box),
                lambda size: line(box, size), lambda size: nccl(size / per_box, boxes, 1, rate))


def measured(text):
    """Read the start-up figures from what symtuner_ar_describe printed. Return their Ways."""
    head = re.search(r"start-up figures, us for messages of((?: \d+)+) bytes:\n", text)
    if not head:
        raise ValueError("no start-up figures, which symtuner_ar_describe prints for a group over "
                         "several boxes with SYMTUNER_AR_NODES=1")
    sizes, found = [int(word) for word in head[1].split()], []
    for name in NAMES:
        row = re.search(rf"^  {name} +([\d. ]+)$", text[head.end():], re.M)
        times = [float(word) for word in row[1].split()] if row else []
        if len(times) != len(sizes):
            raise ValueError(f"the start-up figures of \"{name}\" are not {len(sizes)} numbers")
        found.append(functools.partial(line, list(zip(sizes, times))))
    return Ways(*found)


def check():
    got = [pieces_time(5, 20, 1), pieces_time(5, 20, 2), pieces_time(5, 20, 4),
           pieces_time(5, 1, 2)]
    assert got == [30, 50, 90, 20], got
    steps = functools.partial(line, [(1 << 16, 10), (1 << 20, 26), (1 << 24, 266)])
    got = [steps(size)
           for size in (1, 1 << 16, (1 << 19) + (1 << 15), 1 << 20, 2 << 20, 1 << 24, 1 << 25)]
    assert got == [10, 10, 18, 26, 42, 266, 522], got
    ways = Ways(*(
        lambda size, least=least, per_mib=per_mib: least + per_mib * max(size, 1 << 16) / (1 << 20)
        for least, per_mib in ((50, 100), (40, 5), (30, 40))))
    got = [ways.chosen(1 << power) for power in range(16, 31, 2)]
    assert got == [0, 0, 1, 1, 2, 4, 8, 16], got
    print("steps, pieces and choices are those of kernels/nodes/model.c")


def show(name, ways):
    first = None
    for power in range(16, 31, 2):
        size = 1 << power
        pieces = ways.best(size)
        alone, best = ways.us(size, 0), ways.us(size, pieces)
        print(f"{name:>5} {size:10} {alone:9.0f} {best:11.0f} {pieces:7} {alone / best:18.2f}")
        first = size if first is None and ways.chosen(size) else first
    print(f"{name:>5} boxes: chosen from {first} bytes on" if first else f"{name:>5} boxes: never")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", default="2,4,16,128,1024")
    parser.add_argument("--per-box", type=int, default=8)
    parser.add_argument("--gbps", type=float, default=50.0)
    parser.add_argument("--cards", type=int, help="network cards of a box (one for each GPU)")
    parser.add_argument("--measured", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        return check()
    head = "boxes      bytes      NCCL  box by box  pieces  NCCL / box by box"
    if given.measured:
        try:
            ways = measured(pathlib.Path(given.measured).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            parser.error(f"--measured {given.measured}: {error}")
        print(f"by the start-up figures of {given.measured}; us; above the last figure a straight "
              f"line\n{head}")
        return show("these", ways)
    if not 2 <= given.per_box <= 16:
        parser.error("--per-box: our kernels take 2 to 16 ranks of a box")
    each, cards = given.per_box, given.cards or given.per_box
    box = in_box(each)
    print(f"boxes of {each}, {cards} cards of {given.gbps:g} GB/s each; us; a model, not "
          f"measured\n{head}")
    for boxes in map(int, given.boxes.split(",")):
        show(boxes, simulated(boxes, each, given.gbps * 1e3 * cards / each, box))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nodes.py - a simulation: from which length on is an all-reduce faster box by box (docs/nodes.md)?

usage: bench/nodes.py [--boxes 2,4,16,128,1024] [--gbps 50] [--cards 8]      (needs xz)

For boxes of 8 GPUs it prints NCCL's time, our time with the best number of pieces, and the ratio of
the two. Nothing here was measured on a network. The inputs:

- In the box: all-reduces of bf16 by our kernels ("staged", unregistered buffers) on 4 H200, medians of
  bench/results/2026-11-22-h200x4b/ar-compare.csv.xz (2026-11-22, five rounds). Reduce-scatter and
  all-gather were not measured; for each we take half of the all-reduce's time plus 2 us for a launch.
  For 8 GPUs, the part of a time that exceeds the shortest time is multiplied by the ratio of the bytes
  per link, (7/8) / (3/4).
- NCCL: the latencies and efficiencies of NCCL 2.30.7's own cost model (src/graph/tuning.cc, the tables
  for Hopper). NCCL's time is the shortest among ring and tree with each of the three protocols; NVLS,
  CollNet and PAT are left out. The same model, with one rank per box, gives the time of the steps
  between boxes.
- The network: each box has --cards network cards of --gbps GB/s (50 GB/s is the signalling rate of one
  400 Gb/s port of NVIDIA's ConnectX-7). NCCL over all ranks may use all cards of a box. In the steps
  between boxes, each rank uses only its own share of the cards.

Limits: the model has no congestion, no jitter, no kernels that share a GPU and no NVLS. In boxes with
NVSwitch NCCL would use NVLS and be faster than the model says. 8 GPUs are extrapolated from 4. So a
ratio says only where measuring is worthwhile. --check tests pieces_time() with the numbers with which
test/kernels/nodes/check_model.c tests kernels/nodes/model.c.
"""
import argparse
import csv
import io
import math
import pathlib
import statistics
import subprocess

RESULTS = pathlib.Path(__file__).parent / "results/2026-11-22-h200x4b/ar-compare.csv.xz"
PER_BOX = 8
LAUNCH = 2.0
NVLINK = 346e3  # bytes per us of a ring in a box: nccl-tests 2.19.6, 8 H200, bf16, 256 MiB, one run
# Each tuple has a number for LL, LL128 and Simple. BASE, INSIDE and BETWEEN are latencies in us: of a call, of
# a step inside a box, and of a step between boxes. SHARE is the fraction of the rate that carries data.
BASE = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}
INSIDE = {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)}
BETWEEN = {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)}
SHARE = {"tree": (0.92 / 3.8, 0.92 * 120 / 128, 0.92), "ring": (0.5, 0.92, 1.0)}


def nccl(size, boxes, each, network):
    """Return the us that ncclAllReduce of ``size`` bytes takes with ``each`` ranks in each box. ``network``
    is the rate, in bytes per us, of the network cards that the ranks of one box may use together."""
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


def measured():
    text = subprocess.run(["xz", "-dc", str(RESULTS)], check=True, capture_output=True, text=True).stdout
    times = {}
    for row in csv.DictReader(io.StringIO(text)):
        if (row["ranks"], row["mode"], row["contender"], row["type"], row["op"], row["cache"]) == \
                ("4", "threads", "staged", "bf16", "sum", "warm"):
            times.setdefault(int(row["bytes"]), []).append(float(row["us"]))
    least = min(statistics.median(t) for t in times.values())
    scale = (PER_BOX - 1) / PER_BOX / (3 / 4)
    return sorted((size, least + (statistics.median(t) - least) * scale + 2 * LAUNCH)
                  for size, t in times.items())


def line(points, size):
    """Return the time for ``size``, by linear interpolation between two points. Before the first point it is
    the first point's time. After the last point it lies on the line through the last two points."""
    if size <= points[0][0]:
        return points[0][1]
    at = max(i for i in range(len(points) - 1) if points[i][0] < size)
    (x, y), (to, end) = points[at], points[at + 1]
    return y + max(0.0, end - y) / (to - x) * (size - x)


def pieces_time(half, across, pieces):
    """Return what ar_nodes_time() in kernels/nodes/model.c returns: the time until all pieces are done. The
    reduce-scatters and all-gathers run on one stream, the steps between the boxes on another. ``half``: us
    of the reduce-scatter of a piece; its all-gather takes as long. ``across``: us of its step between the
    boxes."""
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


def check():
    got = [pieces_time(5, 20, 1), pieces_time(5, 20, 2), pieces_time(5, 20, 4), pieces_time(5, 1, 2)]
    assert got == [30, 50, 90, 20], got
    print("the pieces are those of kernels/nodes/model.c")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--boxes", default="2,4,16,128,1024")
    parser.add_argument("--gbps", type=float, default=50.0)
    parser.add_argument("--cards", type=int, default=PER_BOX)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        return check()
    box = measured()
    card = given.gbps * 1e3 * given.cards / PER_BOX  # bytes per us for each rank
    print(f"boxes of {PER_BOX}, {given.cards} cards of {given.gbps:g} GB/s each; us; a model, not measured")
    print("boxes      bytes      NCCL  box by box  pieces  NCCL / box by box")
    for boxes in map(int, given.boxes.split(",")):
        first = None
        for power in range(16, 31, 2):
            size = 1 << power
            alone = nccl(size, boxes, PER_BOX, card * PER_BOX)
            best, pieces = min((pieces_time(line(box, size / k) / 2,
                                            nccl(size / k / PER_BOX, boxes, 1, card), k), k)
                               for k in (1, 2, 4, 8, 16) if k == 1 or size / k >= 1 << 18)
            print(f"{boxes:5} {size:10} {alone:9.0f} {best:11.0f} {pieces:7} {alone / best:18.2f}")
            first = size if first is None and best < 0.9 * alone else first
        print(f"{boxes:5} boxes: chosen from {first} bytes on" if first else f"{boxes:5} boxes: never")


if __name__ == "__main__":
    main()

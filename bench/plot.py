#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plot what bench/jax_psum.py and bench/nccl_ab.py wrote: one SVG per kind, in the folder of results.

usage: bench/plot.py bench/results/2026-11-21-h200x4      (needs matplotlib)
"""
import collections
import csv
import glob
import os
import statistics
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "symtuner"  # the same rows give the same file
import matplotlib.pyplot as plt

LABEL = {"default": "XLA default", "sym": "symmetric buffers", "tuner": "+ NCCL_TUNER_PLUGIN",
         "env": "+ NCCL_ENV_PLUGIN"}


def size(n):
    return f"{n >> 20}M" if n >= 1 << 20 else f"{n >> 10}K"


def save(fig, path):
    fig.tight_layout()
    fig.savefig(path, metadata={"Date": None})
    print(path)


def jax(folder):
    files = sorted(glob.glob(os.path.join(folder, "jax-psum-*.csv")))
    fig, axes = plt.subplots(1, len(files), figsize=(5 * len(files), 3.6), squeeze=False)
    for axis, path in zip(axes[0], files):
        us = collections.defaultdict(list)
        for r in csv.DictReader(open(path)):
            us[int(r["bytes_per_rank"]), r["mode"]].append(
                min(map(float, r["us_of_each_call"].split())))
            ranks = r["ranks"]
        sizes = sorted({s for s, _ in us})
        modes = [m for m in LABEL if (sizes[0], m) in us]
        for i, mode in enumerate(modes):
            speed = [statistics.median(us[s, "sym"]) / statistics.median(us[s, mode]) for s in sizes]
            axis.bar([x + (i - 1.5) * 0.2 for x in range(len(sizes))], speed, 0.19,
                     label=LABEL[mode])
        axis.axhline(1, color="black", linewidth=0.6)
        axis.set_xticks(range(len(sizes)), [size(s) for s in sizes])
        axis.set_title(f"jax.lax.psum, bf16, {ranks} x H200")
        axis.set_xlabel("bytes per rank")
        axis.set_ylabel("speed (symmetric unsteered = 1)")
    axes[0][0].legend(fontsize=8, loc="upper left")
    axes[0][0].set_ylim(0, 1.9)
    save(fig, os.path.join(folder, "jax-psum.svg"))


def nccl(folder):
    us = collections.defaultdict(list)
    for r in csv.DictReader(open(os.path.join(folder, "nccl-2.28.9-plugin.csv"))):
        us[r["coll"], int(r["ranks"]), int(r["bytes"]), r["setting"]].append(float(r["us"]))
    colls = ["allreduce", "allgather", "reducescatter"]
    fig, axes = plt.subplots(1, 3, figsize=(13, 3.6), sharey=True)
    for axis, coll in zip(axes, colls):
        for ranks in sorted({k[1] for k in us}):
            sizes = sorted({k[2] for k in us if k[:2] == (coll, ranks)})
            for setting, style in (("tuner", "-"), ("env", ":")):
                axis.plot(sizes, [statistics.median(us[coll, ranks, s, "own"]) /
                                  statistics.median(us[coll, ranks, s, setting]) for s in sizes],
                          style, label=f"{ranks} ranks, {setting}")
        axis.axhline(1, color="black", linewidth=0.6)
        axis.axhline(0.97, color="grey", linewidth=0.6, linestyle="--")
        axis.set_xscale("log", base=2)
        axis.set_title(f"{coll}, symmetric windows, NCCL 2.28.9")
        axis.set_xlabel("nBytes")
        ticks = [1 << e for e in range(10, 29, 3)]
        axis.set_xticks(ticks, [size(t) for t in ticks])
    axes[0].set_ylabel("speed (NCCL's own CTA count = 1)")
    axes[0].legend(fontsize=8)
    save(fig, os.path.join(folder, "nccl-plugin.svg"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    jax(sys.argv[1])
    nccl(sys.argv[1])

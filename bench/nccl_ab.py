#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare settings of NCCL's collectives on symmetric windows, interleaved.

A setting is a name of SETTINGS or "ctas=N" (NCCL_SYM_CTAS=N). Every repetition starts one process of
bench/nccl_coll.c per setting, in turns; where there are GPUs for two, two settings of two ranks run
side by side on separate pairs. Raw rows go to --out; a table of medians and ratios to "own" is
printed. Needs: the built program (make build/nccl_coll), GPUs, NCCL.
"""
import argparse
import collections
import concurrent.futures
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
LIB = os.path.join(ROOT, "build", "libsymtuner.so")
SETTINGS = {
    "own": ({}, 1),                                    # NCCL alone, symmetric windows
    "general": ({}, 0),                                # NCCL alone, plain memory
    "tuner": ({"NCCL_TUNER_PLUGIN": LIB}, 1),          # general kernels only: keeps NCCL's count
    "env": ({"NCCL_ENV_PLUGIN": LIB}, 1),
}


def setting(name):
    if name.startswith("ctas="):
        return {"NCCL_SYM_CTAS": name[5:]}, 1
    return SETTINGS[name]


def run(name, ranks, gpus, args):
    extra, windows = setting(name)
    env = dict(os.environ, CUDA_VISIBLE_DEVICES=",".join(map(str, gpus)), **extra)
    out = subprocess.run([args.program, "--ranks", str(ranks), "--reps", str(args.reps),
                          "--windows", str(windows), "--min", args.min, "--max", args.max,
                          "--colls", str(args.colls), "--label", name],
                         env=env, capture_output=True, text=True, timeout=300)
    if out.returncode:
        sys.exit(f"{name}, {ranks} ranks: exit {out.returncode}\n{out.stderr}")
    return out.stdout


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--program", default=os.path.join(ROOT, "build", "nccl_coll"))
    p.add_argument("--settings", default="own,tuner,env,general")
    p.add_argument("--ranks", default="2,4")
    p.add_argument("--gpus", type=int, default=4)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--min", default="1K")
    p.add_argument("--max", default="256M")
    p.add_argument("--colls", type=int, default=7)
    p.add_argument("--out", default="nccl_ab.csv")
    args = p.parse_args()
    names = args.settings.split(",")
    rows = []
    for ranks in map(int, args.ranks.split(",")):
        side = args.gpus // ranks
        for turn in range(args.rounds):
            order = names[turn % len(names):] + names[:turn % len(names)]
            with concurrent.futures.ThreadPoolExecutor(side) as pool:
                # batches, so that what runs side by side started together
                for i in range(0, len(order), side):
                    jobs = [pool.submit(run, name, ranks,
                                        range(k * ranks, (k + 1) * ranks), args)
                            for k, name in enumerate(order[i:i + side])]
                    for job in jobs:
                        rows += [f"{turn}," + line for line in job.result().splitlines()]
    with open(args.out, "w") as f:
        f.write("round,setting,ranks,coll,bytes,us\n" + "\n".join(rows) + "\n")
    summary(rows, names)


def summary(rows, names):
    us = collections.defaultdict(list)
    for row in rows:
        _, name, ranks, coll, size, t = row.split(",")
        us[int(ranks), coll, int(size), name].append(float(t))
    keys = sorted({k[:3] for k in us}, key=lambda k: (k[1], k[0], k[2]))
    print(f"{'ranks':>5} {'coll':<13} {'bytes':>10} " + " ".join(f"{n:>16}" for n in names))
    for key in keys:
        base = statistics.median(us[key + (names[0],)])
        cells = []
        for name in names:
            v = us[key + (name,)]
            spread = (max(v) - min(v)) / statistics.median(v) * 100
            cells.append(f"{statistics.median(v):8.2f} {base / statistics.median(v):4.2f}{spread:3.0f}%")
        print(f"{key[0]:>5} {key[1]:<13} {key[2]:>10} " + " ".join(cells))
    print("cells: median us, speed against the first setting, spread (max - min) of the rounds")


if __name__ == "__main__":
    main()

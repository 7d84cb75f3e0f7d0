#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests test/gpu/jax_procs.py without GPUs and jax: does it tell right groups from wrong ones?

jax_procs.py starts this file as each rank (--child). This file then behaves like a rank of the
case. As rank 3 it has the fault that PLAY names.
"""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

PROCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../gpu/jax_procs.py")
CASES = "two,kill,exit,raise,apart,values"

# fault: the cases, and what jax_procs.py must say about it. "": no fault
PLAYS = {
    "": (CASES, ""),
    "ends with 0": ("kill,two", "a rank that lost another ended with 0"),
    "silent": ("exit,kill", "a rank does not say who is gone"),
    "other comm": ("values,kill", "a rank does not use the communicator"),
    "leaves a child": ("values", "processes left"),
    "complains": ("values", "ranks [3] complain"),
    "fails": ("values,apart", "an exit status is not 0"),
}


def child(words):
    case, ranks, rank = (words[words.index(f"--{n}") + 1] for n in ("case", "ranks", "rank"))
    ranks, rank = int(ranks), int(rank)
    play = os.environ["PLAY"] if rank == 3 else ""
    comm = "other" if play == "other comm" else os.environ["SYMTUNER_JAX_COMM"]
    print(f"rank {rank}: rank={rank} ranks={ranks} gpu=0 comm={comm}-nccl calls=1", flush=True)
    if play == "leaves a child":
        subprocess.Popen(["sleep", "20"])
    if play == "complains":
        print("Traceback (most recent call last):", flush=True)
    if play == "fails":
        return 1
    if case == "values":
        return 0
    if case == "apart" or rank == 1 or (case == "two" and rank == 2):
        time.sleep(0.3 * (case == "two" and rank == 2))  # rank 1 goes first, and the others name it
        print(f"rank {rank} goes {time.time():.3f}", flush=True)
        if (rank, case) in ((1, "kill"), (2, "two")):
            os.kill(os.getpid(), signal.SIGKILL)
        return case == "raise"
    if play != "silent":
        how = "is gone" if case == "kill" else "has closed the group or raised an exception"
        print(f"symtuner: rank 1 {how} while rank {rank} waits for it on GPU 0", flush=True)
    time.sleep(0.5)
    return 0 if play == "ends with 0" else 71


def run(play):
    cases, words = PLAYS[play]
    comms = "own,xla"
    total = len(cases.split(",")) * len(comms.split(","))
    p = subprocess.run(
        [sys.executable, PROCS, "--ranks", "4", "--case", cases, "--comm", comms, "--side", "12"]
        + ["--limit", "60", "--child", os.path.abspath(__file__)],
        env=dict(os.environ, CUDA_VISIBLE_DEVICES="0,1,2,3", PLAY=play),
        capture_output=True,
        text=True,
    )
    said = p.stdout.splitlines()
    wrong = [line for line in said if "FAILED" in line]
    if words:
        why = [line for line in said if "wrong, group" in line]
        right = p.returncode == 1 and len(wrong) == len(why) == total
        right &= all(words in line for line in why)
    else:
        right = p.returncode == 0 and p.stdout.count("1 of 1 right") == total
    if not right:
        print(f"FAILED: {play or 'right groups'}: exit {p.returncode}\n{p.stdout}{p.stderr}")
    return right


def main():
    with ThreadPoolExecutor(2) as pool:
        right = list(pool.map(run, PLAYS))
    print(f"jax procs: {sum(right)} passed, {len(right) - sum(right)} failed")
    return not all(right)


if __name__ == "__main__":
    sys.exit(child(sys.argv) if "--rank" in sys.argv else main())

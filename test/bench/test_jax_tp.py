#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/jax_tp.py: its options, and three of its programs, tiny, on two CPU devices."""

import json
import subprocess
import sys

TINY = "--cpu --layers 1 --train-layers 1 --hidden 32 --heads 4 --kv 2 --ffn 32 --seq 4 --batch 2"


def bench(words):
    command = [sys.executable, "bench/jax_tp.py", *words.split()]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def refuses(words, why):
    p = bench(words)
    assert p.returncode == 2 and why in p.stderr, (words, p)


def main():
    refuses("--programs decode,sing", "'sing' is unknown; write some of decode, prefill")
    refuses("--ranks 3", "--heads 32 is not a multiple of --ranks 3")
    refuses("--hidden 100", "--hidden must be a multiple of --heads")
    refuses("--batch 1,x", "--batch '1,x': write numbers with commas")
    refuses("--cpu --processes", "--cpu runs in one process")
    programs = ["decode", "data", "gspmd_train"]
    p = bench(f"{TINY} --rounds 2 --steps 2 --programs {','.join(programs)}")
    lines = [json.loads(line) for line in p.stdout.splitlines()]
    assert p.returncode == 0 and [line["program"] for line in lines] == programs, p
    for line in lines:
        assert line["differs"] == 0 and line["replaced"] == 0, line  # on the CPU nothing is ours
        assert line["ranks"] == 2 and line["symtuner tokens/s"] > 0, line
        low, high = line["gain_range"]
        assert 0 < low <= line["gain"] <= high, line
    print(f"jax_tp.py: {len(lines)} programs ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())

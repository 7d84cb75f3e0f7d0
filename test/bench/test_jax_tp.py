#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests bench/jax_tp.py: its options, its end by a signal, and three of its programs with tiny
sizes on two CPU devices."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

TINY = "--cpu --layers 1 --train-layers 1 --hidden 32 --heads 4 --kv 2 --ffn 32 --seq 4 --batch 2"


def bench(words, stderr=subprocess.PIPE):
    command = [sys.executable, "bench/jax_tp.py", *words.split()]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=900)


def refuses(words, why):
    p = bench(words)
    assert p.returncode == 2 and why in p.stderr, (words, p)


def comes_at_once(output, programs):
    """Does each program's line come before the next program begins? ``output`` is stdout and
    stderr together."""
    lines = output.splitlines()
    begins = [i for i, line in enumerate(lines)
              if line.startswith(tuple(f"{p}, " for p in programs))]
    told = [i for i, line in enumerate(lines) if line.startswith("{")]
    return len(begins) == len(told) == len(programs) and sorted(begins + told) == [
        i for pair in zip(begins, told) for i in pair
    ]


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ends_its_children(number):
    """Check that with --processes a signal that ends the parent also ends the ranks. Each rank
    imports a fake jax, which writes down the rank's process id and then only waits."""
    with tempfile.TemporaryDirectory() as folder:
        fake = "import os, time\nopen(f'{os.path.dirname(__file__)}/{os.getpid()}.pid', 'w')\n"
        pathlib.Path(folder, "jax.py").write_text(fake + "time.sleep(100)\n", encoding="utf-8")
        command = [sys.executable, "bench/jax_tp.py", "--ranks", "2", "--processes"]
        env = dict(os.environ, PYTHONPATH=folder)
        parent = subprocess.Popen(command, env=env)
        until, pids = time.monotonic() + 60, []
        while len(pids) < 2 and time.monotonic() < until:
            time.sleep(0.01)
            pids = [int(p.stem) for p in pathlib.Path(folder).glob("*.pid")]
        parent.send_signal(number)
        status = parent.wait(60)
        left = list(filter(lives, pids))
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert len(pids) == 2 and not left and status == 128 + number, (number, pids, left, status)


def main():
    ends_its_children(signal.SIGTERM)
    ends_its_children(signal.SIGHUP)
    refuses("--programs decode,sing", "'sing' is unknown; write some of decode, prefill")
    refuses("--ranks 3", "--heads 32 is not a multiple of --ranks 3")
    refuses("--hidden 100", "--hidden must be a multiple of --heads")
    refuses("--batch 1,x", "--batch '1,x': write numbers with commas")
    refuses("--cpu --processes", "--cpu runs in one process")
    programs = ["decode", "data", "gspmd_train"]
    with tempfile.NamedTemporaryFile("r") as out:
        words = f"{TINY} --rounds 2 --steps 2 --programs {','.join(programs)} --out {out.name}"
        p = bench(words, stderr=subprocess.STDOUT)
        kept = out.read()
    assert p.returncode == 0 and comes_at_once(p.stdout, programs), p.stdout
    assert p.stdout.count("  symtuner: compile ... ") == len(programs), p.stdout
    lines = [line for line in p.stdout.splitlines() if line.startswith("{")]
    assert kept.splitlines() == lines, kept
    lines = [json.loads(line) for line in lines]
    assert [line["program"] for line in lines] == programs, lines
    for line in lines:
        # on the CPU, none of our kernels runs
        assert line["differs"] == 0 and line["replaced"] == 0, line
        assert line["ranks"] == 2 and line["symtuner tokens/s"] > 0, line
        low, high = line["gain_range"]
        assert 0 < low <= line["gain"] <= high, line
    print(f"jax_tp.py: {len(lines)} programs ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Tests bench/torch_steps.py and bench/turns.py without torch and GPUs: error bars, and jobs that
report invented times, compute wrong results, fail, hang, or never reach our kernels."""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import turns  # noqa: E402

# These words stand in front of the program. They make it report invented times instead of starting
# ranks.
PLAY = f"sh -c 'exec {sys.executable} \"$@\" --pretend' sh"


def bench(folder, *words, **env):
    command = [sys.executable, str(ROOT / "bench/torch_steps.py"), "--out", f"{folder}/steps.json",
               *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                          cwd=folder, env={**os.environ, **env})


def expect(done, status, says):
    assert done.returncode == status and says in done.stdout + done.stderr, (status, says, done)


def compared(nccl, ours, again, **bar):
    return turns.compare({}, dict(zip(turns.CONTENDERS, (nccl, ours, again))), **bar)


def test_bars():
    flat = [100, 100, 100]
    row = compared([100, 200, 100], [90, 150, 95], [110, 210, 104], bar=0.9)
    assert row["ratio"] == [0.9, 0.75, 0.95] and row["A/A"] == [1.05, 1.04, 1.1], row
    assert row["spread"] == 0.05 and row["verdict"] == "holds", row
    assert compared(flat, [103] * 3, [98] * 3, bar=1.02)["verdict"] == "within A/A"
    # one outlier does not make the error bar wider
    assert compared(flat, [103] * 3, [100, 100, 50], bar=1.02)["verdict"] == "FAILS"
    assert compared(flat, [103] * 3, flat)["verdict"] == "-"
    assert compared(flat, [103] * 3, flat, most_us=103)["verdict"] == "holds"
    assert compared(flat, [103] * 3, [102] * 3, most_us=102)["verdict"] == "within A/A"
    assert compared(flat, [103] * 3, flat, most_us=102)["verdict"] == "FAILS"
    below = compared([5, -1, 5], [1, 1, 1], [5, 5, 5], bar=0.85)
    assert below["verdict"] == "NO RATIO" and turns.failed([below]) == [below]
    assert [turns.order(i)[0] for i in range(4)] == ["NCCL", "symtuner", "NCCL again", "NCCL"]


def test_dry_run(folder):
    expect(bench(folder, "--dry-run", "--rounds", "3"), 0, "all bars hold")
    result = json.loads(pathlib.Path(folder, "steps.json").read_text())
    assert result["rounds"] == 3 and result["dry_run"] and "--dry-run" in result["command"], result
    assert {"GPUs", "host"} <= result["box"].keys(), result
    assert {"torch", "tree"} <= result["versions"].keys(), result
    rows = {(r["program"], r["size"], r["what"]): r for r in result["rows"]}
    assert len(rows) == 4 * 4 + 2 * 3 + 2 * 3 + 6 * 2, len(rows)
    bars = {key: row["bar"] or row["most us"] for key, row in rows.items()}
    assert bars["decode", 16, "step"] == 0.8696 and bars["decode", 16, "each"] == 3.3, bars
    assert bars["ddp", 8, "exposed"] == 0.85 and bars["ddp", 8, "step"] == 1.02, bars
    assert bars["fsdp", 2, "step"] == 1.0 and bars["fsdp", 2, "exposed"] is None, bars
    assert bars["calls", 8192, "graph"] == bars["calls", 8192, "eager"] == 1.02, bars
    assert all(len(row[c]) == 3 for row in rows.values() for c in turns.CONTENDERS)
    worse = ["--dry-run", "--rounds", "1", "--programs", "decode"]
    expect(bench(folder, *worse, "--bar", "decode=2"), 1, "4 bars do not hold")
    expect(bench(folder, *worse, "--bar", "decode=2", "--bar", "decode=none"), 0, "all bars hold")
    expect(bench(folder, "--dry-run", "--rounds", "5", "--seconds", "0"), 0,
           "1 rounds of 5: the time was up")
    expect(bench(folder, *worse, NCCL_NVLS_ENABLE="0"), 0, "")
    written = json.loads(pathlib.Path(folder, "steps.json").read_text())
    assert written["environment"]["NCCL_NVLS_ENABLE"] == "0"


def symtuner(folder, *says):
    """Make a command that runs a program as `symtuner run` does, and then prints the lines
    ``says``."""
    path = pathlib.Path(folder, "symtuner")
    path.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift\n"$@" || exit\n'
                    + "".join(f"echo {shlex.quote(line)} >&2\n" for line in says))
    path.chmod(0o755)
    return ["--symtuner", str(path), "--rounds", "1", "--programs", "calls"]


def test_jobs(folder):
    called = "symtuner run: 2 processes called NCCL 2.28.9"
    some = symtuner(folder, called,
                    "  allreduce   40 calls  1 GiB   36 by our kernels (90 %), 1 MiB")
    done = bench(folder, *some, "--launcher", PLAY, "--set", "PRETEND=0.5")
    expect(done, 0, "36 by our kernels")
    assert json.loads(pathlib.Path(folder, "steps.json").read_text())["summary"][0] == called
    expect(bench(folder, *some, "--launcher", PLAY, "--set", "PRETEND=1.2"), 1,
           "12 bars do not hold")
    none = symtuner(folder, called, "  allreduce   40 calls  1 GiB   none by our kernels")
    expect(bench(folder, *none, "--launcher", PLAY), 1, "no call ran by our kernels")
    wrong = "sh -c 'echo \"{\\\"wrong\\\": \\\"64 KiB\\\"}\"; exit 1'"
    expect(bench(folder, *some, "--launcher", wrong), 1, "NCCL: a wrong result: 64 KiB")
    expect(bench(folder, *some, "--launcher", "sh -c 'echo no GPU >&2; exit 3'"), 1, "no GPU")
    lacks = "sh -c 'echo x: skipped: it needs y >&2; exit 1'"
    expect(bench(folder, *some, "--launcher", lacks), 77, "x: skipped: it needs y")


def gone(pid):
    """Is the process gone after some seconds? A killed process stays until init has noticed its
    end."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_nothing_is_left(folder):
    """A job that hangs ends at its time limit. A signal to the bench ends the job."""
    note = pathlib.Path(folder, "pid")
    hang = f"sh -c 'echo $$ > {note}.part; mv {note}.part {note}; exec sleep 100'"
    expect(bench(folder, "--launcher", hang, "--job-seconds", "1"), 1, "none after 1 s")
    assert gone(int(note.read_text()))
    note.unlink()
    command = [sys.executable, str(ROOT / "bench/torch_steps.py"), "--out", f"{folder}/x.json",
               "--launcher", hang]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
        until = time.monotonic() + 60
        while not note.exists() and time.monotonic() < until:
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 128 + signal.SIGTERM
    assert gone(int(note.read_text()))


def test_arguments(folder):
    expect(bench(folder, "--bar", "decodes=1"), 2, "decodes=1: write NAME=NUMBER")
    expect(bench(folder, "--set", "X"), 2, "X: write NAME=VALUE")
    expect(bench(folder, "--programs", "decode,sing"), 2, "write some of decode, ddp, fsdp, calls")
    expect(bench(folder, "--ranks", "3"), 2, "--ranks is 2, 4, 8 or 16")
    expect(bench(folder, "--dry-run", NCCL_TUNER_PLUGIN="/x/libsymtuner.so"), 2,
           "loads symtuner into NCCL's jobs")
    done = bench(folder, "--dry-run", "--rounds", "1", ONE_GPU_FOLDER="/tmp")
    expect(done, 0, "RANKS SHARE A GPU, so these times mean nothing")
    expect(bench(folder, "--symtuner", "/nowhere"), 77, "skipped: it needs")
    program = [sys.executable, str(ROOT / "bench/torch_programs.py")]
    done = subprocess.run([*program, "--programs", "x"], capture_output=True, text=True,
                          check=False)
    expect(done, 2, "write some of decode")
    done = subprocess.run(program, capture_output=True, text=True, check=False,
                          env={k: v for k, v in os.environ.items() if k != "WORLD_SIZE"})
    expect(done, 77, "skipped: it needs torch")


def main():
    test_bars()
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_dry_run, test_jobs, test_nothing_is_left, test_arguments):
            test(folder)
    print("test_steps: all as expected")


if __name__ == "__main__":
    main()

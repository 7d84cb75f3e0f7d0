#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time unchanged PyTorch programs with NCCL alone and under `symtuner run`, in turns.

    python3 bench/torch_steps.py --ranks 2 --out steps.json
    python3 bench/torch_steps.py --dry-run --rounds 2 --out dry.json    without torch, without GPUs

Each round starts three jobs of torchrun, one after the other: with NCCL, under `symtuner run`, and
with NCCL again. Each round begins with a different job. A job runs bench/torch_programs.py, which
knows nothing of symtuner, checks all results before it times anything, and reports the times of the
slowest rank. How ratios and the A/A spread are computed is in bench/turns.py.

The program compares the times with these bars (--bar NAME=NUMBER changes one, --bar NAME=none
removes it):

decode    1.15  a decode step is at least this many times as fast, at each batch
ddp       0.85  DDP's exposed time is at most this part of NCCL's
fsdp      1.00  a step with FSDP2 takes at most this part of NCCL's time
slower    0.02  no step and no single call is slower by more than this
each-N          on two ranks, an all-reduce of the decode step with batch N takes at most this many
                us: each-1 is 3, each-16 is 3.3, each-64 is 5, each-256 is 10

A job takes about 32 s on two H100s, so five rounds take 8 minutes, and less with --programs
decode,calls. After each round the result is written; when the next round would not end within
--seconds, the run ends with fewer rounds, and says so.

To try it on one GPU, set what test/gpu/one/one.sh sets, among it LD_PRELOAD=build/one/hosts.so, and
name --symtuner build/one/symtuner. The times then mean nothing.

All jobs inherit the environment (NCCL_NVLS_ENABLE and others), and the JSON has it. --set
NAME=VALUE sets a variable for symtuner's jobs only, --run gives options to `symtuner run`.

Exit status 1: a bar does not hold, a result is wrong, a job failed, or symtuner's job ran no call
by our kernels. 2: an argument is wrong. 77: something is missing here.
"""
import argparse
import collections
import importlib.util
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time

import torch_programs
import turns

BARS = {"decode": 1.15, "ddp": 0.85, "fsdp": 1.0, "slower": 0.02,
        "each-1": 3.0, "each-16": 3.3, "each-64": 5.0, "each-256": 10.0}
PROGRAM = os.path.join(turns.ROOT, "bench", "torch_programs.py")


def read_bar(text):
    name, _, number = text.partition("=")
    try:
        if name not in BARS:
            raise ValueError
        return name, None if number == "none" else float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text}: write NAME=NUMBER or NAME=none, with a NAME of {', '.join(BARS)}") from None


def read_setting(text):
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE")
    return name, value


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--programs", default=",".join(torch_programs.SIZES))
    p.add_argument("--out", default="torch-steps.json")
    p.add_argument("--bar", type=read_bar, action="append", default=[], metavar="NAME=NUMBER")
    p.add_argument("--symtuner", default=os.path.join(turns.ROOT, "build", "symtuner"),
                   metavar="FILE")
    p.add_argument("--run", default="", metavar="OPTIONS", help="for example --run='--max-ctas 16'")
    p.add_argument("--set", type=read_setting, action="append", default=[], metavar="NAME=VALUE")
    p.add_argument("--seconds", type=float, default=540, help="limit of the whole run (540)")
    p.add_argument("--job-seconds", type=float, default=150, help="limit of a job (150)")
    p.add_argument("--launcher", help="instead of torchrun, in front of the program")
    p.add_argument("--dry-run", action="store_true", help="play invented times")
    a = p.parse_args()
    if a.rounds < 1 or a.ranks not in (2, 4, 8, 16):
        p.error("--rounds is at least 1, and --ranks is 2, 4, 8 or 16")
    if not set(a.programs.split(",")) <= set(torch_programs.SIZES):
        p.error(f"--programs {a.programs}: write some of {', '.join(torch_programs.SIZES)}")
    loaded = [k for k, v in os.environ.items()
              if "libsymtuner" in v and k.startswith(("LD_PRELOAD", "NCCL_"))]
    if loaded:
        p.error(f"{loaded[0]} loads symtuner into NCCL's jobs, too")
    if a.dry_run or a.launcher is not None:
        return a
    gpus = turns.output("nvidia-smi", "-L")    # empty also where nvidia-smi is not on the PATH
    missing = ("torch" if importlib.util.find_spec("torch") is None else
               f"{a.ranks} GPUs" if 0 < len(gpus) < torch_programs.gpus_needed(a.ranks) else
               f"{a.symtuner} (make, make kernels)" if not os.access(a.symtuner, os.X_OK) else None)
    if missing:
        print(f"torch_steps.py: skipped: it needs {missing}", file=sys.stderr)
        raise SystemExit(77)
    return a


def words(a, contender):
    """Return the command of a contender's job."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(a.ranks),
                "--master_addr", "127.0.0.1", "--master_port", str(port)]
    if a.dry_run:
        launcher = [sys.executable]
    if a.launcher is not None:
        launcher = shlex.split(a.launcher)
    command = [*launcher, PROGRAM, "--programs", a.programs] + ["--pretend"] * a.dry_run
    if contender == turns.OURS and not a.dry_run:
        command = [a.symtuner, "run", *shlex.split(a.run), "--", *command]
    return command


def variables(a, contender):
    if contender != turns.OURS:
        return {}
    return dict(a.set, **({"PRETEND": "0.4"} if a.dry_run else {}))


def end(child):
    """End a job. torchrun passes SIGTERM on to its ranks, which are in sessions of their own."""
    for number, seconds in ((signal.SIGTERM, 40), (signal.SIGKILL, 10)):
        if child.poll() is None:
            os.killpg(child.pid, number)
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                pass


def job(a, contender, log):
    """Run a job. Return its lines of JSON, and what it wrote on stderr."""
    command = words(a, contender)
    with tempfile.TemporaryFile("w+") as out, \
            tempfile.TemporaryFile("w+", errors="replace") as errors:
        children = []
        try:
            turns.start(children, command, stdout=out, stderr=errors, start_new_session=True,
                        env={**os.environ, **variables(a, contender)})
            status = children[0].wait(a.job_seconds)
        except subprocess.TimeoutExpired:
            status = f"none after {a.job_seconds:g} s"
        finally:
            for child in children:
                end(child)
        out.seek(0)
        errors.seek(0)
        said, complaints = out.read(), errors.read()
    log.write(f"==== {contender}: {shlex.join(command)}\n{said}{complaints}")
    log.flush()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    wrong = [line["wrong"] for line in lines if "wrong" in line]
    if wrong:
        raise SystemExit(f"{contender}: a wrong result: {wrong[0]}")
    if status:
        lines = complaints.splitlines()
        told = [x for x in lines
                if re.search(r"Error: |skipped: ", x) and "ChildFailed" not in x] or lines[-8:]
        if told and "skipped: it needs" in told[0]:    # torchrun does not pass 77 on
            print(told[0], file=sys.stderr)
            raise SystemExit(77)
        raise SystemExit("\n".join([f"{contender}: exit status {status}; {log.name} has its output",
                                    *told[:8]]))
    if contender == turns.OURS and not a.dry_run and not re.search(
            r"\b(all|[1-9]\d*) by our kernels$|\b[1-9]\d* by our kernels \(", complaints, re.M):
        raise SystemExit(f"{contender}: no call ran by our kernels, so this run does not count; "
                         f"see {log.name}")
    return lines, complaints


def bar_of(bars, program, size, what, ranks):
    """Return (largest ratio, largest us) for a quantity; None where there is no bar."""
    slower = None if bars["slower"] is None else 1 + bars["slower"]
    if what == "each":
        return None, bars.get(f"each-{size}") if ranks == 2 else None
    if (program, what) == ("decode", "step") and bars["decode"]:
        return 1 / bars["decode"], None
    if (program, what) == ("ddp", "exposed"):
        return bars["ddp"], None
    if (program, what) == ("fsdp", "step") and bars["fsdp"] is not None:
        return bars["fsdp"], None
    return slower if what in ("step", "graph", "eager") else None, None


def rows_of(a, times):
    """Return the rows of the result. ``times`` maps (program, size, what) to {contender: [us,
    ...]}."""
    bars, rows = {**BARS, **dict(a.bar)}, []
    for (program, size, what), by in times.items():
        bar, most = bar_of(bars, program, size, what, a.ranks)
        rows.append(turns.compare({"program": program, "size": size, "what": what}, by, bar, most))
    return rows


def summary(complaints):
    """Return the summary that `symtuner run` prints at the end."""
    lines, kept = complaints.splitlines(), []
    for line in lines:
        if re.match(r"symtuner run: .* called NCCL", line):
            kept = [line]
        elif kept and line.startswith("  "):
            kept.append(line)
    return kept


def measure(a, log):
    begin, longest = time.monotonic(), 0.0
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    result = turns.origin(a.symtuner, ranks=a.ranks, set_for_symtuner=dict(a.set),
                          rounds_asked=a.rounds, dry_run=a.dry_run)
    for turn in range(a.rounds):
        start, got = time.monotonic(), {}
        if turn and start - begin + longest > a.seconds:
            break
        for contender in turns.order(turn):
            lines, complaints = job(a, contender, log)
            got[contender] = {(x["program"], x["size"], x["what"]): x["us"]
                              for x in lines if "us" in x}
            result["versions"].update(next(x["about"] for x in lines if "about" in x))
            if contender == turns.OURS:
                result["summary"] = summary(complaints)
        if not got[turns.NCCL] or any(g.keys() != got[turns.NCCL].keys() for g in got.values()):
            raise SystemExit(f"the jobs of a round measured different things; see {log.name}")
        for contender, values in got.items():
            for key, us in values.items():
                times[key][contender].append(us)
        longest = max(longest, time.monotonic() - start)
        result.update(rounds=turn + 1, seconds=round(time.monotonic() - begin),
                      rows=rows_of(a, times))
        turns.write(a.out, result)
        print(f"round {turn + 1} of {a.rounds}: {time.monotonic() - start:.0f} s", file=sys.stderr,
              flush=True)
    return result


def main():
    a = arguments()
    turns.exit_on_signals()
    with open(f"{a.out}.log", "w", encoding="utf-8") as log:
        result = measure(a, log)
    print(turns.table(result["rows"], ("program", "size", "what")))
    for line in result["summary"]:
        print(line)
    few = "" if result["rounds"] == a.rounds else f" of {a.rounds}: the time was up"
    failed = turns.failed(result["rows"])
    print(f"{result['rounds']} rounds{few}, {a.ranks} ranks, {result['seconds']} s; {a.out}"
          + ("; INVENTED TIMES" if a.dry_run else "")
          + ("; RANKS SHARE A GPU, so these times mean nothing"
             if torch_programs.gpus_needed(2) == 1 else ""))
    print(f"{len(failed)} bars do not hold" if failed else "all bars hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

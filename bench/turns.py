# SPDX-License-Identifier: Apache-2.0
"""Compare times that were measured in turns: NCCL, symtuner, and NCCL again. No torch, no GPU.

In each round each contender has one time. A ratio is symtuner's time divided by NCCL's in the same
round; an A/A ratio is NCCL's second time divided by its first. The A/A spread is the median
distance of the A/A ratios from 1. It shows how far apart two equal contenders are (bench/scoreboard
counts it in the same way).

A bar is the largest median ratio that is allowed, or the largest median time of symtuner's. "holds"
means that the bar holds as it is. "within A/A" means that it holds only if the A/A spread is added
to it.
"""
import datetime
import json
import os
import platform
import shlex
import signal
import statistics
import subprocess
import sys

NCCL, OURS, AGAIN = CONTENDERS = "NCCL", "symtuner", "NCCL again"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_on_signals():
    """Let the signals that end the program raise an exception, so that "finally" ends its
    processes."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))


def start(started, command, **more):
    """Start a process, and append it to ``started``. A signal that comes meanwhile takes effect
    only when both are done. So if the signal makes the caller end the processes in ``started``,
    this one is ended, too."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        started.append(subprocess.Popen(
            command, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS), **more))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def order(turn):
    """Return the contenders in the order of round ``turn``: each round begins with another one."""
    at = turn % len(CONTENDERS)
    return CONTENDERS[at:] + CONTENDERS[:at]


def three(values):
    return [round(f(values), 4) for f in (statistics.median, min, max)]


def verdict(value, bar, spread):
    if bar is None:
        return "-"
    return "holds" if value <= bar else "within A/A" if value <= bar + spread else "FAILS"


def compare(name, times, bar=None, most_us=None):
    """Return what is known about one quantity, as a dictionary. ``name``: a dictionary that says
    what was measured. ``times`` maps each contender to its times, one for each round. ``bar``: the
    largest allowed ratio, ``most_us``: the largest allowed time; at most one of them is not
    None."""
    row = {**name, **{c: [round(t, 3) for t in times[c]] for c in CONTENDERS},
           "rounds": len(times[NCCL])}
    # an exposed time is a difference, which noise can make negative
    if min(times[NCCL] + times[AGAIN]) <= 0:
        asked = bar is not None or most_us is not None
        return {**row, "bar": bar, "most us": most_us, "verdict": "NO RATIO" if asked else "-"}
    ratios = [b / a for a, b in zip(times[NCCL], times[OURS])]
    same = [b / a for a, b in zip(times[NCCL], times[AGAIN])]
    spread = statistics.median(abs(r - 1) for r in same)
    if most_us is None:
        found = verdict(statistics.median(ratios), bar, spread)
    else:
        found = verdict(statistics.median(times[OURS]) / most_us, 1, spread)
    return {**row, "ratio": three(ratios), "A/A": three(same), "spread": round(spread, 4),
            "bar": bar if bar is None else round(bar, 4), "most us": most_us, "verdict": found}


def table(rows, names):
    """Return lines for people. ``names``: the keys of a row that say what was measured."""
    width = {n: max(len(n), *(len(str(r[n])) for r in rows)) for n in names}
    head = " ".join(f"{n:<{width[n]}}" for n in names)
    lines = [f"{head}   NCCL us  symtuner us  ratio (least-most)     A/A (least-most)"
             "       spread  bar"]
    for r in rows:
        us = [statistics.median(r[c]) for c in (NCCL, OURS)]
        line = " ".join(f"{r[n]!s:<{width[n]}}" for n in names) + f" {us[0]:9.2f} {us[1]:12.2f}"
        if "ratio" in r:
            for key in ("ratio", "A/A"):
                line += "  {:.3f} ({:.3f}-{:.3f})".format(*r[key])
            line += f" {r['spread']:7.3f}"
        else:
            line += " " * 54
        bar = (f"{r['bar']:.3f}" if r["bar"] is not None
               else f"{r['most us']:g} us" if r["most us"] else "")
        lines.append(f"{line}  {bar} {r['verdict']}".rstrip(" -"))
    return "\n".join(lines)


def failed(rows):
    return [r for r in rows if r["verdict"] in ("FAILS", "NO RATIO")]


def output(*words):
    """Return the lines that a command prints, or an empty list if it cannot run."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True,
                              cwd=ROOT)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.strip().splitlines()


def origin(symtuner, **more):
    """Return what a result needs to be understood later: command, box, date, versions, variables.
    ``symtuner``: the command whose version counts, or None."""
    ours = ("NCCL_", "SYMTUNER_", "TORCH_", "CUDA_", "LD_PRELOAD", "ONE_GPU_")
    return {
        "command": shlex.join([os.path.basename(sys.executable), *sys.argv]),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "box": {"host": platform.node(), "cpus": os.cpu_count(),
                "GPUs": output("nvidia-smi", "--query-gpu=name,driver_version",
                               "--format=csv,noheader")},
        "versions": {"python": platform.python_version(),
                     "tree": "".join(output("git", "describe", "--always", "--dirty",
                                            "--abbrev=12")),
                     "symtuner": "".join(output(symtuner, "--version")[:1]) if symtuner else None},
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(ours)},
        **more,
    }


def write(path, result):
    """Write ``result`` as JSON, with one line for each row. A reader never sees half of a file."""
    rest = {k: v for k, v in result.items() if k != "rows"}
    head = json.dumps({**rest, "rows": []}, indent=1).removesuffix("[]\n}")
    with open(f"{path}.part", "w", encoding="utf-8") as f:
        f.write(head + "[\n  " + ",\n  ".join(map(json.dumps, result["rows"])) + "\n ]\n}\n")
    os.replace(f"{path}.part", path)

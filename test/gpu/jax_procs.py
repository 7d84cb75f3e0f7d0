#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symtuner.all_reduce with one process per GPU (jax.distributed), also when one dies or leaves.

    jax_procs.py --ranks 2                  each case once
    jax_procs.py --ranks 2 --times 50       kill, exit and raise 50 times, 10 groups at a time on
                                            each pair of the GPUs that CUDA_VISIBLE_DEVICES names
    jax_procs.py --ranks 4 --case values,apart --comm own,xla --side 4      over both communicators
    jax_procs.py --ranks 2 --recorded       XLA records the calls into CUDA graphs and replays them

Cases: values (right sums, orderly end), kill, raise, exit (rank 1 goes while the others call), two
(rank 1 leaves, and then rank 2 is killed; 3 ranks or more), apart (all leave, seconds apart).
jax_rank.py says more. After kill, raise, exit and two, every other rank must end within 30 s with
an exit status other than 0, and must name a rank that went; one of them must name the first that
went. After apart, all must end with status 0 within 30 s after the last has left. No process and no
memory on the GPUs may be left. Groups that share GPUs have processes, a communicator and a
coordinator of their own.

Exit status 0: all right. 1: something was wrong, or --limit seconds were over before the end.
"""

import argparse
import dataclasses
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BOUND_S = 30  # seconds within which the others must end after the rank has gone
START_S = 150  # seconds from a group's start until the rank must have gone; many start side by side
GOES = {  # by case: which ranks go, as a function of the number of ranks; the longest case first
    "two": lambda ranks: (1, 2),
    "kill": lambda ranks: (1,),
    "exit": lambda ranks: (1,),
    "raise": lambda ranks: (1,),
    "apart": range,
    "values": lambda ranks: (),
}
ORDERLY = ("apart", "values")
MANY = ("kill", "exit", "raise")  # the cases of --times, unless --case names others
COMMS = {"own": "own-nccl", "xla": "xla-nccl", "auto": r"\w+-nccl"}  # what jax_rank.py must print
HERE = os.path.dirname(os.path.abspath(__file__))
SAID = re.compile(r"rank (\d+)(?: of \d+)? (?:is gone|has closed)")
# how many MiB more of a GPU's memory may be in use after the test than before it
LEFT_MIB = 256


# ---- ports ---------------------------------------------------------------------------------------
def ports():
    """Yield ports for coordinators, each only once. The ports are below those that the operating
    system assigns, so that no other socket takes a port before its coordinator does."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
            first = int(f.read().split()[0])
    except OSError:
        first = 32768
    low = 10000
    count = max(first - low, 1000)
    for i in range(count):
        port = low + (os.getpid() * 7919 + i) % count
        with socket.socket() as s:
            try:
                s.bind(("", port))
            except OSError:
                continue
        yield port
    raise SystemExit("jax_procs.py: no free port is left")


# ---- one group -----------------------------------------------------------------------------------
@dataclasses.dataclass
class Group:
    case: str
    comm: str
    number: int
    gpus: tuple
    folder: str
    children: list = dataclasses.field(default_factory=list)
    started: float = 0
    went: float = 0  # time when the rank went; of several ranks, the last one
    first: int = -1  # the rank that went first
    ended: float = 0
    late: bool = False
    why: str = ""  # what is wrong with the group; "": nothing is wrong

    def start(self, args, port):
        self.started = time.time()
        for rank, gpu in enumerate(self.gpus):
            words = [sys.executable, args.child, "--case", self.case, "--ranks", len(self.gpus)]
            words += ["--rank", rank, "--port", port, "--seed", self.number, "--calls", args.calls]
            words += ["--recorded"] if args.recorded else []
            share = str(0.2 / args.side)
            env = dict(
                os.environ,
                CUDA_VISIBLE_DEVICES=gpu,
                RANK=str(rank),  # test/gpu/one/hosts.c reads it
                XLA_PYTHON_CLIENT_MEM_FRACTION=share,
                SYMTUNER_JAX_COMM=self.comm,
                # without this option XLA records only loops of five kernels or more, and the loop
                # of jax_rank.py has two
                XLA_FLAGS=f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_graph_min_graph_size="
                + ("1" if args.recorded else "5"),
            )
            with open(self.path(rank), "w") as out:
                self.children.append(
                    subprocess.Popen(
                        [str(w) for w in words],
                        env=env,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,  # so that left() finds what it leaves behind
                    )
                )

    def goers(self):
        return GOES[self.case](len(self.gpus))

    def path(self, rank):
        return os.path.join(self.folder, f"{self.case}.{self.comm}.{self.number}.{rank}")

    def said(self, rank):
        with open(self.path(rank), errors="replace") as f:
            return f.read()

    def look(self):
        """Return whether all processes of the group have ended. Kill them if their time is over."""
        if not self.went and self.goers():
            goes = {
                r: re.search(rf"^rank {r} goes ([\d.]+)$", self.said(r), re.M)
                for r in self.goers()
            }
            if all(goes.values()):
                times = {r: float(g.group(1)) for r, g in goes.items()}
                self.went, self.first = max(times.values()), min(times, key=times.get)
        if all(c.poll() is not None for c in self.children):
            self.ended = time.time()
            return True
        if time.time() > (self.went + BOUND_S if self.went else self.started + START_S):
            self.late = True
            self.kill()
        return False

    def kill(self):
        for c in self.children:
            if c.poll() is None:
                os.killpg(c.pid, signal.SIGKILL)

    def left(self):
        """Return the processes that the group's processes have started and that still run."""
        sessions, found = {c.pid for c in self.children}, []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as f:
                    # the words are state, parent, group, session
                    words = f.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(words[3]) in sessions and words[0] != "Z":
                found.append(int(pid))
        return found

    def judge(self):
        ranks, goers = range(len(self.gpus)), self.goers()
        codes = [c.returncode for c in self.children]
        others = [r for r in ranks if r not in goers]
        left = self.left()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        named = [{int(n) for n in SAID.findall(self.said(r))} - {r} for r in others]
        told = re.compile(rf"^rank \d+: .* comm={COMMS[self.comm]} ", re.M)
        faults = [
            (self.late, f"not ended {BOUND_S} s after the last rank went: killed")
            if self.went
            else (self.late, f"not ready after {START_S} s: killed"),
            (left, f"processes left: {left}"),
            (goers and not self.went, f"not all of the ranks {[*goers]} went"),
            (
                not all(told.search(self.said(r)) for r in ranks),
                f"a rank does not use the communicator {self.comm}",
            ),
        ]
        if self.case in ORDERLY:
            loud = [r for r in ranks if re.search("^symtuner: |Traceback", self.said(r), re.M)]
            faults += [(any(codes), "an exit status is not 0"), (loud, f"ranks {loud} complain")]
        else:
            faults += [
                (any(codes[r] == 0 for r in others), "a rank that lost another ended with 0"),
                (not all(named), "a rank does not say who is gone"),
                (
                    self.went and self.first not in set().union(*named),
                    f"none says that rank {self.first} is gone, which went first",
                ),
            ]
        self.why = "; ".join(text for bad, text in faults if bad)
        return not self.why

    def took(self):
        return self.ended - (self.went or self.started)

    def tell(self):
        took = f", {self.took():.1f} s" if self.ended else ""
        print(f"    exit {[c.returncode for c in self.children]}{took}")
        for r in range(len(self.gpus)):
            lines = self.said(r).splitlines()
            if not self.why:
                lines = [x for x in lines if "symtuner" in x or x.startswith("rank")][-3:]
            for line in lines[-12:]:
                print(f"    {r}: {line[:240]}")


# ---- all groups ----------------------------------------------------------------------------------
def ask_gpus(gpus, what):
    """Return nvidia-smi's numbers for these GPUs, or None if nvidia-smi fails."""
    words = ["nvidia-smi", "-i", ",".join(gpus), what, "--format=csv,noheader,nounits"]
    try:
        p = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return [int(line) for line in p.stdout.split()] if p.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def gpu_memory(gpus):
    """Return the MiB in use on each GPU."""
    return ask_gpus(gpus, "--query-gpu=memory.used")


def memory_came_back(before, gpus):
    """Return whether no GPU has more memory in use than before, give or take LEFT_MIB. The driver
    takes a moment to free memory, so ask several times."""
    if before is None:
        print("  GPU memory: not looked at: nvidia-smi does not say")
        return True
    for _ in range(10):
        after = gpu_memory(gpus) or before
        if all(a <= b + LEFT_MIB for a, b in zip(after, before)):
            break
        time.sleep(1)
    else:
        line = f"GPU memory in use: {before} MiB before, {after} after"
        others = ask_gpus(gpus, "--query-compute-apps=pid")
        if others:  # all of our own processes have ended
            print(f"  {line}: not judged: in use by processes {sorted(set(others))}")
            return True
        print(f"  FAILED {line}")
        return False
    print(f"  ok     GPU memory in use: {before} MiB before, {after} after")
    return True


def run_all(todo, teams, args, folder):
    """Run all groups, some of them side by side. Returns the groups that ended before the time
    limit and those that did not."""
    free = [team for _ in range(args.side) for team in teams]
    running, done, port = [], [], ports()
    deadline = time.time() + args.limit
    try:
        while (todo or running) and time.time() < deadline:
            while todo and free:
                case, comm, number = todo.pop(0)
                group = Group(case, comm, number, free.pop(0), folder)
                running.append(group)
                group.start(args, next(port))
            for group in [g for g in running if g.look()]:
                running.remove(group)
                free.append(group.gpus)
                group.judge()
                done.append(group)
            time.sleep(0.1)
    finally:
        for group in running:
            group.kill()
        for group in running:
            for c in group.children:
                c.wait()
    return done, running


def report(case, comm, done, args):
    """Print one line for the case, and details of the wrong groups and of the first right one."""
    groups = [g for g in done if (g.case, g.comm) == (case, comm)]
    right = [g for g in groups if not g.why]
    line = f"{case}, {args.ranks} processes, communicator {comm}"
    line += ", recorded: " if args.recorded else ": "
    line += f"{len(right)} of {args.times} right"
    if right:
        times = [g.took() for g in right]
        since = {
            "values": "in all",
            "apart": "after the last rank went",
            "two": "after the last rank went",
        }
        line += f", slowest {max(times):.1f} s (median {statistics.median(times):.1f}) "
        line += since.get(case, "after rank 1 went")
        line += "" if case == "values" else f", bound {BOUND_S} s"
    if len(groups) < args.times:
        line += f"; {args.times - len(groups)} not run within {args.limit} s"
    fine = len(right) == args.times
    print(f"  {'ok    ' if fine else 'FAILED'} {line}", flush=True)
    for g in [g for g in groups if g.why][:5]:
        print(f"    wrong, group {g.number}: {g.why}")
        g.tell()
    if right:
        right[0].tell()
    return fine


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--case", help="some of them, with commas")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--comm", help="own, xla, auto, with commas (SYMTUNER_JAX_COMM, else own)")
    p.add_argument("--times", type=int, default=1, help="how often each case")
    p.add_argument("--side", type=int, help="groups at a time on the same GPUs")
    p.add_argument("--calls", type=int, help="calls in one program (300; 20 side by side)")
    p.add_argument("--recorded", action="store_true", help="XLA records the calls")
    p.add_argument("--limit", type=int, default=280, help="seconds for all of it")
    p.add_argument("--child", default=os.path.join(HERE, "jax_rank.py"), help=argparse.SUPPRESS)
    args = p.parse_args()
    known = [c for c in GOES if max(GOES[c](args.ranks), default=0) < args.ranks]
    cases = args.case.split(",") if args.case else known if args.times == 1 else MANY
    comms = (args.comm or os.environ.get("SYMTUNER_JAX_COMM", "own")).split(",")
    args.side = min(10, args.times) if args.side is None else args.side
    for case in cases:
        if case not in known:
            p.error(f"--case: {case!r} is none of {','.join(known)}, which {args.ranks} ranks have")
    for comm in comms:
        if comm not in COMMS:
            p.error(f"--comm: {comm!r} is unknown; write some of {','.join(COMMS)}")
    for name in ("times", "side", "limit"):
        if getattr(args, name) < 1:
            p.error(f"--{name}: write 1 or more")
    if args.ranks < 2:
        p.error("--ranks: write 2 or more")
    # With --side above 1, groups take turns on a GPU, and each call waits for a turn: make fewer.
    args.calls = args.calls or (300 if args.side == 1 else 20)
    seen = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(args.ranks)))
    gpus = seen.split(",")
    teams = [
        tuple(gpus[i : i + args.ranks]) for i in range(0, len(gpus) - args.ranks + 1, args.ranks)
    ]
    if not teams:
        p.error(f"--ranks {args.ranks}: CUDA_VISIBLE_DEVICES has {len(gpus)} GPUs")
    used = [gpu for team in teams for gpu in team]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # run_all() then ends the children
    before, start = gpu_memory(used), time.time()
    what = [(case, comm) for case in cases for comm in comms]
    todo = [(*one, number) for number in range(args.times) for one in what]
    with tempfile.TemporaryDirectory() as folder:
        done, cut = run_all(todo, teams, args, folder)
        fine = [report(*one, done, args) for one in what]
        for group in cut[:1]:
            group.why = f"{group.case} {group.number} was cut off by the limit, as {len(cut)} were"
            print(f"    {group.why}")
            group.tell()
    fine.append(memory_came_back(before, used))
    print(
        f"  {len(done)} groups in {time.time() - start:.0f} s, up to "
        f"{args.side * len(teams)} at a time on GPUs {','.join(used)}"
    )
    return not all(fine)


if __name__ == "__main__":
    sys.exit(main())

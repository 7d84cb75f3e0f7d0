#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time our kernels, NCCL's of several releases and other projects' kernels, in one run and in
turns.

    python3 bench/scoreboard/prepare.py          # once, where pip works: fetch the other projects
    python3 bench/scoreboard/scoreboard.py --ranks 2 --library build/libsymtuner_ar.so \\
        --out rows.csv

The README.md in this folder says what is timed and how. Exit status 0: all was measured. 1: a
contender gave a wrong result, or our own kernels failed. 2: an option is wrong. 77: there is
nothing to compare here; the program prints why.
"""
import argparse
import os
import pathlib
import sys
import time

import crew
import plan
import table


def arguments(argv):
    parser = argparse.ArgumentParser(usage="scoreboard.py [options]")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--colls", default="allreduce",
                        help="with commas: " + ", ".join(plan.COLLS))
    parser.add_argument("--types", default="bf16,f32")
    parser.add_argument("--what", default="alone", help="alone, beside or both, with a comma")
    parser.add_argument("--min", type=int, default=1 << 10)
    parser.add_argument("--max", type=int, default=plan.GREATEST)
    parser.add_argument("--step", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="contenders by name, with commas and *; ours always runs")
    parser.add_argument("--limit", type=float, default=540,
                        help="begin no size after so many seconds")
    parser.add_argument("--gemms", type=int, default=24, help="GEMMs of 8192^3 beside the calls")
    parser.add_argument("--library", default="build/libsymtuner_ar.so")
    parser.add_argument("--peers", default="build/peers", help="the folder that prepare.py made")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                        help="set it for ours only")
    parser.add_argument("--out", default="scoreboard.csv",
                        help="file for the rows; the tables go to OUT.md")
    parser.add_argument("--from", dest="rows",
                        help="measure nothing; print the tables of this file")
    parser.add_argument("--list", action="store_true",
                        help="list the contenders and what is missing")
    parser.add_argument("--worker", default=str(pathlib.Path(__file__).with_name("worker.py")),
                        help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    for word, known in ((args.colls, plan.COLLS), (args.types, plan.WIDTH),
                        (args.what, ("alone", "beside"))):
        for each in word.split(","):
            if each not in known:
                parser.error(f"{each!r} is none of {', '.join(known)}")
    if not 2 <= args.ranks <= 16 or args.rounds < 1:
        parser.error("--ranks wants 2 to 16, --rounds at least 1")
    return args


def start(args, contenders):
    """Start the crews of these contenders. Print which of them do not run here, and return the
    others by name."""
    missing, running, port = dict(plan.NEVER), {}, 20000 + os.getpid() % 20000
    for name in dict.fromkeys(c.crew for c in contenders):
        env, why = plan.needs(name, args.peers, args.library)
        if why is None:
            mine = dict(word.split("=", 1) for word in args.env) if name == "ours" else {}
            port += 1
            running[name] = crew.Crew(name, args.worker, args.ranks, {**env, **mine}, args.max,
                                      port)
        else:
            missing[name] = why
    for name, one in running.items():
        about = one.ready()
        if about is None:
            missing[name] = one.lost
        else:
            print(f"{name}: {about}")
    for name, why in missing.items():
        print(f"not here: {name}: {why}")
    return {name: one for name, one in running.items() if one.lost is None}


class Run:
    """One run: its crews, its rows, and what went wrong."""

    def __init__(self, args, contenders, crews):
        self.args, self.contenders, self.crews = args, contenders, crews
        self.rows, self.wrong, self.refused, self.began = [], [], set(), time.monotonic()

    def ask(self, contender, **question):
        """Ask the crew of a contender. Returns the answers, or None if the crew is lost. When a
        crew is lost, prints the reason."""
        one = self.crews.get(contender.crew)
        answers = one.ask(**question) if one else None
        if one and one.lost is not None:
            print(f"lost: {contender.crew}, at {contender.name}: {one.lost}", flush=True)
            del self.crews[contender.crew]
            if contender.crew == "ours":
                self.wrong.append(f"our own processes: {one.lost}")
        return answers

    def prepare(self, coll, kind, size):
        """Return the contenders that can run this call, each with its slot."""
        ready = []
        for slot, contender in enumerate(self.contenders):
            if not contender.takes(coll, kind, size):
                continue
            answers = self.ask(contender, do="prepare", slot=slot, how=contender.how, coll=coll,
                               type=kind, bytes=size, calls=plan.calls(size))
            refusals = [a["no"] for a in answers or [] if "no" in a]
            if answers and not refusals:
                ready.append((slot, contender))
            for why in refusals[:1]:
                if why.startswith("WRONG"):
                    self.wrong.append(f"{contender.name}, {coll}, {kind}, {size} bytes: {why}")
                    print(f"wrong: {self.wrong[-1]}", flush=True)
                elif (contender.name, why) not in self.refused:
                    self.refused.add((contender.name, why))
                    print(f"no {contender.name} from {size} bytes of {kind} on: {why}", flush=True)
        return ready

    def turns(self, what, coll, kind, size, ready, question):
        for rnd in range(self.args.rounds):
            for i in plan.turns(len(ready), rnd):
                slot, contender = ready[i]
                answers = self.ask(contender, slot=slot, **question)
                if answers is None or any("us" not in a for a in answers):
                    continue
                each = [a["us"] for a in answers]
                # alone: the slowest rank of each sample, then the median of the samples
                if what == "alone":
                    samples = sorted(map(max, zip(*each)))
                    us = samples[len(samples) // 2]
                else:
                    us = max(each)
                self.rows.append((self.args.ranks, what, coll, kind, size, contender.name, rnd, us))

    def measure(self, coll, kind, size):
        ready = self.prepare(coll, kind, size)
        ours = [(slot, c) for slot, c in ready if c.name == plan.OURS["alone"]]
        if not ours:
            return
        first = self.ask(ours[0][1], do="alone", slot=ours[0][0], replays=1, samples=1)
        us = max(a["us"][0] for a in first) if first else 1
        calls = plan.calls(size)
        for what in self.args.what.split(","):
            if what == "alone":
                self.turns(what, coll, kind, size, ready,
                           {"do": "alone", "replays": plan.replays(us * calls), "samples": 3})
            else:    # the calls take a third of the GEMMs' time; a GEMM takes about 1.4 ms
                many = max(1, int(self.args.gemms * 1400 / 3 / (us * calls)))
                self.turns(what, coll, kind, size, ready,
                           {"do": "beside", "replays": many, "gemms": self.args.gemms})
        for one in list(self.crews.values()):
            one.ask(do="drop")

    def all(self):
        for coll in self.args.colls.split(","):
            for kind in self.args.types.split(","):
                for size in plan.sizes(self.args.min, self.args.max, self.args.step):
                    if time.monotonic() - self.began > self.args.limit:
                        print(f"not measured: {coll}, {kind}, {size} bytes and what follows: "
                              "--limit", flush=True)
                        return
                    if "ours" in self.crews:
                        self.measure(coll, kind, size)


def report(rows, out):
    words, lost = table.markdown(rows)
    if out:
        pathlib.Path(out + ".md").write_text(words)
    print(words)
    print(f"ours is behind at {lost} sizes")


def main(argv):
    args = arguments(argv)
    if args.rows:
        try:
            rows = table.read(open(args.rows, encoding="utf-8"))
        except (OSError, ValueError) as error:
            print(f"scoreboard.py: {args.rows}: {error}", file=sys.stderr)
            return 2
        report(rows, None)
        return 0
    contenders = plan.chosen(args.only)
    if args.list:
        for contender in contenders:
            why = plan.needs(contender.crew, args.peers, args.library)[1]
            print(f"{contender.name:<28} {contender.group:<14} {why or 'here'}")
        for name, why in plan.NEVER.items():
            print(f"not here: {name}: {why}")
        return 0
    crews = start(args, contenders)
    run = Run(args, contenders, crews)
    rivals = {c.crew for c in contenders if c.group != "symtuner"} & set(crews)
    if "ours" not in crews or not rivals:
        print("scoreboard.py: nothing to compare here: "
              + ("our own library does not run" if "ours" not in crews else "no rival runs"))
        status = 77
    else:
        run.all()
        status = 1 if run.wrong else 0
        pathlib.Path(args.out).write_text(table.text(run.rows))
        report(run.rows, args.out)
        for line in run.wrong:
            print(f"wrong: {line}")
    for one in crews.values():
        one.end("done")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Time all-reduces inside jit. Each mode has a worker process, and the workers take turns.

A mode is a set of environment variables, so it needs its own process. All workers live until the
end. In a round each worker times each size. For each size the workers take turns in a new random
order, since a worker is slower after some modes than after others. For one timing, a jitted
``fori_loop`` of 30 all-reduces (bf16, shard_map, one process for all GPUs) is called CHAIN times in
a row. Each call works on the result of the call before, as in a training loop. Then we wait once,
and divide the time by 30 * CHAIN. Waiting for each call (--chain 1) would add about 1 ms to each
call of 2 MiB or more, in all modes (4 H200s, jax 0.11.2). That millisecond does not belong to the
all-reduces.

There are two results: ``best`` takes the best timing of each round, and is the median of these.
``all`` is the median of all timings. We look at the best timing because XLA launches every
iteration from the host, and jitter of the host only adds time. CHAIN and the number of timings
depend only on the size. So for every mode the best timing is chosen from the same number of
timings.
"""

from __future__ import annotations

import argparse
import collections
import gc
import os
import random
import statistics
import subprocess
import sys
import time

LOOP = 30
KIB, MIB = 1 << 10, 1 << 20


def plan(size, chain=0, timings=0):
    """Return CHAIN and the number of timings for a size. On 4 H200s one timing takes about 30 ms,
    and all timings of a size together about 80 ms."""
    call = LOOP * (15e-6 + size / 200e9)
    chain = chain or max(4, min(16, round(0.03 / call)))
    return chain, timings or max(3, min(10, round(0.08 / (chain * call))))


# ---- worker --------------------------------------------------------------------------------------
def time_chain(run, x, chain):
    """Call ``run`` ``chain`` times in a row. Return the microseconds per all-reduce."""
    start = time.perf_counter()
    for _ in range(chain):
        x = run(x)
    x.block_until_ready()
    return (time.perf_counter() - start) / (LOOP * chain) * 1e6


def serve(reduce, ranks, sizes, args):
    """Run in a worker: check sums, compile, print "ready". Then each line of stdin is a size; print
    for it the microseconds of each timing."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    if len(jax.devices()) < ranks:
        print("wrong number of devices:", len(jax.devices()), flush=True)
        return 1
    mesh = Mesh(np.array(jax.devices()[:ranks]), ("x",))
    factor = jnp.bfloat16(1 / ranks)  # keeps the values in range, and costs every mode the same
    rng, run, data = np.random.default_rng(), {}, {}

    def smap(f):
        kw = dict(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        try:
            return jax.jit(jax.shard_map(f, check_vma=False, **kw))
        except TypeError:
            return jax.jit(jax.shard_map(f, **kw))

    def loop(v):
        return jax.lax.fori_loop(0, LOOP, lambda i, u: reduce(u) * factor, v)

    for size in sizes:
        host = rng.integers(0, 8, (ranks, size // 2)).astype(np.float32)
        flat = host.astype(jnp.bfloat16).reshape(-1)
        data[size] = jax.device_put(flat, NamedSharding(mesh, P("x")))
        got = np.asarray(smap(reduce)(data[size]).astype(jnp.float32)).reshape(ranks, -1)
        if not (got == host.sum(0)).all():
            print("wrong sum", size, flush=True)
            return 1
        run[size] = smap(loop).lower(data[size]).compile()
        run[size](data[size]).block_until_ready()
    gc.disable()
    print("ready", jax.__version__, jax.devices()[0].device_kind, flush=True)
    for line in sys.stdin:
        size = int(line)
        chain, timings = plan(size, args.chain, args.timings)
        time_chain(run[size], data[size], chain)  # a warm-up, whose time does not count
        times = [time_chain(run[size], data[size], chain) for _ in range(timings)]
        print(" ".join(f"{t:.2f}" for t in times), flush=True)
    return 0


# ---- driver --------------------------------------------------------------------------------------
class Worker:
    """The process of one mode: ``script --worker MODE --ranks N --sizes ...``."""

    def __init__(self, script, mode, env, ranks, args):
        self.mode = mode
        self.log = f"{args.out}.{ranks}.{mode.replace('=', '')}.log"
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(ranks)))
        env = dict(
            os.environ,
            CUDA_VISIBLE_DEVICES=",".join(gpus.split(",")[:ranks]),
            XLA_PYTHON_CLIENT_MEM_FRACTION=args.memory,
            **env,
        )
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        env["PYTHONPATH"] = os.path.join(root, "jax") + ":" + env.get("PYTHONPATH", "")
        command = [sys.executable, script, "--worker", mode, "--ranks", str(ranks)]
        command += ["--sizes", args.sizes, "--chain", str(args.chain)]
        command += ["--timings", str(args.timings)]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, text=None):
        if text:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer and not answer.startswith("wrong"):
            return answer
        with open(self.log, errors="replace") as f:
            tail = "".join(f.readlines()[-8:])
        sys.exit(f"worker {self.mode}: {answer or 'died'}; {self.log} ends with\n{tail}")

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


class Times:
    """All timings. From them come the results "best" and "all", and the rows of the CSV."""

    def __init__(self):
        self.rounds = collections.defaultdict(list)  # (ranks, size, mode) -> lists of us
        self.rows = []

    def add(self, turn, mode, ranks, size, answer):
        self.rounds[ranks, size, mode].append([float(t) for t in answer.split()])
        self.rows.append(f"{turn},{mode},{ranks},{size},{answer}")

    def best(self, *key):
        return statistics.median(map(min, self.rounds[key]))

    def all(self, *key):
        return statistics.median(t for r in self.rounds[key] for t in r)

    def spread(self, *key):
        """Return half the range of the rounds' best timings, in percent of their median."""
        bests = [min(r) for r in self.rounds[key]]
        return (max(bests) - min(bests)) / 2 / statistics.median(bests) * 100

    def write(self, path):
        with open(path, "w") as f:
            f.write("round,mode,ranks,bytes_per_rank,us_of_each_call\n")
            f.write("\n".join(self.rows) + "\n")


def measure(workers, ranks, sizes, rounds, seconds, times):
    """Ask all workers ``rounds`` times, or until ``seconds`` have passed, but at least 3 times.
    Return the number of rounds."""
    modes, begin, longest = list(workers), time.monotonic(), 0.0
    order = random.Random(1)
    for turn in range(rounds):
        start = time.monotonic()
        if turn >= 3 and start + longest - begin > seconds:
            return turn
        for size in sizes:
            for m in order.sample(modes, len(modes)):
                times.add(turn, m, ranks, size, workers[m].ask(str(size)))
        longest = max(longest, time.monotonic() - start)
    return rounds


def compare(script, env, sizes, seconds, times, args):
    """For each number of ranks: start a worker for each mode, with the variables that env(mode)
    returns. Then measure, and yield the number of ranks and the number of rounds."""
    for ranks in map(int, args.ranks.split(",")):
        workers = {m: Worker(script, m, env(m), ranks, args) for m in args.modes.split(",")}
        for m in workers:
            print(f"n={ranks} {m}:", workers[m].ask(), flush=True)
        yield ranks, measure(workers, ranks, sizes, args.rounds, seconds, times)
        for w in workers.values():
            w.end()


def options(doc, **defaults):
    """Return a parser of the options that all comparisons have."""
    p = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--worker", metavar="MODE", help="run as the worker of this mode")
    p.add_argument("--modes", metavar="MODE,...")
    p.add_argument("--ranks", default="2", metavar="N,...")
    p.add_argument("--sizes", metavar="SIZE,...", help="sizes of the buffer of a rank")
    p.add_argument("--rounds", type=int)
    p.add_argument("--out", metavar="FILE.csv")
    p.set_defaults(**defaults)
    p.add_argument("--chain", type=int, default=0, help="calls in a row; 0: 4 to 16, by size")
    p.add_argument("--timings", type=int, default=0, help="in each round; 0: 3 to 10, by size")
    p.add_argument("--memory", default="0.1", help="share of the GPU's memory for each worker")
    return p

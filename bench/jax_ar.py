#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symtuner.all_reduce against lax.psum in each of its configurations, inside jit, interleaved.

As in jax_psum.py: one worker process per mode stays up, a repetition asks each worker in turn for
each size, a measurement is the best run of a jitted fori_loop of 30 (bf16, shard_map, one process),
divided by 30; medians over the repetitions. XLA launches every iteration from the host, whose
jitter only adds and is several times the kernel below 1 MiB: so a measurement takes --calls runs or
60 ms, whatever is more, and 200 runs at most. Sums are checked exactly before timing.

Modes  ar      symtuner.all_reduce, no flags
       staged  the same with SYMTUNER_JAX_ZERO_COPY=0
       xla     lax.psum, no flags: XLA's own kernels to 4 MiB, NCCL without registration above
       nccl    lax.psum with XLA's own kernels off: NCCL, not registered
       sym     NCCL with XLA's symmetric buffers, XLA's own kernels off
       plugin  the same with NCCL_TUNER_PLUGIN=libsymtuner.so
"""

import argparse
import collections
import math
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jax_psum import LIB, LOOP, SYM  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
OWN_OFF = "--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false"
ENV = {
    "ar": {},
    "staged": {"SYMTUNER_JAX_ZERO_COPY": "0"},
    "xla": {},
    "nccl": {"XLA_FLAGS": OWN_OFF},
    "sym": {"XLA_FLAGS": SYM + " " + OWN_OFF},
    "plugin": {"XLA_FLAGS": SYM + " " + OWN_OFF, "NCCL_TUNER_PLUGIN": LIB},
}
OURS = ("ar", "staged")
KIB = 1024


def worker(mode, ranks, sizes, calls):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    if mode in OURS:
        import warnings

        import symtuner

        # no silent fallback to what it is compared with
        warnings.simplefilter("error", UserWarning)
        reduce = lambda v: symtuner.all_reduce(v, "x")
    else:
        reduce = lambda v: jax.lax.psum(v, "x")
    mesh = Mesh(np.array(jax.devices()[:ranks]), ("x",))
    smap = lambda f: jax.jit(
        jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    )
    factor = jnp.bfloat16(1 / ranks)  # keeps the values in range; every mode pays for it alike
    loop = lambda v: jax.lax.fori_loop(0, LOOP, lambda i, u: reduce(u) * factor, v)
    rng, run, data = np.random.default_rng(), {}, {}
    for size in sizes:
        host = rng.integers(0, 8, (ranks, size // 2)).astype(np.float32)
        data[size] = jax.device_put(
            host.astype(jnp.bfloat16).reshape(-1), NamedSharding(mesh, P("x"))
        )
        got = np.asarray(smap(reduce)(data[size]).astype(jnp.float32)).reshape(ranks, -1)
        if not (got == host.sum(0)).all():
            print("wrong sum", size, flush=True)
            return 1
        run[size] = smap(loop).lower(data[size]).compile()
        run[size](data[size]).block_until_ready()
    print("ready", jax.__version__, jax.devices()[0].device_kind, flush=True)
    for line in sys.stdin:
        size, times = int(line), []
        while len(times) < calls or (sum(times) * LOOP < 60e3 and len(times) < 200):
            start = time.perf_counter()
            run[size](data[size]).block_until_ready()
            times.append((time.perf_counter() - start) / LOOP * 1e6)
        print(" ".join(f"{t:.2f}" for t in times), flush=True)
    return 0


def log_of(mode, ranks, args):
    return f"{args.out}.{ranks}.{mode}.log"


def start(mode, ranks, args):
    env = dict(
        os.environ,
        CUDA_VISIBLE_DEVICES=",".join(map(str, range(ranks))),
        XLA_PYTHON_CLIENT_MEM_FRACTION=args.memory,
        **ENV[mode],
    )
    env["PYTHONPATH"] = os.path.join(os.path.dirname(HERE), "jax") + ":" + env.get("PYTHONPATH", "")
    log = open(log_of(mode, ranks, args), "w")
    return subprocess.Popen(
        [
            sys.executable,
            __file__,
            "--worker",
            mode,
            "--ranks",
            str(ranks),
            "--sizes",
            args.sizes,
            "--calls",
            str(args.calls),
        ],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )


def ask(process, mode, log, text=None):
    if text:
        process.stdin.write(text + "\n")
        process.stdin.flush()
    answer = process.stdout.readline().strip()
    if answer and not answer.startswith("wrong"):
        return answer
    with open(log, errors="replace") as f:
        tail = "".join(f.readlines()[-8:])
    sys.exit(f"worker {mode}: {answer or 'died'}; {log} ends with\n{tail}")


def summary(us, modes, sizes, ranks):
    print(f"n={ranks}  us per call, median (+- half of the range)   best psum/ar")
    print(f"{'KiB':>7} " + " ".join(f"{m:>15}" for m in modes))
    small, worst = [], (math.inf, 0)
    for size in sizes:
        mid = {m: statistics.median(us[ranks, size, m]) for m in modes}
        half = {m: (max(us[ranks, size, m]) - min(us[ranks, size, m])) / 2 for m in modes}
        cells = [f"{mid[m]:8.1f} +-{half[m] / mid[m] * 100:3.0f}%" for m in modes]
        others = {m: t for m, t in mid.items() if m not in OURS}
        if "ar" in mid and others:
            best = min(others, key=others.get)
            ratio = others[best] / mid["ar"]
            cells.append(f"  {ratio:5.2f}x {best}")
            worst = min(worst, (ratio, size // KIB))
            if 64 * KIB <= size <= 32 * 1024 * KIB:
                small.append(ratio)
        print(f"{size // KIB:>7} " + " ".join(f"{c:>15}" for c in cells))
    if small:
        mean = math.exp(sum(map(math.log, small)) / len(small))
        print(
            f"n={ranks}: {mean:.2f}x the best psum, geometric mean of {len(small)} sizes from "
            f"64 KiB to 32 MiB; worst of all {worst[0]:.2f}x at {worst[1]} KiB"
        )


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--worker", choices=list(ENV))
    p.add_argument("--modes", default=",".join(ENV))
    p.add_argument("--ranks", default="2")
    p.add_argument(
        "--sizes", default="64,256,1024,4096,8192,32768,65536,131072,262144", help="KiB per rank"
    )
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--calls", type=int, default=5)
    p.add_argument("--memory", default="0.12", help="share of the GPU's memory for each worker")
    p.add_argument("--out", default="jax_ar.csv")
    args = p.parse_args()
    sizes = [int(float(s) * KIB) for s in args.sizes.split(",")]
    if args.worker:
        return worker(args.worker, int(args.ranks), sizes, args.calls)
    modes, us, rows = args.modes.split(","), collections.defaultdict(list), []
    for ranks in map(int, args.ranks.split(",")):
        workers = {m: start(m, ranks, args) for m in modes}
        print(
            f"n={ranks}",
            {m: ask(workers[m], m, log_of(m, ranks, args)) for m in modes}[modes[0]],
            flush=True,
        )
        for turn in range(args.rounds):
            for size in sizes:
                for m in modes[turn % len(modes) :] + modes[: turn % len(modes)]:
                    times = ask(workers[m], m, log_of(m, ranks, args), str(size))
                    us[ranks, size, m].append(min(map(float, times.split())))
                    rows.append(f"{turn},{m},{ranks},{size},{times}")
        for w in workers.values():
            w.stdin.close()
        for w in workers.values():
            w.wait(60)
        summary(us, modes, sizes, ranks)
    with open(args.out, "w") as f:
        f.write("round,mode,ranks,bytes_per_rank,us_of_each_call\n" + "\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

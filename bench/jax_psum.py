#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time stock JAX's psum with and without symtuner, in turns.

jax_workers.py says how calls are timed. For each size and mode this program takes the best timing
of each round, and prints the median of these. The file of --out has every timing. Sizes are MiB per
rank. Sums are checked exactly before timing. Results from before 2026-11-21, 07:36 UTC, were taken
with --chain 1.

Modes  default  XLA's own choice, no registration
       sym      XLA's symmetric buffers
       tuner    sym with NCCL_TUNER_PLUGIN, nothing else
       env      sym with NCCL_ENV_PLUGIN, nothing else
       ctas=N   sym with NCCL_SYM_CTAS=N
"""

import collections
import math
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jax_workers import MIB, Times, compare, options, serve  # noqa: E402

LIB = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "libsymtuner.so"
)
SYM = (
    "--xla_gpu_experimental_enable_nccl_symmetric_buffers=true "
    "--xla_gpu_enable_nccl_user_buffers=true"
)


def mode_env(mode):
    if mode == "default":
        return {}
    env = {"XLA_FLAGS": SYM}
    if mode == "tuner":
        env["NCCL_TUNER_PLUGIN"] = LIB
    elif mode == "env":
        env["NCCL_ENV_PLUGIN"] = LIB
    elif mode.startswith("ctas="):
        env["NCCL_SYM_CTAS"] = mode[5:]
    return env


def worker(ranks, sizes, args):
    import jax

    return serve(lambda v: jax.lax.psum(v, "x"), ranks, sizes, args)


def main():
    p = options(__doc__, modes="default,sym,tuner,env", sizes="1,8,32,128,256", rounds=5,
                out="jax_psum.csv")
    p.add_argument("--demo", action="store_true")
    args = p.parse_args()
    sizes = [int(float(s) * MIB) for s in args.sizes.split(",")]
    if args.demo:
        args.modes, args.rounds = "default,sym,tuner", 2
    args.sizes = ",".join(str(s / MIB) for s in sizes)
    if args.worker:
        return worker(int(args.ranks), sizes, args)
    modes, times = args.modes.split(","), Times()
    os.environ.pop("NCCL_SYM_CTAS", None)  # only the modes ctas=N set it
    for _ in compare(__file__, mode_env, sizes, math.inf, times, args):
        pass
    times.write(args.out)
    summary(times, modes)
    return 0


def summary(times, modes):
    print(f"{'ranks':>5} {'MiB':>6} " + " ".join(f"{m:>18}" for m in modes))
    gain = collections.defaultdict(list)
    for ranks, size in sorted({k[:2] for k in times.rounds}):
        cells = []
        for m in modes:
            best = times.best(ranks, size, m)
            cells.append(f"{best:9.1f} +-{times.spread(ranks, size, m):4.1f}%")
            if "sym" in modes and size >= 8 * MIB:
                gain[ranks, m].append(times.best(ranks, size, "sym") / best)
        print(f"{ranks:>5} {size / MIB:>6.0f} " + " ".join(f"{c:>18}" for c in cells))
    for (ranks, m), g in sorted(gain.items()):
        mean = math.exp(statistics.mean(map(math.log, g)))
        print(f"{ranks} ranks, {m}: {mean:.3f}x the speed of sym, geometric mean from 8 MiB up")


if __name__ == "__main__":
    sys.exit(main())

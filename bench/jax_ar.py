#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare symtuner.all_reduce and lax.psum, each in several configurations, inside jit, in turns.

jax_workers.py says how calls are timed and what "best" and "all" mean. Sums are checked exactly
before timing. Sizes are KiB per rank. Rounds end after --rounds (20), or earlier when --seconds
(36) have passed, but there are at least 3. With start-up, that takes about a minute for each number
of GPUs.

Modes  ar       symtuner.all_reduce, no flags
       rec      as ar, but recorded: --xla_gpu_graph_min_graph_size=2 makes one CUDA graph of the
                three kernels of an iteration. Without this flag XLA records only sequences of five
                or more kernels. With a value of 1 XLA would also make graphs of single kernels,
                which costs 3 us per iteration in programs in which all_reduce is not recorded
       staged   as ar, with SYMTUNER_JAX_ZERO_COPY=0
       xla      lax.psum, no flags: XLA's own kernels up to 4 MiB, and above that NCCL without
                registration
       xlarec   as xla, but recorded: the flag of rec, and one to record collectives, too
       nccl     lax.psum with XLA's own kernels off: NCCL without registration
       sym      lax.psum with XLA's own kernels off: NCCL with XLA's symmetric buffers
       plugin   as sym, with NCCL_ENV_PLUGIN=libsymtuner.so
       plugrec  as plugin, but recorded
"""

import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from jax_psum import LIB, SYM  # noqa: E402
from jax_workers import KIB, Times, compare, options, serve  # noqa: E402

OWN_OFF = "--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false"
RECORD = "--xla_gpu_graph_min_graph_size=2"
RECORD_PSUM = RECORD + " --xla_gpu_enable_command_buffer=+COLLECTIVES"
ENV = {
    "ar": {},
    "rec": {"XLA_FLAGS": RECORD},
    "staged": {"SYMTUNER_JAX_ZERO_COPY": "0"},
    "xla": {},
    "xlarec": {"XLA_FLAGS": RECORD_PSUM},
    "nccl": {"XLA_FLAGS": OWN_OFF},
    "sym": {"XLA_FLAGS": SYM + " " + OWN_OFF},
    "plugin": {"XLA_FLAGS": SYM + " " + OWN_OFF, "NCCL_ENV_PLUGIN": LIB},
    "plugrec": {"XLA_FLAGS": f"{SYM} {OWN_OFF} {RECORD_PSUM}", "NCCL_ENV_PLUGIN": LIB},
}
OURS = ("ar", "rec", "staged")


def worker(mode, ranks, sizes, args):
    if mode not in OURS:
        import jax

        return serve(lambda v: jax.lax.psum(v, "x"), ranks, sizes, args)
    import warnings

    import symtuner

    # all_reduce warns if it calls lax.psum instead of our kernels. Turn the warning into an error:
    # otherwise lax.psum would be compared with itself
    warnings.simplefilter("error", UserWarning)
    return serve(lambda v: symtuner.all_reduce(v, "x"), ranks, sizes, args)


def table(title, figure, spread, modes, sizes, ranks):
    """Return the lines of a table: us per call in each mode, and the time of the fastest psum
    divided by the time of each of our modes."""
    ours = [m for m in ("rec", "ar") if m in modes]
    psums = [m for m in modes if m not in OURS]
    head = [f"{m:>14}" for m in modes] + [f"{'psum/' + m:>9}" for m in ours if psums]
    out = [f"n={ranks}  {title}", f"{'KiB':>7} " + " ".join(head)]
    ratios = {m: {} for m in ours if psums}
    for size in sizes:
        us = {m: figure(ranks, size, m) for m in modes}
        cells = [f"{us[m]:8.1f}" + (f" +-{spread(ranks, size, m):2.0f}%" if spread else "")
                 for m in modes]
        cells = [f"{c:>14}" for c in cells]
        if ratios:
            best = min(psums, key=us.get)
            for m in ratios:
                ratios[m][size] = us[best] / us[m]
                cells.append(f"{ratios[m][size]:8.2f}x")
            cells.append(best)
        out.append(f"{size // KIB:>7} " + " ".join(cells))
    for m in ratios:
        small = [r for s, r in ratios[m].items() if 64 * KIB <= s <= 32 * 1024 * KIB]
        if small:
            mean = math.exp(sum(map(math.log, small)) / len(small))
            worst = min(ratios[m], key=ratios[m].get)
            out.append(
                f"n={ranks} {m}: {mean:.2f}x the best psum, geometric mean of {len(small)} sizes "
                f"from 64 KiB to 32 MiB; worst of all {ratios[m][worst]:.2f}x at {worst // KIB} KiB"
            )
    return out


def report(times, modes, sizes, ranks, rounds, args):
    best = "us per call: median over %d rounds of a round's best timing, half the range of these"
    tables = (
        table(best % rounds, times.best, times.spread, modes, sizes, ranks),
        table("us per call: median of all timings", times.all, None, modes, sizes, ranks),
    )
    text = "\n".join("\n".join(t) for t in tables)
    print(text, flush=True)
    with open(f"{args.out}.{ranks}.txt", "w") as f:
        f.write(text + "\n")


def main():
    sizes = ",".join(str(64 << i) for i in range(13))
    p = options(__doc__, modes=",".join(ENV), sizes=sizes, rounds=20, out="jax_ar.csv")
    p.add_argument("--seconds", type=float, default=36, help="for all rounds of a number of GPUs")
    args = p.parse_args()
    sizes = [int(float(s) * KIB) for s in args.sizes.split(",")]
    if args.worker:
        return worker(args.worker, int(args.ranks), sizes, args)
    modes, times = args.modes.split(","), Times()
    for ranks, rounds in compare(__file__, ENV.__getitem__, sizes, args.seconds, times, args):
        times.write(args.out)
        report(times, modes, sizes, ranks, rounds, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())

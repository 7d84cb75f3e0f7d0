#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stock JAX's psum costs with and without symtuner, interleaved.

One worker process per mode stays up; a repetition asks each worker in turn for each size. A
measurement is the best of --calls runs (5 at least, then until 0.2 s have passed) of a jitted fori_loop of 30 psums (bf16, shard_map, one
process, all GPUs of the mode), divided by 30: XLA launches every iteration from the host, whose
jitter only ever adds. Medians over the repetitions are reported, every run is in --out. Sums are
checked exactly before timing.

Modes: default (XLA's own choice, no registration), sym (XLA's symmetric buffers), tuner and env (sym
with NCCL_TUNER_PLUGIN or NCCL_ENV_PLUGIN set and nothing else), ctas=N (sym with NCCL_SYM_CTAS).
"""
import argparse
import collections
import math
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIB = os.path.join(os.path.dirname(HERE), "build", "libsymtuner.so")
SYM = ("--xla_gpu_experimental_enable_nccl_symmetric_buffers=true "
       "--xla_gpu_enable_nccl_user_buffers=true")
LOOP = 30
MIB = 1 << 20


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


def worker(ranks, sizes, calls):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    devices = jax.devices()[:ranks]
    mesh = Mesh(np.array(devices), ("x",))

    def loop(v):
        # the factor keeps the values in range; every mode pays for it alike
        return jax.lax.fori_loop(0, LOOP, lambda i, u: jax.lax.psum(u, "x") * jnp.bfloat16(1 / ranks), v)

    def once(v):
        return jax.lax.psum(v, "x")

    sharded = NamedSharding(mesh, P("x"))
    rng = np.random.default_rng()
    run, data = {}, {}
    try:
        smap = lambda f: jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"),
                                               check_vma=False))
    except TypeError:
        smap = lambda f: jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    for size in sizes:
        n = size // 2
        host = rng.integers(0, 8, (ranks, n)).astype(np.float32)
        data[size] = jax.device_put(host.astype(jnp.bfloat16).reshape(-1), sharded)
        got = np.asarray(smap(once)(data[size]).astype(jnp.float32)).reshape(ranks, n)
        want = host.sum(0)
        if not all((got[r] == want).all() for r in range(ranks)):
            print("wrong sum", size, flush=True)
            return 1
        run[size] = smap(loop).lower(data[size]).compile()
        run[size](data[size]).block_until_ready()
    print("ready", jax.__version__, devices[0].device_kind, flush=True)
    for line in sys.stdin:
        size = int(line)
        times = []
        begin = time.perf_counter()
        while len(times) < calls and (len(times) < 5 or time.perf_counter() - begin < 0.2):
            start = time.perf_counter()
            run[size](data[size]).block_until_ready()
            times.append((time.perf_counter() - start) / LOOP * 1e6)
        print(" ".join(f"{t:.2f}" for t in times), flush=True)
    return 0


def start(mode, ranks, args):
    env = dict(os.environ, CUDA_VISIBLE_DEVICES=",".join(map(str, range(ranks))),
               XLA_PYTHON_CLIENT_MEM_FRACTION=args.memory, **mode_env(mode))
    if mode != "default":
        env.pop("NCCL_SYM_CTAS", None) if not mode.startswith("ctas=") else None
    log = open(f"{args.out}.{ranks}.{mode.replace('=', '')}.log", "w")
    return subprocess.Popen([sys.executable, __file__, "--worker", "--ranks", str(ranks), "--sizes",
                             args.sizes, "--calls", str(args.calls)],
                            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                            text=True)


def ask(process, mode, text=None):
    if text:
        process.stdin.write(text + "\n")
        process.stdin.flush()
    answer = process.stdout.readline().strip()
    if not answer or answer.startswith("wrong"):
        sys.exit(f"worker {mode}: {answer or 'died; see its log'}")
    return answer


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--worker", action="store_true")
    p.add_argument("--demo", action="store_true")
    p.add_argument("--modes", default="default,sym,tuner,env")
    p.add_argument("--ranks", default="2")
    p.add_argument("--sizes", default="1,8,32,128,256", help="MiB per rank")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--calls", type=int, default=20)
    p.add_argument("--memory", default="0.12")
    p.add_argument("--out", default="jax_psum.csv")
    args = p.parse_args()
    sizes = [int(float(s) * MIB) for s in args.sizes.split(",")]
    if args.worker:
        return worker(int(args.ranks), sizes, args.calls)
    if args.demo:
        args.modes, args.rounds = "default,sym,tuner", 2
    modes, us = args.modes.split(","), collections.defaultdict(list)
    rows = []
    for ranks in map(int, args.ranks.split(",")):
        workers = {m: start(m, ranks, args) for m in modes}
        for m in modes:
            print(m, ranks, ask(workers[m], m), flush=True)
        for turn in range(args.rounds):
            for size in sizes:
                for m in modes[turn % len(modes):] + modes[:turn % len(modes)]:
                    times = ask(workers[m], m, str(size))
                    us[ranks, size, m].append(min(map(float, times.split())))
                    rows.append(f"{turn},{m},{ranks},{size},{times}")
        for w in workers.values():
            w.stdin.close()
        for w in workers.values():
            w.wait(60)
    with open(args.out, "w") as f:
        f.write("round,mode,ranks,bytes_per_rank,us_of_each_call\n" + "\n".join(rows) + "\n")
    summary(us, modes)
    return 0


def summary(us, modes):
    print(f"{'ranks':>5} {'MiB':>6} " + " ".join(f"{m:>18}" for m in modes))
    gain = collections.defaultdict(list)
    for ranks, size in sorted({k[:2] for k in us}):
        cells = []
        for m in modes:
            v = us[ranks, size, m]
            median = statistics.median(v)
            cells.append(f"{median:9.1f} +-{(max(v) - min(v)) / 2 / median * 100:4.1f}%")
            if "sym" in modes and size >= 8 * MIB:
                gain[ranks, m].append(statistics.median(us[ranks, size, "sym"]) / median)
        print(f"{ranks:>5} {size / MIB:>6.0f} " + " ".join(f"{c:>18}" for c in cells))
    for (ranks, m), g in sorted(gain.items()):
        print(f"{ranks} ranks, {m}: {math.exp(sum(map(math.log, g)) / len(g)):.3f}x the speed of sym, "
              "geometric mean from 8 MiB up")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symtuner.install() on GSPMD programs on real GPUs: checks values, groups, cache and speed.

If together.py runs it in several processes, it checks only the values. Each check prints one line;
the last line counts the checks. Exit status 1 if one failed, 77 if this jax does not let other
packages see its programs.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import symtuner

passed = failed = 0


def check(name, ok, note=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"  {'ok    ' if ok else 'FAILED'} {name} {note}", flush=True)


def place(mesh, x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def integers(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def stack(mesh, batch, hidden, inner, layers, dtype, different=4):
    """Return a function that runs a stack of MLPs, and its arguments. The partitioner puts one
    all-reduce at the end of each MLP. Layer i has the weights of layer i % different."""
    weights = [
        (
            place(mesh, integers((hidden, inner), dtype, 2 * i), None, "a"),
            place(mesh, integers((inner, hidden), dtype, 2 * i + 1), "a", None),
        )
        for i in range(min(layers, different))
    ]

    def f(x, weights):
        for i in range(layers):
            up, down = weights[i % different]
            # clip keeps the sums small enough for bfloat16
            x = jnp.clip(jnp.clip(x @ up, 0, 1) @ down, -2, 2)
        return x

    return jax.jit(f), (place(mesh, integers((batch, hidden), dtype), None, None), weights)


def programs(devices):
    """Return {name: (function, arguments, least)}. install() must replace at least ``least``
    all-reduces of the function. All sums are exact."""
    n = len(devices)
    line, turned = Mesh(devices, ("a",)), Mesh(devices[::-1], ("a",))

    def step(mesh):
        f, args = stack(mesh, 8, 64, 128, 2, np.float32)
        x = place(mesh, integers((8, 64), np.float32, 9), None, None)
        return jax.jit(jax.grad(lambda w, x: (f(x, w) ** 2).sum() / 64)), (args[1], x)

    def scan(mesh):
        w = place(mesh, np.eye(64, dtype=np.float32), "a", None)
        x = place(mesh, integers((4, 64), np.float32), None, "a")
        whole = NamedSharding(mesh, P())

        def f(x, w):
            def body(c, _):
                y = jax.lax.with_sharding_constraint(c @ w, whole)
                # all of y is used, so XLA does not make a reduce-scatter of the sum
                return y, y.max()

            return jax.lax.scan(body, x, None, length=8)

        return jax.jit(f), (x, w)

    def gradients(mesh):
        terms = lambda w, x: [jnp.maximum(x * v + i, 0).sum() for i, v in enumerate(w)]
        w = [place(mesh, integers((64,), np.float32, i), None) for i in range(100)]
        x = place(mesh, integers((16, 64), np.float32), "a", None)
        return jax.jit(jax.grad(lambda w, x: sum(terms(w, x)))), (w, x)

    sums = jax.jit(lambda x: (x.sum(1), x.max(1), x.prod(1), (x > 2).any(1)))
    found = {
        "mlp": (*stack(line, 8, 64, 128, 3, np.float32), 3),
        "mlp, bfloat16": (*stack(line, 8, 64, 128, 3, jnp.bfloat16), 3),
        "mlp, 16 MiB": (*stack(line, 4096, 1024, 256, 1, np.float32), 1),
        "mlp on turned devices": (*stack(turned, 8, 64, 128, 3, np.float32), 3),
        "training step": (*step(line), 1),
        "small gradients": (*gradients(line), 2),
        "scan": (*scan(line), 1),
        "reductions": (sums, (place(line, integers((16, 64), np.int32), None, "a"),), 1),
    }
    if n == 4:
        square = Mesh(np.array([devices[i] for i in (2, 0, 3, 1)]).reshape(2, 2), ("b", "a"))
        found["mlp in groups"] = (*stack(square, 8, 64, 128, 3, np.float32), 3)
    return found


def run(f, args):
    jax.clear_caches()
    leaves = jax.tree.leaves(f(*args))
    return [np.asarray(shard.data) for leaf in leaves for shard in leaf.addressable_shards]


def values(all_programs):
    before = {name: run(f, args) for name, (f, args, _) in all_programs.items()}
    symtuner.install()
    for name, (f, args, least) in all_programs.items():
        known = len(symtuner.report())
        after = run(f, args)
        rows = list(symtuner.report())[known:]
        same = all(
            a.dtype == b.dtype and a.tobytes() == b.tobytes()
            for a, b in zip(before[name], after, strict=True)
        )
        calls = f.lower(*args).compile().as_text().count('"symtuner_all_reduce')
        left = "; ".join(sorted({row.why for row in rows if row.why}))
        check(f"{name}: same bits", same)
        check(f"{name}: {calls} calls", calls >= least, f"left to XLA: {left}" if left else "")
    shared = symtuner.report().shared
    check("small all-reduces share calls", any(": 100 small" in line for line in shared),
          str(shared))


def cached(f, args):
    """Check that a program that JAX loads from its cache on disk opens symtuner's groups again."""
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        compilation_cache.reset_cache()  # JAX reads these settings only once
        want = run(f, args)
        files = len(os.listdir(folder))
        jax.clear_caches()
        symtuner.close()  # closes all groups, because a new process would have none
        got = run(f, args)
        same = all(a.tobytes() == b.tobytes() for a, b in zip(want, got, strict=True))
        check("from the cache: same bits", same and files, f"{files} files")
        check("from the cache: the groups are open", len(symtuner.groups()) > 0)
        jax.config.update("jax_compilation_cache_dir", None)
        compilation_cache.reset_cache()


def time_of(f, args, repetitions=50):
    for _ in range(5):
        out = f(*args)
    jax.block_until_ready(out)
    begin = time.perf_counter()
    for _ in range(repetitions):
        out = f(*args)
    jax.block_until_ready(out)
    return (time.perf_counter() - begin) / repetitions * 1e6


def speed(name, f, args, least):
    """Time the same program with XLA's all-reduces and with ours, five times in turn."""
    symtuner.uninstall()
    theirs = f.lower(*args).compile()
    symtuner.install()
    ours = f.lower(*args).compile()
    ratios = []
    for _ in range(5):
        xla, us = time_of(theirs, args), time_of(ours, args)
        ratios.append(xla / us)
        print(f"  {name}: XLA {xla:.0f} us, installed {us:.0f} us")
    calls = ours.as_text().count('"symtuner_all_reduce')
    check(f"{name}: {calls} calls", calls >= least)
    print(
        f"  {name}: {statistics.median(ratios):.3f} times as fast ({min(ratios):.3f} to "
        f"{max(ratios):.3f})"
    )


def data_parallel(devices):
    """A training step in which each device has all weights and a part of the batch. XLA may run its
    all-reduces of the gradients beside the backward pass."""
    mesh = Mesh(devices, ("a",))
    weights = [place(mesh, integers((2048, 2048), np.float32, i), None, None) for i in range(16)]
    x = place(mesh, integers((4096, 2048), np.float32, 99), "a", None)

    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    def step(weights, x):
        return [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights, x))]

    return jax.jit(step), (weights, x)


def cached_and_speed(made, devices):
    cached(*made["mlp"][:2])
    line = Mesh(devices, ("a",))
    f, (_, weights) = stack(line, 1, 4096, 14336, 32, jnp.bfloat16)
    for batch in (1, 32, 2048):
        x = place(line, integers((batch, 4096), jnp.bfloat16), None, None)
        speed(f"32 MLPs, batch {batch}", f, (x, weights), 32)
    speed("data-parallel step", *data_parallel(devices), 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    ranks = parser.parse_args().ranks
    try:
        from jax.extend import xla  # noqa: F401
    except ImportError:
        print(f"jax {jax.__version__} shows nobody its programs; 0.10.2 does")
        return 77
    if len(jax.devices()) < ranks:
        print(f"{ranks} GPUs are needed")
        return 77
    devices = np.array(jax.devices()[:ranks])
    made = programs(devices)
    values(made)
    if jax.process_count() == 1:
        cached_and_speed(made, devices)
    print(f"jax {jax.__version__}, {ranks} GPUs: {passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

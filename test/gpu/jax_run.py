#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symtuner.all_reduce on real GPUs in one process: checks values, types, gradients, many calls, and
two meshes.

Each check prints one line; the last line counts the checks. Exit status 1 if one failed.
"""

import argparse
import math
import os
import re
import sys
import time
import traceback
import warnings
from functools import reduce

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import symtuner

FLOATS = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTS = ["int8", "uint8", "int32", "uint32", "int64", "uint64"]
COMPLEX = ["complex64", "complex128"]
MANY = ["float32", "float64", "float16", "bfloat16", *INTS]
passed = failed = 0


def check(name, ok, note=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok or note:
        print(f"  {'ok    ' if ok else 'FAILED'} {name} {note}", flush=True)


def mesh_of(devices):
    return Mesh(np.array(devices), ("i",))


def smap(f, mesh, out=P("i")):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=out, check_vma=False))


def place(hosts, mesh):
    """Put each host[rank] on its device."""
    sharding = NamedSharding(mesh, P("i"))
    return {k: jax.device_put(h.reshape((-1,) + h.shape[2:]), sharding) for k, h in hosts.items()}


def elements_of_calls(text):
    """Return the number of elements of each of our custom calls in a lowered program, sorted."""
    calls = re.findall(r"custom_call @symtuner_all_reduce.* : \(tensor<(.*?)>", text)
    return sorted(math.prod(map(int, re.findall(r"(\d+)x", call))) for call in calls)


def run(hosts, tree, mesh, op, joined=()):
    """Run all_reduce of each array of the tree in one program. Returns the results of every rank.
    The arrays named in ``joined`` must share one call, and each other array must have a call of
    its own."""
    f = smap(lambda t: symtuner.all_reduce(t, "i", op), mesh)
    sizes = {k: h[0].size for k, h in hosts.items() if k in tree}
    want = [size for k, size in sizes.items() if k not in joined]
    want = sorted(want + [sum(sizes[k] for k in joined)] * bool(joined))
    calls = elements_of_calls(f.lower(tree).as_text())
    name = f"{op}: {len(want)} custom calls, {len(joined)} arrays share one"
    check(name, calls == want, "" if calls == want else f"{calls} elements, not {want}")
    return {k: np.asarray(v).reshape(hosts[k].shape) for k, v in f(tree).items()}


def parts(host):
    """Return a complex array as real numbers, twice as long. Return another array unchanged."""
    return host.view(host.real.dtype) if host.dtype.kind == "c" else host


def reference(host, op):
    """Return the reduction, made in a type so wide that its rounding does not matter."""
    wide = host.astype(np.int64 if host.dtype.kind in "iu" else np.longdouble)
    if op == "avg":
        return wide.sum(0) / len(wide)
    return {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[op](wide, axis=0)


def in_order(add, rows):
    """Combine all rows by ``add`` in the order of docs/reference/sums.md."""
    groups = []
    for r in range(0, len(rows), 4):
        four = rows[r : r + 4]
        groups.append(reduce(add, [reduce(add, four[k : k + 2]) for k in range(0, len(four), 2)]))
    return reduce(add, groups)


def rounded_once(host, op, want, nearest, got):
    """Return for each element whether the result ``got`` was rounded only once: it is as close to
    the reference ``want`` as ``nearest``, the nearest number of its type. A float64 must be what
    float64 gives in the fixed order. Sums of types below 4 bytes are exact in float32 here, and so
    are products of float8 with up to 6 ranks."""
    if op in ("max", "min"):
        return got.astype(np.longdouble) == want
    if host.dtype == np.float64:
        total = in_order(np.multiply if op == "prod" else np.add, host)
        return got == (total / len(host) if op == "avg" else total)
    room = np.abs(nearest.astype(np.longdouble) - want) * (1 + 1e-6)
    return np.abs(got.astype(np.longdouble) - want) <= room


PERIOD = 99_991  # numbers repeat after this prime number, which divides no block or chunk size


def sample(name, ranks, n, rng):
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    if n > PERIOD:
        return np.tile(sample(name, ranks, PERIOD, rng), -(-n // PERIOD))[:, :n].copy()
    if dtype.kind in "iu":
        # a product of four numbers fits into int8
        return rng.integers(0, 4, (ranks, n), dtype=dtype)
    if dtype.kind == "c":
        return sample(parts(np.zeros(0, dtype)).dtype.name, ranks, 2 * n, rng).view(dtype)
    host = rng.random((ranks, n), dtype=np.float64 if dtype.itemsize == 8 else np.float32) + 0.5
    host[rng.random((ranks, n), dtype=np.float32) < 0.5] *= -1
    return host.astype(dtype)


def values_of(size, mesh, ranks):
    """Check all types and operators at one size. The results must be right and have the same bits
    on all ranks."""
    rng = np.random.default_rng(size)
    names = FLOATS + INTS + COMPLEX  # one array of each type, so no two share a call
    hosts = {k: sample(k, ranks, size // np.dtype(jnp.dtype(k)).itemsize + 3, rng) for k in names}
    tree = place(hosts, mesh)
    worst = {}
    for op in ("sum", "avg", "max", "min", "prod"):
        # an average of integers is a float, which transforms() checks
        left_out = INTS if op == "avg" else []
        left_out = left_out + (COMPLEX if op not in ("sum", "avg") else [])
        chosen = {k: v for k, v in tree.items() if k not in left_out}
        for name, got in run(hosts, chosen, mesh, op).items():
            same = all(got[r].tobytes() == got[0].tobytes() for r in range(ranks))
            check(f"{name} {op}, {size} bytes: the same bits on all ranks", same)
            host, got = parts(hosts[name]), parts(got[0])
            # check both ends and every 61st element between them, which covers every lane
            n = len(got)
            some = np.r_[0 : min(n, 4096), min(n, 4096) : n : 61, max(n - 64, 0) : n]
            host, got = host[:, some], got[some]
            want = reference(host, op)
            if host.dtype.kind in "iu":
                check(f"{name} {op}, {size} bytes: value", (got == want).all())
                continue
            nearest = want.astype(np.float64).astype(got.dtype)
            right = rounded_once(host, op, want, nearest, got)
            check(f"{name} {op}, {size} bytes: rounded once", right.all())
            exact = (got == nearest).mean()
            worst[name] = min(worst.get(name, 1), exact)
    rounded = ", ".join(f"{name} {100 * share:.1f}" for name, share in worst.items())
    print(f"  {size} bytes: equal to the rounded reference, per cent: {rounded}", flush=True)


def values(mesh, ranks):
    # the last size is so large that kernels use zero copy
    for size in (4 << 10, 300 << 10, 13 << 20):
        values_of(size, mesh, ranks)


def shapes(mesh, ranks):
    rng = np.random.default_rng(2)
    shapes = [
        (1,),
        (7,),
        (3, 5),
        (2, 1, 3, 4),
        (1023,),
        (65536,),
        (1 << 20,),
        ((1 << 22) + 3,),
        (1 << 25,),
    ]
    hosts = {str(s): rng.integers(-8, 8, (ranks, *s)).astype(np.float32) for s in shapes}
    # three or more leaves of one type share a call if each has at most 64 KiB
    # (docs/reference/jax-calls.md)
    short = [name for name, h in hosts.items() if h[0].nbytes <= 64 << 10]
    check("five shapes are short", len(short) == 5, "" if len(short) == 5 else short)
    for name, got in run(hosts, place(hosts, mesh), mesh, "sum", short).items():
        check(f"shape {name}", all((got[r] == hosts[name].sum(0)).all() for r in range(ranks)))
    empty = smap(lambda v: symtuner.all_reduce(v[:0], "i"), mesh)(jnp.zeros(ranks))
    check("no elements", empty.shape == (0,))


def transforms(mesh, ranks):
    x = jax.device_put(np.arange(ranks * 6, dtype=np.float32) / 7, NamedSharding(mesh, P("i")))
    for vma in (False, True):
        for op, ref in (("sum", lax.psum), ("avg", lax.pmean)):

            def loss(fn, v, vma=vma):
                return jax.shard_map(
                    lambda u: fn(jnp.sin(u)) * 2,
                    mesh=mesh,
                    in_specs=P("i"),
                    out_specs=P(),
                    check_vma=vma,
                )(v).sum()

            ours = jax.jit(jax.grad(lambda v: loss(lambda u: symtuner.all_reduce(u, "i", op), v)))(
                x
            )
            lax_ = jax.jit(jax.grad(lambda v: loss(lambda u: ref(u, "i"), v)))(x)
            check(f"gradient of {op}, check_vma={vma}", np.allclose(ours, lax_, rtol=1e-6))
    tree = {"a": jnp.ones((ranks, 3)), "b": [jnp.arange(ranks * 2, dtype=jnp.int32)]}
    got = smap(lambda t: symtuner.all_reduce(t, "i"), mesh)(tree)
    check("pytree", (np.asarray(got["a"]) == ranks).all() and got["b"][0].dtype == jnp.int32)
    got = smap(lambda v: jax.vmap(lambda u: symtuner.all_reduce(u, "i"))(v), mesh)(
        jnp.ones((ranks, 5))
    )
    check("vmap", (np.asarray(got) == ranks).all())
    got = smap(lambda v: symtuner.all_reduce(v, "i", "avg"), mesh)(
        jnp.arange(ranks, dtype=jnp.int32)
    )
    check("average of integers is a float, as pmean", np.allclose(got, (ranks - 1) / 2))


def donation(mesh, ranks):
    """Check donated inputs, which XLA may reuse for the result, and kept inputs, which must not
    change. From some size on, kernels use XLA's buffers directly. One size is below, one above."""
    f = jax.shard_map(
        lambda v: symtuner.all_reduce(v, "i") + 1,
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P("i"),
        check_vma=False,
    )
    g = jax.shard_map(
        lambda v: symtuner.all_reduce(v, "i"),
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P("i"),
        check_vma=False,
    )
    sharding = NamedSharding(mesh, P("i"))
    for n in (4096, (1 << 21) + 5):
        for name, body, more in (("alone", g, 0), ("and an addition", f, 1)):
            kept, given = jax.jit(body), jax.jit(body, donate_argnums=0)
            right = intact = True
            for turn in range(1, 6):
                host = np.full(ranks * n, turn, np.float32)
                x, y = jax.device_put(host, sharding), jax.device_put(host, sharding)
                a, b = kept(x), given(y)  # both calls run at the same time
                for out in (a, b, kept(x)):
                    right &= bool((np.asarray(out) == turn * ranks + more).all())
                intact &= bool((np.asarray(x) == host).all())
            check(f"donated and undonated, {n} elements, {name}: value", right)
            check(f"donated and undonated, {n} elements, {name}: input intact", intact)
            check(f"donated, {n} elements, {name}: input is gone", y.is_deleted())


def many(mesh, ranks, calls):
    """Run sizes, types and operators in random order within one program, and compare with jax.lax.
    The numbers are small integers, so that no type rounds."""
    rng = np.random.default_rng(3)
    sizes = [int(s) for s in np.exp(rng.uniform(0, np.log(1 << 21), 40))]
    names = list(rng.permutation((MANY * 4)[:40]))
    ops = rng.choice(["sum", "sum", "max", "min"], 40)
    lax_of = {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}
    steps = calls // 40

    def body(reduce):
        def step(i, carry):
            out = []
            for v, op in zip(carry, ops):
                total = reduce(v, op)
                # keep the numbers small: the remainder by 5, plus the rank's own number
                own = (lax.axis_index("i") + i) % 4
                out.append((total % 5 + own.astype(v.dtype)).astype(v.dtype))
            return out

        return lambda *vs: lax.fori_loop(0, steps, step, list(vs))

    args = [
        jax.device_put(
            rng.integers(0, 4, (ranks * s,)).astype(jnp.dtype(n)), NamedSharding(mesh, P("i"))
        )
        for s, n in zip(sizes, names)
    ]
    f = smap(body(lambda v, op: symtuner.all_reduce(v, "i", str(op))), mesh).lower(*args).compile()
    start = time.time()
    ours = f(*args)
    jax.block_until_ready(ours)
    took = time.time() - start
    ref = smap(body(lambda v, op: lax_of[str(op)](v, "i")), mesh)(*args)
    same = all((np.asarray(a) == np.asarray(b)).all() for a, b in zip(ours, ref))
    kinds = f"40 sizes, {len(set(names))} types and 3 operators"
    check(f"{steps * 40} calls of {kinds} in one program", same, f"{took:.1f} s")


def calls_so_far():
    """Return how many calls the handler has launched or recorded in all groups. Of each group only
    rank 0 counts."""
    lines = symtuner.groups()
    return sum(int(line.split("calls=")[1].split()[0]) for line in lines if "rank=0" in line)


def recorded(mesh, ranks):
    """Run a loop of few kernels, in turns recorded into a CUDA graph and launched, with addresses
    that change from call to call. Replays and launches must advance the kernels' call counters
    alike, because the kernels of a rank wait for those of its peers with the same count."""

    def loop(v):  # each step adds one, for any number of ranks
        return lax.fori_loop(0, 30, lambda i, u: symtuner.all_reduce(u, "i") / ranks + 1, v)

    body = jax.shard_map(loop, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    flags = {"xla_gpu_graph_min_graph_size": 1}
    # the last one is too large to be recorded
    for n in (3, 5000, 70_000, 1_000_000, (1 << 22) + 1):
        x = jax.device_put(np.zeros(ranks * n, np.float32), NamedSharding(mesh, P("i")))
        replays = jax.jit(body, compiler_options=flags).lower(x).compile()
        launches = jax.jit(body).lower(x).compile()
        want, used, right = 0, [], True
        for turn in range(12):
            run = replays if turn % 3 else launches
            before, x, want = calls_so_far(), run(x), want + 30
            x.block_until_ready()
            used.append((turn, calls_so_far() - before))
            right &= bool((np.asarray(x) == want).all())
        check(f"{n} elements, recorded and launched in turns: value", right)
        counts = [c for turn, c in used if turn % 3 and turn > 2]
        if n < 3 << 20 and os.environ.get("SYMTUNER_JAX_COMMAND_BUFFERS") != "0":
            check(f"{n} elements: recorded", max(counts) < 30, counts)
        else:
            check(f"{n} elements: launched each time", set(counts) == {30}, counts)


def meshes(devices, ranks):
    a, b = mesh_of(devices), mesh_of(devices[::-1])
    f = {m: smap(lambda v: symtuner.all_reduce(v * 2, "i"), m) for m in (a, b)}
    g = smap(lambda v: v @ v.T, a)
    ok = True
    for turn in range(100):
        for m in (a, b):
            n = (1, 777, 1 << 17)[turn % 3]
            x = jax.device_put(np.full(ranks * n, turn, np.float32), NamedSharding(m, P("i")))
            ok &= bool((f[m](x) == 2 * turn * ranks).all())
    g(jax.device_put(np.ones((ranks * 8, 8), np.float32), NamedSharding(a, P("i"))))
    check("two meshes on the same GPUs, interleaved", ok)
    if ranks == 4:
        square = Mesh(np.array(devices).reshape(2, 2), ("i", "j"))
        h = jax.jit(
            jax.shard_map(
                lambda v: symtuner.all_reduce(v, "j") + 10 * symtuner.all_reduce(v, "i"),
                mesh=square,
                in_specs=P(("i", "j")),
                out_specs=P(("i", "j")),
                check_vma=False,
            )
        )
        x = np.arange(4, dtype=np.float32)
        want = [1 + 10 * 2, 1 + 10 * 4, 5 + 10 * 2, 5 + 10 * 4]
        check("rows and columns of a 2 x 2 mesh", (np.asarray(h(x)) == want).all())


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--calls", type=int, default=10000)
    args = p.parse_args()
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("error", UserWarning)  # a fallback to jax.lax is a failure here
    devices = jax.devices()[: args.ranks]
    mesh = mesh_of(devices)
    print(f"jax {jax.__version__}, {args.ranks} of {devices[0].device_kind}", flush=True)
    for test in (
        lambda: values(mesh, args.ranks),
        lambda: shapes(mesh, args.ranks),
        lambda: transforms(mesh, args.ranks),
        lambda: donation(mesh, args.ranks),
        lambda: many(mesh, args.ranks, args.calls),
        lambda: recorded(mesh, args.ranks),
        lambda: meshes(devices, args.ranks),
    ):
        start = time.time()
        try:
            test()
        except Exception as e:
            check("exception", False, f"{type(e).__name__}: {str(e)[:600]}")
            traceback.print_exc(limit=-3)
        print(f"  ... {time.time() - start:.1f} s", flush=True)
    print("\n".join(symtuner.groups()[: args.ranks]))
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symtuner.all_reduce on real GPUs, one process: values, types, gradients, many calls, two meshes.

Each check prints one line; the last line counts them. Exit status 1 when one failed.
"""

import argparse
import sys
import time
import traceback
import warnings

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


def run(hosts, mesh, op):
    """all_reduce of each hosts[name][rank] in one program; the results of every rank."""
    place = NamedSharding(mesh, P("i"))
    tree = {k: jax.device_put(h.reshape((-1,) + h.shape[2:]), place) for k, h in hosts.items()}
    f = smap(lambda t: symtuner.all_reduce(t, "i", op), mesh)
    calls = f.lower(tree).as_text().count("custom_call @symtuner_all_reduce")
    check(
        f"{op}: {len(tree)} custom calls", calls == len(tree), "" if calls == len(tree) else calls
    )
    return {k: np.asarray(v).reshape(hosts[k].shape) for k, v in f(tree).items()}


def reference(host, op):
    wide = host.astype(
        np.complex128
        if host.dtype.kind == "c"
        else object
        if host.dtype.kind in "iu"
        else np.float64
    )
    by = {
        "sum": lambda w: w.sum(0),
        "avg": lambda w: w.sum(0) / len(w),
        "prod": lambda w: w.prod(0),
        "max": lambda w: w.max(0),
        "min": lambda w: w.min(0),
    }
    return by[op](wide)


def bound(host, op, want):
    """Largest error that is allowed: one rounding of the type, plus those of the sum in its own
    type."""
    kind = np.dtype(
        np.float32
        if host.dtype == np.complex64
        else np.float64
        if host.dtype == np.complex128
        else host.dtype
    )
    eps = float(ml_dtypes.finfo(kind).eps)
    own = (len(host) - 1) * (eps / 2) if kind.itemsize >= 4 else 2.0**-22
    scale = np.abs(np.asarray(host, np.complex128 if host.dtype.kind == "c" else np.float64))
    size = scale.prod(0) * len(host) if op == "prod" else scale.sum(0)
    tiny = float(ml_dtypes.finfo(kind).smallest_subnormal)
    return np.abs(want) * eps / 2 * 1.0001 + size * own * 2 + tiny


def sample(name, ranks, n, rng):
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    if dtype.kind in "iu":
        return rng.integers(0, 4, (ranks, n)).astype(dtype)  # a product of four fits int8
    host = rng.uniform(0.5, 1.5, (ranks, n)) * rng.choice([-1, 1], (ranks, n))
    if dtype.kind == "c":
        host = host + 1j * rng.uniform(-1, 1, (ranks, n))
    return host.astype(dtype)


def values(mesh, ranks):
    rng = np.random.default_rng(1)
    for op in ("sum", "avg", "max", "min", "prod"):
        names = list(FLOATS)
        names += INTS if op != "avg" else []  # an average of integers is a float: see transforms
        names += COMPLEX if op in ("sum", "avg") else []
        hosts = {name: sample(name, ranks, 4099, rng) for name in names}
        for name, got in run(hosts, mesh, op).items():
            host = hosts[name]
            same = all(got[r].tobytes() == got[0].tobytes() for r in range(ranks))
            check(f"{name} {op}: the same bits on all ranks", same)
            want = reference(host, op)
            if host.dtype.kind in "iu":
                right = (got[0].astype(object) == want).all()
            else:
                right = bool(
                    (np.abs(got[0].astype(want.dtype) - want) <= bound(host, op, want)).all()
                )
            check(f"{name} {op}: value", right)


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
    for name, got in run(hosts, mesh, "sum").items():
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
    given = jax.device_put(np.ones(ranks * 4096, np.float32), NamedSharding(mesh, P("i")))
    donate = jax.jit(
        jax.shard_map(
            lambda v: symtuner.all_reduce(v, "i"),
            mesh=mesh,
            in_specs=P("i"),
            out_specs=P("i"),
            check_vma=False,
        ),
        donate_argnums=0,
    )
    check("donated input", (np.asarray(donate(given)) == ranks).all())


def many(mesh, ranks, calls):
    """Sizes and types in a random order within one program, against psum on integers: no
    rounding."""
    rng = np.random.default_rng(3)
    sizes = [int(s) for s in np.exp(rng.uniform(0, np.log(1 << 21), 40))]
    names = rng.choice(["float32", "bfloat16", "int32", "float16"], 40)
    steps = calls // 40

    def body(reduce):
        def step(i, carry):
            out = []
            for v in carry:
                total = reduce(v)
                # stays a small integer: the remainder by 5, plus the rank's own contribution
                out.append((total % 5 + lax.axis_index("i").astype(v.dtype)).astype(v.dtype))
            return out

        return lambda *vs: lax.fori_loop(0, steps, step, list(vs))

    args = [
        jax.device_put(
            rng.integers(0, 4, (ranks * s,)).astype(ml_dtypes.bfloat16 if n == "bfloat16" else n),
            NamedSharding(mesh, P("i")),
        )
        for s, n in zip(sizes, names)
    ]
    start = time.time()
    ours = smap(body(lambda v: symtuner.all_reduce(v, "i")), mesh)(*args)
    jax.block_until_ready(ours)
    took = time.time() - start
    ref = smap(body(lambda v: lax.psum(v, "i")), mesh)(*args)
    same = all((np.asarray(a) == np.asarray(b)).all() for a, b in zip(ours, ref))
    check(f"{steps * 40} calls of 40 sizes and 4 types in one program", same, f"{took:.1f} s")


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
        lambda: many(mesh, args.ranks, args.calls),
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

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
r"""Tests what XLA's compiler for GPUs makes of our calls, without a GPU.

The compiler compiles for four H100s that are only described. That needs the CUDA plugin of this
jax, 190 MB:

    pip install --no-deps --target DIR jax-cuda12-pjrt==VERSION jax-cuda12-plugin==VERSION
    PYTHONPATH=jax:DIR SYMTUNER_LIB_DIR=build/jax-test/lib python \
        test/jax/install/test_compiled.py

Exits with 77 if the plugin is not there. docs/design/how-jax-works.md says what these facts mean.
"""

import collections
import functools
import importlib.util
import os
import re
import subprocess
import sys

os.environ.update(JAX_PLATFORMS="cpu", JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1")
os.environ["SYMTUNER_ONLY"] = "allreduce,reducescatter,allgather"
# do not let XLA try out kernels, because there is no GPU here
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
if not all(map(importlib.util.find_spec, ("jax_plugins", "jax_cuda12_plugin"))):
    print(f"{__file__}: not run: no jax-cuda12-pjrt and jax-cuda12-plugin on PYTHONPATH")
    sys.exit(77)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import symtuner  # noqa: E402
from symtuner import _all_reduce, _install  # noqa: E402

H100 = """gpu_device_info {
    threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
    shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
    block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
    memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
    device_memory_size: 84978434048 shared_memory_per_block_optin: 232448
    cuda_compute_capability { major: 9 }
    registers_per_core_limit: 65536 registers_per_block_limit: 65536 }
platform_name: "CUDA" dnn_version_info { major: 9 minor: 1 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
TOPOLOGY = topologies.get_topology_desc("four", "cuda", target_config=H100, topology="1x1x4")
MESH = Mesh(np.array(TOPOLOGY.devices), ("i",))
SPLIT, WHOLE = NamedSharding(MESH, P("i")), NamedSharding(MESH, P())

# these devices are not of this machine, so no group can be opened
_install._refuse_devices = lambda rows: None
_all_reduce.open_rows = lambda rows, xla, by_name: None
_install._on_event = lambda *_, **__: None


def shape(sharding, *sizes):
    return jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=sharding)


def mapped(f, ins=P("i"), outs=P("i")):
    g = jax.shard_map(f, mesh=MESH, in_specs=ins, out_specs=outs, check_vma=False)
    return jax.jit(g)


def compiled(f, args, installed=False):
    """Return the instructions of the compiled program that run, in the order in which they run."""
    jax.clear_caches()
    if installed:
        symtuner.install()
    try:
        text = f.trace(*args).lower(lowering_platforms=("cuda",)).compile().as_text()
    finally:
        symtuner.uninstall()
    kinds = re.findall(r" = (?:\(.*?\)|\S+) ([a-z\-]+)\(", text[text.index("ENTRY") :])
    free = {"parameter", "bitcast", "get-tuple-element", "tuple", "constant"}
    return [kind for kind in kinds if kind not in free]


def test_no_more_copies():
    """Whatever dimension is cut, a program has as many other kernels with our calls as with XLA's
    collectives."""

    def fsdp(x, w1, w2):
        w1 = lax.all_gather(w1, "i", axis=1, tiled=True)
        return jnp.tanh(x @ w1) @ lax.all_gather(w2, "i", axis=0, tiled=True)

    def step(x, w1, w2):
        return jax.grad(lambda w: (fsdp(x, *w) ** 2).sum())((w1, w2))

    def there_and_back(x, *_):
        h = lax.all_gather(x, "i", axis=1, tiled=True)
        return lax.psum_scatter(h, "i", scatter_dimension=1, tiled=True)

    def untiled(x, *_):
        return lax.psum_scatter(jnp.sin(lax.all_gather(x, "i", axis=1)), "i", scatter_dimension=1)

    def between(x, *_):
        return jnp.sin(lax.all_gather(jnp.cos(x), "i", axis=1, tiled=True)) * 2

    args = shape(SPLIT, 1024, 512), shape(SPLIT, 2048, 256), shape(SPLIT, 1024, 512)
    for f in (fsdp, step, there_and_back, untiled, between):
        theirs, ours = (collections.Counter(compiled(mapped(f), args, on)) for on in (False, True))
        assert ours.pop("custom-call") in (1, 2, 4), (f.__name__, ours)
        for kind in ("fusion", "copy", "transpose"):
            assert ours[kind] == theirs[kind], (f.__name__, theirs, ours)


def test_small_leaves():
    """XLA joins psums, with one kernel before them and one for each leaf after them. It does not
    join our calls. We would join them if XLA showed us the program, but here it does not
    (test/jax/hlo/test_join.py)."""
    args = [shape(SPLIT, 4, 100 + i) for i in range(12)]
    psum = mapped(lambda *leaves: lax.psum(list(leaves), "i"))
    joined = mapped(lambda *leaves: symtuner.all_reduce(list(leaves), "i"))
    theirs, installed = compiled(psum, args), compiled(psum, args, True)
    assert theirs.count("all-reduce-start") == 1 and theirs.count("fusion") == 13, theirs
    assert installed == ["custom-call"] * 12, installed
    ours = compiled(joined, args)
    assert ours.count("custom-call") == 1 and ours.count("fusion") == 13, ours


def test_leaves_that_are_computed():
    """With our call, the kernels that join and cut the leaves also compute the leaves and use the
    sums. With XLA's joined psums they do not."""

    def f(reduce, n=64):
        args = [shape(SPLIT, 4, 100 + i) for i in range(n)]
        step = lambda *leaves: [2 * s - v for s, v in zip(reduce([v + 1 for v in leaves]), leaves)]
        found = compiled(mapped(step), args)
        return found.count("fusion"), found.count("custom-call") + found.count("all-reduce-start")

    theirs, ours = f(lambda v: lax.psum(v, "i")), f(lambda v: symtuner.all_reduce(v, "i"))
    assert theirs == (193, 1) and ours == (65, 1), (theirs, ours)
    apart = f(lambda v: symtuner.all_reduce(v, "i"), 130)
    assert apart[0] > 2 * 130 - 10, "a kernel of XLA's does not do so with 130 of them"


def test_overlap():
    """XLA starts its own all-reduce before GEMMs that do not need the result. Our call comes after
    these GEMMs."""
    args = shape(SPLIT, 4, 1024), shape(WHOLE, 512, 512)
    ins, outs = (P("i"), P()), (P("i"), P())
    gemms = lambda w: jnp.tanh(w @ w) @ w
    psum = mapped(lambda x, w: (lax.psum(x, "i"), gemms(w)), ins, outs)
    theirs, ours = compiled(psum, args), compiled(psum, args, True)
    at = [i for i, kind in enumerate(theirs) if kind == "fusion"]
    assert theirs.index("all-reduce-start") < at[0] and at[-1] < theirs.index("all-reduce-done")
    assert ours[-1] == "custom-call", ours

    from jax.experimental.compute_on import compute_on

    def beside(x, w):
        with compute_on("gpu_stream:1"):
            return jax.jit(lambda v: symtuner.all_reduce(v, "i"))(x), gemms(w)

    ours = compiled(mapped(beside, ins, outs), args)
    assert ours[-2:] == ["call-start", "call-done"], ours


def test_what_xla_makes_cheaper():
    """Check which all-reduces XLA turns into a reduce-scatter, and which it moves out of their
    loop. jax/hlo/call.c predicts both."""
    square = Mesh(np.array(TOPOLOGY.devices).reshape(2, 2), ("i", "j"))
    at = lambda mesh, *spec: NamedSharding(mesh, P(*spec))
    cut = lambda to: lambda x, w: lax.with_sharding_constraint(x @ w, to)
    part = lambda x, w, n: lax.dynamic_slice_in_dim(cut(WHOLE)(x, w), n, 16)
    args = shape(at(MESH, None, "i"), 64, 64), shape(SPLIT, 64, 64)
    n = jax.ShapeDtypeStruct((), jnp.int32, sharding=WHOLE)
    assert "reduce-scatter-start" in compiled(jax.jit(cut(SPLIT)), args)
    product = jax.jit(lambda x, _: lax.with_sharding_constraint(x.prod(1), SPLIT))
    assert "reduce-scatter-start" in compiled(product, args), "not only of sums"
    assert "all-reduce-start" in compiled(jax.jit(part), (*args, n)), "one part for all ranks"
    args = shape(at(square, None, "j"), 64, 64), shape(at(square, "j"), 64, 64)
    both = jax.jit(cut(at(square, ("i", "j"))))
    assert "all-reduce-start" in compiled(both, args), "more parts than ranks"

    def loop(reduce, add=jnp.add):
        def total(x):
            body = lambda sum, n: (add(sum, reduce(jnp.sin(x + n))), None)
            return lax.scan(body, jnp.zeros_like(x), jnp.arange(5.0))[0]

        return mapped(total, P())

    args = (shape(WHOLE, 64, 64),)
    moved = lambda f, *more: "all-reduce-start" in compiled(f, args, *more)
    assert moved(loop(lambda v: lax.psum(v, "i")))
    assert moved(loop(lambda v: lax.psum(v, "i")), True), "install() leaves it to XLA"
    assert not moved(loop(lambda v: lax.pmean(v, "i"))), "it divides the sum in the loop"
    assert not moved(loop(lambda v: lax.pmax(v, "i"), jnp.maximum)), "not a sum"


def test_in_place():
    """If nothing else needs the operand, our call puts its result into the operand's buffer, as
    XLA's all-reduce does, and takes no other memory. Otherwise XLA would copy the operand."""
    args = (shape(SPLIT, 4096, 1024),)
    one, again = lambda v: lax.psum(jnp.cos(v), "i"), lambda v: lax.psum(v @ v, "i") + 1
    live = lambda v: (lambda y: lax.psum(y, "i") @ y)(jnp.cos(v) @ v)

    def cost(f, installed, **place):
        lower = jax.ffi.ffi_lowering
        jax.ffi.ffi_lowering = functools.partial(lower, **place)
        jax.clear_caches()
        if installed:
            symtuner.install()
        try:
            c = mapped(f).trace(*args).lower(lowering_platforms=("cuda",)).compile()
        finally:
            symtuner.uninstall()
            jax.ffi.ffi_lowering = lower
        return c.memory_analysis().temp_size_in_bytes, c.as_text().count(" copy(")

    place = {"operand_output_aliases": {0: 0}}
    for f in (one, again):
        theirs, apart, ours = cost(f, False), cost(f, True), cost(f, True, **place)
        assert ours <= theirs and ours[0] < apart[0] and ours[1] == apart[1], (theirs, apart, ours)
    theirs, apart, ours = cost(live, False), cost(live, True), cost(live, True, **place)
    assert ours[0] >= apart[0] and ours[1] == theirs[1] == apart[1] + 1, (theirs, apart, ours)


def data_parallel():
    """Compile a program with three weights, whose gradients XLA's partitioner sums, and print its
    instructions. test_stage() runs this in a process in which XLA logs its transformations."""
    loss = lambda ws, x: (jnp.tanh(x @ ws[0]) @ ws[1] @ ws[2]).mean()
    args = [shape(WHOLE, 64, 64)] * 3, shape(SPLIT, 32, 64)
    print(compiled(jax.jit(jax.grad(loss), out_shardings=WHOLE), args))


def test_stage():
    """XLA calls transformations such as ours before its combiner. So a transformation sees three
    all-reduces, and the compiled program has one."""
    env = dict(os.environ, TF_CPP_VMODULE="xla_transform=1", TF_CPP_MIN_LOG_LEVEL="0")
    command = [sys.executable, __file__, "data_parallel"]
    p = subprocess.run(command, env=env, text=True, capture_output=True, timeout=300)
    shown = p.stderr.split("ApplyXlaTransforms ENTRY")[1].split("ApplyXlaTransforms EXIT")[0]
    assert p.returncode == 0 and shown.count(" all-reduce(") == 3, p.stderr[-2000:]
    assert " fusion(" not in shown and p.stdout.count("'all-reduce-start'") == 1, p.stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["data_parallel"]:
        sys.exit(data_parallel())
    failed = 0
    for name, test in [(n, t) for n, t in globals().items() if n.startswith("test_")]:
        try:
            test()
        except AssertionError as e:
            failed += 1
            print(f"FAILED: {name}: {e}")
    print(f"compiled by jax {jax.__version__} without a GPU: {failed} failed")
    sys.exit(failed > 0)

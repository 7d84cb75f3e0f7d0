#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests symtuner.install() with programs that were compiled elsewhere: from JAX's compile cache,
and from files."""

import sys
import tempfile

import test_install  # noqa: F401  must be first: it sets up jax
from test_all_reduce import main, raises
from test_install import fresh

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental.serialize_executable import deserialize_and_load as load  # noqa: E402
from jax.experimental.serialize_executable import serialize  # noqa: E402

import symtuner  # noqa: E402
from symtuner import _cache  # noqa: E402


def compiled(folder, code):
    """Run a program that lowers to the same text with and without us. Return the hits and misses of
    JAX's compile cache."""
    before, after = (
        "events = []\n"
        "jax.monitoring.register_event_listener(lambda e, **_: events.append(e.split('/')[-1]))\n",
        "\nwhole = jax.device_put(np.ones((4, 4)), NamedSharding(mesh, P('i')))\n"
        "g = jax.jit(lambda v: v.sum(0), out_shardings=NamedSharding(mesh, P()))\n"
        "events.clear()\n"
        "got = np.asarray(g(whole))\n"
        "print((got == 4).all(), events.count('cache_hits'), events.count('cache_misses'))\n",
    )
    p = fresh(
        before + code + after,
        JAX_COMPILATION_CACHE_DIR=folder,
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )
    assert p.returncode == 0, p.stderr
    return p.stdout.split()


def test_compile_cache():
    """With us, JAX does not read an entry of the cache that it wrote without us, nor vice versa."""
    hit, miss = ["True", "1", "0"], ["True", "0", "1"]
    without, ours = "", "symtuner.install()"
    away = "symtuner.install(); symtuner.uninstall()"
    off = "symtuner.install(); context = symtuner.disabled(); context.__enter__()"
    more = "import os; os.environ['SYMTUNER_ONLY'] = 'allreduce,allgather'; symtuner.install()"
    other = "symtuner.install(); mesh = Mesh(np.array(jax.devices()[::-1]), ('i',))"
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        assert compiled(first, without) == miss and compiled(second, ours) == miss
        assert compiled(first, without) == hit and compiled(second, ours) == hit
        assert compiled(first, ours) == miss and compiled(second, without) == miss
        assert compiled(first, away) == hit and compiled(first, ours) == hit
        assert compiled(first, other) == miss, "our calls name devices"
        assert compiled(second, more) == miss, "other collectives are replaced"
        assert compiled(first, off) == miss and compiled(first, off) == hit
    kept = "symtuner.install(); from symtuner import _cache; _cache.keep_out('jit__lambda')"
    with tempfile.TemporaryDirectory() as third:
        assert compiled(third, kept) == ["True", "0", "0"], "JAX counts a miss when it writes"
        assert compiled(third, ours) == miss and compiled(third, kept) == hit


_TEXT = """
  %a = f32[4]{0} custom-call(%p), custom_call_target="symtuner_all_reduce_recordable", \
api_version=API_VERSION_TYPED_FFI, backend_config={groups = dense<[0, 2, 1, 3]> : tensor<4xi64>, \
op = 0 : i32, ranks = 2 : i32}
  %b = f32[4]{0} custom-call(%a), custom_call_target="symtuner_all_reduce_xla", \
backend_config={flat = array<i64: 0, 1>, groups = array<i64: 5, 6>, op = 0 : i32, ranks = 2 : i32}
  %c = f32[4]{0} custom-call(%b), custom_call_target="other", backend_config={groups = dense<7>}
  %d = f32[8]{0} custom-call(%c), custom_call_target="symtuner_all_gather_recordable", \
backend_config={coll = 2 : i32, groups = array<i64: 8, 9>, op = 0 : i32, ranks = 2 : i32}
""".replace("\\\n", "")


def test_groups_of_a_cached_program():
    want = [(False, [[0, 2], [1, 3]]), (True, [[5, 6]]), (False, [[8, 9]])]
    assert _cache.groups_in(_TEXT) == want
    assert _cache.groups_in(_TEXT.splitlines()[3]) == []

    def call(x):  # has so many devices that MLIR writes their ids in another form
        made = jax.ffi.ffi_call("symtuner_all_reduce", jax.ShapeDtypeStruct(x.shape, x.dtype))
        return made(x, groups=np.arange(300), op=np.int32(0), ranks=np.int32(3))

    text = jax.jit(call).lower(jnp.ones(4)).compiler_ir("hlo").as_hlo_text()
    assert _cache.groups_in(text) == [(False, np.arange(300).reshape(-1, 3).tolist())]
    bad = 'custom_call_target="symtuner_all_reduce"'
    raises(symtuner.SymtunerError, "without groups", _cache.groups_in, bad)


def test_a_cached_program_whose_groups_cannot_be_opened():
    class Executable:
        def hlo_modules(self):
            raise symtuner.SymtunerError("no group")

    _cache._saved["get_executable_and_time"] = lambda key: (Executable(), 3)
    try:
        assert _cache._read("key") == (None, None)
        Executable.hlo_modules = lambda self: []
        assert _cache._read("key")[1] == 3
    finally:
        _cache._saved.clear()


def test_a_program_from_a_file():
    """A program that was lowered and compiled elsewhere opens its groups when it is loaded."""
    program = serialize(jax.jit(lambda v: v + 1).lower(jnp.ones(4)).compile())
    opened, saved = [], _cache._open_groups_of
    _cache._open_groups_of = lambda loaded: opened.append(loaded.hlo_modules()[0].name)
    symtuner.install()
    try:
        assert load(*program, execution_devices=jax.devices()[:1])(jnp.ones(4))[0] == 2
        assert opened == ["jit__lambda"], opened
    finally:
        _cache._open_groups_of = saved
        symtuner.uninstall()
    load(*program, execution_devices=jax.devices()[:1])
    assert len(opened) == 1 and not _cache._saved


if __name__ == "__main__":
    sys.exit(main(globals()))

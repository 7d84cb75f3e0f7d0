#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests symtuner.all_reduce in all places where jax.lax.psum works: meshes without devices, other
kinds of axes, groups of indices, unreduced values, and exported programs. Also tests its warnings
where it cannot run.

Four CPU devices stand for GPUs, as in test_all_reduce.py.
"""

import ctypes
import inspect
import os
import sys
import warnings
from types import SimpleNamespace

import test_all_reduce as base  # must be first: it sets up jax
from test_all_reduce import LAX, LINE, SQUARE, for_cuda, fresh, raises, smap

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax._src import dispatch  # noqa: E402
from jax.sharding import AxisType, Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import symtuner  # noqa: E402
from symtuner import _groups, _library, _say, _xla  # noqa: E402


def warned(f, *args):
    """Run f. Return its result and our warnings."""
    _say._said.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = f(*args)
    return got, [w for w in said if "symtuner" in str(w.message)]


def is_here(warning, after, lines=1):
    """Does the warning point to this file, to one of the lines after line ``after``?"""
    return warning.filename == __file__ and after < warning.lineno <= after + lines


def line():
    return inspect.currentframe().f_back.f_lineno


# ---- meshes without devices ----------------------------------------------------------------------
def nested(reduce, mesh):
    """The inner shard_map has no mesh, so JAX lowers it with an abstract mesh."""
    inner = dict(in_specs=P("j"), out_specs=P(), axis_names={"j"}, check_vma=False)
    return jax.shard_map(
        lambda w: jax.shard_map(lambda u: reduce(u, "j"), **inner)(w),
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P("i"),
        axis_names={"i"},
        check_vma=False,
    )


def test_nested_shard_map():
    x = jnp.arange(8.0)
    f = lambda reduce, mesh: jax.jit(nested(reduce, mesh))
    assert (f(symtuner.all_reduce, SQUARE)(x) == f(lax.psum, SQUARE)(x)).all()
    lines = for_cuda(f(symtuner.all_reduce, SQUARE), x)
    assert len(lines) == 1 and "[0, 1, 2, 3]" in lines[0] and "ranks = 2" in lines[0], lines
    other = Mesh(np.array(jax.devices()).reshape(2, 2).T, ("i", "j"))
    lines = for_cuda(f(symtuner.all_reduce, other), x)
    assert "[0, 2, 1, 3]" in lines[0] and "ranks = 2" in lines[0], lines


def test_abstract_mesh():
    """The devices of the group are those of the arguments, if these are on devices."""
    abstract = SQUARE.abstract_mesh

    def over(reduce):
        specs = dict(in_specs=P("i"), out_specs=P(), check_vma=False)
        return jax.jit(jax.shard_map(reduce, mesh=abstract, **specs))

    at = line()
    ours = over(lambda v: symtuner.all_reduce(v, "i"))
    other = Mesh(np.array(jax.devices())[[3, 0, 2, 1]].reshape(2, 2), ("i", "j"))
    for mesh, ids in ((SQUARE, "[0, 2, 1, 3]"), (other, "[0, 1, 2, 3]"), (SQUARE, "[0, 2, 1, 3]")):
        x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("i")))
        lines = for_cuda(ours, x)
        assert len(lines) == 1 and ids in lines[0], lines
        assert (ours(x) == over(lambda v: lax.psum(v, "i"))(x)).all()
    nowhere = jax.ShapeDtypeStruct((8,), np.float64, sharding=NamedSharding(abstract, P("i")))
    lines, said = warned(for_cuda, ours, nowhere)
    assert lines == [] and len(said) == 1 and is_here(said[0], at), [str(w) for w in said]
    assert "give jax.shard_map a jax.sharding.Mesh" in str(said[0].message)


def test_jax_that_asks_for_no_devices():
    """A release of JAX may use one lowering for several lists of devices. Then symtuner does not
    know the devices even with jax.set_mesh(), and leaves the call to jax.lax."""
    saved = dispatch.jaxpr_has_prim_requiring_devices
    dispatch.jaxpr_has_prim_requiring_devices = lambda jaxpr: False
    specs = dict(in_specs=P("i"), out_specs=P(), check_vma=False)
    reduce = lambda v: symtuner.all_reduce(v, "i")
    x = jnp.arange(8.0)
    try:
        assert len(for_cuda(jax.jit(jax.shard_map(reduce, mesh=SQUARE, **specs)), x)) == 1
        assert len(for_cuda(jax.jit(nested(symtuner.all_reduce, SQUARE)), x)) == 1
        with jax.set_mesh(SQUARE):
            lines, said = warned(for_cuda, jax.jit(jax.shard_map(reduce, **specs)), x)
        assert lines == [] and "the devices are not known" in str(said[0].message), (lines, said)
    finally:
        dispatch.jaxpr_has_prim_requiring_devices = saved
    with jax.set_mesh(SQUARE):
        assert len(for_cuda(jax.jit(jax.shard_map(reduce, **specs)), x)) == 1


# ---- axes, groups --------------------------------------------------------------------------------
def test_axis_index_groups():
    x = jnp.arange(1, 9.0)
    for groups in ([[0, 3], [1, 2]], [[3, 1], [2, 0]], [[0, 1, 2, 3]]):
        want = {
            op: smap(lambda v: f(v, "i", axis_index_groups=groups))(x)
            for op, f in LAX.items()
            if op != "prod"
        }
        want["prod"] = jnp.zeros_like(x)
        for group in groups:
            product = x.reshape(4, 2)[jnp.array(group)].prod(0)
            want["prod"] = want["prod"].reshape(4, 2).at[jnp.array(group)].set(product).reshape(-1)
        for op in LAX:
            f = smap(lambda v: symtuner.all_reduce(v, "i", op, axis_index_groups=groups))
            assert np.allclose(f(x), want[op], rtol=1e-14), (groups, op)
            assert len(for_cuda(f, x)) == 1
    ids = "groups = dense<[0, 3, 1, 2]> : tensor<4xi64>"
    f = lambda groups: smap(lambda v: symtuner.all_reduce(v, "i", axis_index_groups=groups))
    lines = for_cuda(f([[3, 0], [1, 2]]), x)
    assert ids in lines[0] and "ranks = 2" in lines[0], lines
    in_square = smap(
        lambda v: symtuner.all_reduce(v, ("i", "j"), axis_index_groups=[[0, 3], [1, 2]]),
        SQUARE,
        P(("i", "j")),
        P(("i", "j")),
    )
    assert ids in for_cuda(in_square, x)[0]


def test_gradient_with_axis_index_groups():
    x, groups = jnp.arange(8.0) / 3, [[0, 3], [1, 2]]
    for op in ("sum", "avg"):

        def loss(f, v):
            g = smap(lambda u: f(jnp.sin(u), "i", axis_index_groups=groups) * u[0])
            return jnp.cos(g(v)).sum()

        ours = jax.grad(lambda v: loss(lambda u, a, **k: symtuner.all_reduce(u, a, op, **k), v))(x)
        assert np.allclose(ours, jax.grad(lambda v: loss(LAX[op], v))(x), rtol=1e-12), op


def test_wrong_axis_index_groups():
    x = jnp.ones(8)
    f = lambda reduce, groups: smap(lambda v: reduce(v, "i", axis_index_groups=groups))
    raises(ValueError, "invalid literal", f(symtuner.all_reduce, [["a"]]), x)
    # jax.lax raises this error
    raises(ValueError, "exactly once", f(symtuner.all_reduce, [[0, 1], [1, 2]]), x)
    for groups in ([[0, 1, 2]], [[1, 0]]):  # XLA refuses these groups later
        lines, said = warned(for_cuda, f(symtuner.all_reduce, groups), x)
        assert lines == [] and "each index of the axis once" in str(said[0].message), said
    (got, want), said = warned(
        lambda: [f(r, [[0, 1, 2], [3]])(x) for r in (symtuner.all_reduce, lax.psum)]
    )
    assert (got == want).all() and "have different sizes" in str(said[0].message), said


def test_own_axes():
    x = jnp.arange(24.0).reshape(4, 6) + 1
    for op, by in {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}.items():
        for axes in ((0, "i"), ("i", 1), (0, 1)):
            ours = smap(lambda v: jnp.atleast_1d(symtuner.all_reduce(v, axes, op)))
            want = smap(lambda v: jnp.atleast_1d(by(v, axes)))
            assert np.array_equal(ours(x), want(x)), (op, axes)
            assert len(for_cuda(ours, x)) == ("i" in axes), (op, axes)
    product = smap(lambda v: symtuner.all_reduce(v, (0, "i"), "prod"))
    assert np.allclose(product(x)[:6], x.prod(0)) and len(for_cuda(product, x)) == 1
    small = smap(lambda v: symtuner.all_reduce(v, (0, "i")))
    assert small(jnp.ones((4, 3), jnp.int8)).dtype == jnp.int8


def test_own_axes_warn_of_nothing():
    _, said = warned(for_cuda, smap(lambda v: symtuner.all_reduce(v, (0, "i"))), jnp.ones((4, 6)))
    assert said == [], [str(w.message) for w in said]


def test_vmapped_axes():
    x = jnp.arange(1, 25.0).reshape(4, 6)
    for op in ("sum", "avg", "max", "min", "prod"):
        for axes in (("k", "i"), ("i", "k"), "k"):

            def over(reduce):
                return smap(lambda v: jax.vmap(lambda u: reduce(u, axes), axis_name="k")(v))

            ours = over(lambda u, a: symtuner.all_reduce(u, a, op))
            if op != "prod":
                assert np.allclose(ours(x), over(LAX[op])(x), rtol=1e-14), (op, axes)
            lines, said = warned(for_cuda, ours, x)
            assert len(lines) == ("i" in axes) and said == [], (op, axes, said)
    product = lambda u: symtuner.all_reduce(u, ("k", "i"), "prod")
    f = smap(lambda v: jax.vmap(product, axis_name="k")(v))
    assert np.allclose(f(x)[0], x.prod(0))


# ---- unreduced values ----------------------------------------------------------------------------
def test_unreduced():
    mesh = Mesh(np.array(jax.devices()), ("i",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("i")))

        def over(reduce):
            g = jax.shard_map(reduce, in_specs=P(unreduced={"i"}), out_specs=P())
            part = lambda a, b: jnp.einsum("i,i->", a, b, out_sharding=P(unreduced={"i"}))
            return jax.jit(lambda a, b: g(part(a, b)))

        for op in ("sum", "avg"):
            ours = over(lambda v: symtuner.all_reduce(v, "i", op))
            want = over(lambda v: LAX[op](v, "i"))
            assert ours(x, x) == want(x, x) and len(for_cuda(ours, x, x)) == 1, op
            grads = [jax.grad(lambda u: f(u, x))(x) for f in (ours, want)]
            assert np.array_equal(*grads), op
        raises(ValueError, "op='prod'", over(lambda v: symtuner.all_reduce(v, "i", "prod")), x, x)


def test_unknown_reduction():
    """A later jax may trace psum in a way that we do not know. Then jax.lax runs, with a
    warning."""
    saved = base._all_reduce._REDUCTIONS
    base._all_reduce._REDUCTIONS = ("nothing",)
    try:
        f = smap(lambda v: symtuner.all_reduce(v, "i"))
        got, said = warned(f, jnp.ones(4))
        assert (got == 4).all() and "this jax reduces by psum" in str(said[0].message), said
    finally:
        base._all_reduce._REDUCTIONS = saved


# ---- what is said --------------------------------------------------------------------------------
def test_warnings_name_the_line():
    at = line()
    f = smap(lambda v: symtuner.all_reduce(v, "i"))  # the warning names this line

    def sentence(x):
        got, said = warned(f, x)
        assert len(said) == 1 and is_here(said[0], at), [(w.filename, w.lineno) for w in said]
        return str(said[0].message)

    # the warning comes while the call is lowered
    assert "is for cpu, not for CUDA" in sentence(jnp.ones(4))
    # the warning comes while the call is traced
    assert "NCCL has no data type int16" in sentence(jnp.ones(4, jnp.int16))
    at = line()

    def two(v):
        first = symtuner.all_reduce(v, "i")
        return symtuner.all_reduce(v[None], "i") + first  # a new shape, so JAX lowers it, too

    _, said = warned(smap(two), jnp.ones(4))
    assert [w.lineno for w in said] == [at + 3, at + 4], said


def test_strict():
    p = fresh("f()(jnp.ones(4))", SYMTUNER_JAX_STRICT="1")
    says = "SYMTUNER_JAX_STRICT=1 forbids jax.lax instead: the program is"
    assert p.returncode == 1 and says in p.stderr, p
    assert "<string>:7: symtuner.all_reduce cannot run here" in p.stderr, p
    on_gpus = "print(f().trace(jnp.ones(4)).lower(lowering_platforms=('cuda',)).as_text())"
    p = fresh(on_gpus, SYMTUNER_JAX_STRICT="1")
    assert p.returncode == 0 and "@symtuner_all_reduce" in p.stdout, p.stderr
    p = fresh(on_gpus, SYMTUNER_JAX_STRICT="1", SYMTUNER_LIB_DIR="/nonexistent")
    assert p.returncode == 1 and "libsymtuner_ffi.so is not in /nonexistent" in p.stderr, p
    p = fresh("f()(jnp.ones(4))", SYMTUNER_JAX_STRICT="yes")
    assert "SYMTUNER_JAX_STRICT='yes' is unknown; write one of 0, 1" in p.stderr, p


def test_export():
    at = line()
    f = smap(lambda v: symtuner.all_reduce(v, "i"))
    export = lambda **more: jax.export.export(f, platforms=("cuda",), **more)(jnp.ones(4))
    said = []

    def refused():
        nonlocal said
        _, said = warned(lambda: raises(ValueError, "custom call", export))

    refused()
    assert len(said) == 1 and is_here(said[0], at), said
    text = str(said[0].message)
    assert "symtuner.open_group(devices)" in text
    # the expression that the warning proposes works
    checks = eval(text[text.index("[") : text.index("]") + 1])
    assert "@symtuner_all_reduce_recordable(" in export(disabled_checks=checks).mlir_module()


# ---- compiler options ----------------------------------------------------------------------------
def test_compiler_options():
    name = "xla_gpu_command_buffer_scheduling_mode"

    def target(**options):
        f = lambda v: symtuner.all_reduce(v, "i")
        g = jax.shard_map(f, mesh=LINE, in_specs=P("i"), out_specs=P("i"), check_vma=False)
        lines = for_cuda(jax.jit(g, compiler_options=options), jnp.ones(4))
        return lines[0].split("(")[0].split("@")[1]

    assert target() == target(xla_gpu_graph_min_graph_size=2) == _library.RECORDABLE
    for mode in ("CONCURRENT", "concurrent_regions", 1):
        assert target(**{name: mode}) == _library.TARGET, mode
    assert target(**{name: "LHS"}) == _library.RECORDABLE


def test_compiler_options_that_cannot_be_seen():
    """JAX lowers a function once for all of its jits, as docs/reference/jax-runtime.md says. If
    this test fails, a release of JAX has changed that, and the page needs an update."""
    f = jax.shard_map(
        lambda v: symtuner.all_reduce(v, "i"), mesh=LINE, in_specs=P("i"), out_specs=P("i")
    )
    options = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
    for jit in (jax.jit(f), jax.jit(f, compiler_options=options)):
        assert "_recordable(" in for_cuda(jit, jnp.ones(4))[0]


# ---- how often XLA calls the handlers ------------------------------------------------------------
def test_stages():
    """In a program with 80 calls, XLA calls a handler before each run only for the calls that need
    it, and once for each of them."""

    def asked(size):
        f = smap(lambda v: [symtuner.all_reduce(v + k, "i") for k in range(80)])
        names = [s.split("@")[1].split("(")[0] for s in for_cuda(f, jnp.zeros(4 * size))]
        assert len(names) == 80
        return [sum(stage in _library.TARGETS[n][1] for n in names) for stage in _STAGES]

    assert asked(16) == [0, 80, 80], asked(16)
    large = jax.ShapeDtypeStruct((4 * (2 << 20),), jnp.float64)  # each part has 16 MiB
    f = smap(lambda v: symtuner.all_reduce(v, "i"))
    assert "@symtuner_all_reduce_meeting(" in for_cuda(f, large)[0]
    made = _library.load()
    for across, xla, stages in ((True, False, 2), (True, True, 3), (False, False, 2)):
        assert len(_library.TARGETS[made.target(64, across, xla, {})][1]) == stages


_STAGES = ("prepare", "initialize", "execute")


# ---- groups that cannot be had -------------------------------------------------------------------
class Device:
    process_index, platform = 0, "gpu"

    def __init__(self, number):
        self.id = self.local_hardware_id = number


def test_memory_that_is_short():
    row, tries = [Device(1), Device(0)], []
    saved = _groups._open_one, _groups.PAUSES_S, _groups.LATER_S

    def open_one(devices, xla):
        tries.append([d.id for d in devices])
        if len(tries) < enough:
            raise symtuner.SymtunerError(why)

    def tried():
        try:
            _groups.open_rows([row], False)
            return len(tries), ""
        except symtuner.SymtunerError as e:
            return len(tries), str(e)

    _groups._open_one, _groups.PAUSES_S = open_one, (0, 0)
    try:
        why, enough = "GPU 0: out of memory", 3
        assert tried() == (3, "") and tried() == (3, "") and tries[0] == [0, 1]
        _groups._open.clear(), _groups._settled.clear(), tries.clear()
        enough = 5
        assert tried() == (3, why) and tried() == (3, why), "not for each call of a program"
        _groups.LATER_S = 0
        assert tried() == (4, why) and tried() == (5, "") and tried() == (5, "")
        _groups._open.clear(), _groups._settled.clear(), tries.clear()
        why, enough = "GPU 0 cannot reach GPU 1", 3
        assert tried() == (1, why) and tried() == (1, why), "that does not pass"
        symtuner.retry()
        assert tried() == (2, why)
        symtuner.retry()
        assert tried() == (3, "")
        symtuner.retry()
        assert tried() == (3, ""), "what is open stays"
    finally:
        _groups._open_one, _groups.PAUSES_S, _groups.LATER_S = saved
        _groups._open.clear(), _groups._settled.clear()


def test_settings_load_no_library():
    """JAX calls settings() often, because its result is part of the key of each program in JAX's
    compile cache. So settings() must load no library."""
    library, cdll = _library.load(), ctypes.CDLL

    def refuse(*_):
        raise AssertionError("a library was loaded again")

    ctypes.CDLL = refuse
    try:
        assert "box by box: 0" in library.settings()
    finally:
        ctypes.CDLL = cdll


def test_time_limits():
    """The limits are long, because without us NCCL would run the calls, and NCCL waits for ever."""
    os.environ.pop("SYMTUNER_AR_TIMEOUT_MS", None)
    assert _groups.timeout_ms("processes") == 24 * 3600 * 1000
    assert _groups.timeout_ms("local") >= 600 * 1000
    os.environ["SYMTUNER_AR_TIMEOUT_MS"] = "5"
    assert _groups.timeout_ms("local") == 0, "the library reads the variable"
    del os.environ["SYMTUNER_AR_TIMEOUT_MS"]


def test_memory_of_xla():
    """With SYMTUNER_AR_IPC=1 the library sees an address in XLA's memory before a group is opened.
    If there is no such memory, the library sees an address that no process can map."""
    told = []
    library = SimpleNamespace(
        _c=SimpleNamespace(symtuner_ffi_memory=lambda p: told.append(p.value)))
    saved = _xla.load, jax.local_devices
    _xla.load = lambda: library

    def show():
        _xla.show_memory.cache_clear()
        told.clear()
        _xla.show_memory(), _xla.show_memory()
        return told

    try:
        assert show() == []
        os.environ["SYMTUNER_AR_IPC"] = "1"
        assert show() == [1], "there is no GPU"
        jax.local_devices = lambda backend: [jax.devices()[3]]
        assert len(show()) == 1 and told[0] > 4096, told
    finally:
        os.environ.pop("SYMTUNER_AR_IPC", None)
        _xla.load, jax.local_devices = saved
        _xla.show_memory.cache_clear()


if __name__ == "__main__":
    sys.exit(base.main(globals()))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests symtuner.all_reduce without a GPU: what it lowers to, and that on other devices the
function of jax.lax runs.

Four CPU devices stand for GPUs. Programs are lowered for CUDA, and the tests read the result. When
a program runs on the CPU, jax.lax runs it.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import symtuner  # noqa: E402
from symtuner import _all_reduce, _library, _processes, _xla  # noqa: E402

jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")
LINE = Mesh(np.array(jax.devices()), ("i",))
SQUARE = Mesh(np.array(jax.devices()).reshape(2, 2), ("i", "j"))
LAX = {
    "sum": lax.psum,
    "avg": lax.pmean,
    "max": lax.pmax,
    "min": lax.pmin,
    "prod": lambda v, axis: lax.all_gather(v, axis).prod(0, dtype=v.dtype),
}


def smap(f, mesh=LINE, ins=P("i"), outs=P("i"), vma=False):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=vma))


def for_cuda(f, *args):
    text = f.trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    return [
        line.strip()
        for line in text.splitlines()
        if re.search(r"@symtuner_all_reduce\w*\(", line) and "custom_call" in line
    ]


def raises(kind, words, f, *args):
    try:
        f(*args)
    except kind as e:
        assert words in str(e), e
        return
    raise AssertionError(f"no {kind.__name__}")


def test_custom_call():
    for op, number in _all_reduce.OPS.items():
        lines = for_cuda(smap(lambda v: symtuner.all_reduce(v, "i", op)), jnp.ones((8, 3, 5)))
        assert len(lines) == 1, lines
        for part in (
            f"op = {number} : i32",
            "ranks = 4 : i32",
            "groups = dense<[0, 1, 2, 3]> : tensor<4xi64>",
            "operand_layouts = [dense<[2, 1, 0]> : tensor<3xindex>]",
            "result_layouts = [dense<[2, 1, 0]> : tensor<3xindex>]",
            "tensor<2x3x5xf64>) -> tensor<2x3x5xf64>",
        ):
            assert part in lines[0], (part, lines[0])


def test_api_version_is_typed_ffi():
    f = smap(lambda v: symtuner.all_reduce(v, "i"))
    low = f.trace(jnp.ones(4)).lower(lowering_platforms=("cuda",))
    lines = [s for s in str(low.compiler_ir()).splitlines() if "@symtuner_all_reduce" in s]
    assert "mhlo.backend_config = {" in lines[0] or "api_version = 4" in lines[0], lines


def test_every_type():
    for name in sorted(_all_reduce._DTYPES):
        x = jnp.zeros(8, dtype=name)
        assert len(for_cuda(smap(lambda v: symtuner.all_reduce(v, "i")), x)) == 1, name


def test_other_types_fall_back():
    for name in ("int16", "uint16", "float8_e4m3b11fnuz"):
        assert (
            for_cuda(smap(lambda v: symtuner.all_reduce(v, "i")), jnp.zeros(8, dtype=name)) == []
        ), name
    got = smap(lambda v: symtuner.all_reduce(v, "i"))(jnp.ones(8, jnp.int16))
    assert got.dtype == jnp.int16 and (got == 4).all()


def test_groups_of_axes():
    f = lambda *axes: for_cuda(
        smap(lambda v: symtuner.all_reduce(v, axes), SQUARE, P("i", "j"), P("i", "j")),
        jnp.ones((2, 2)),
    )[0]
    assert "[0, 2, 1, 3]" in f("i") and "ranks = 2" in f("i")
    assert "[0, 1, 2, 3]" in f("j") and "ranks = 2" in f("j")
    assert "[0, 1, 2, 3]" in f("i", "j") and "ranks = 4" in f("i", "j")
    # the same devices make one group, whose order of addition is always the same
    assert "[0, 1, 2, 3]" in f("j", "i") and "ranks = 4" in f("j", "i")
    backwards = Mesh(np.array(jax.devices()[::-1]).reshape(2, 2), ("i", "j"))
    lines = for_cuda(smap(lambda v: symtuner.all_reduce(v, "j"), backwards, P("i")), jnp.ones(4))
    assert "[0, 1, 2, 3]" in lines[0] and "ranks = 2" in lines[0], lines


def test_values_are_those_of_lax():
    x = jnp.asarray(np.random.default_rng(0).uniform(-2, 2, (4, 3, 5)))
    for op, ref in LAX.items():
        a, b = (
            smap(lambda v: f(v, "i"))(x) for f in (lambda v, n: symtuner.all_reduce(v, n, op), ref)
        )
        assert a.dtype == b.dtype and np.allclose(a, b, rtol=1e-14), op


def test_integers_and_bools():
    ints = jnp.arange(4)
    assert (smap(lambda v: symtuner.all_reduce(v, "i", "avg"))(ints) == 1.5).all()
    assert len(for_cuda(smap(lambda v: symtuner.all_reduce(v, "i", "avg")), ints)) == 1
    got = smap(lambda v: symtuner.all_reduce(v, "i"))(ints > 1)
    assert got.dtype == smap(lambda v: lax.psum(v, "i"))(ints > 1).dtype and (got == 2).all()


def test_pytree():
    tree = {"a": jnp.ones((4, 2)), "b": (jnp.ones(4, jnp.int32), [jnp.ones((8, 1), jnp.float32)])}
    f = smap(lambda t: symtuner.all_reduce(t, "i"))
    got = f(tree)
    assert jax.tree.structure(got) == jax.tree.structure(tree)
    assert all((leaf == 4).all() for leaf in jax.tree.leaves(got))
    assert len(for_cuda(f, tree)) == 3


def test_constant():
    assert for_cuda(smap(lambda v: v * symtuner.all_reduce(1, "i")), jnp.ones(4)) == []
    assert (smap(lambda v: v * symtuner.all_reduce(2.0, "i"))(jnp.ones(4)) == 8).all()


def test_gradients_are_those_of_lax():
    x = jnp.arange(8.0) / 3
    for vma in (False, True):
        for op in ("sum", "avg"):

            def loss(f, v):
                return jnp.cos(
                    smap(
                        lambda u: f(jnp.sin(u)) * u[0] if not vma else f(jnp.sin(u)),
                        outs=P() if vma else P("i"),
                        vma=vma,
                    )(v)
                ).sum()

            for derive in (jax.grad, jax.hessian, jax.jacfwd, jax.jacrev):
                ours = derive(lambda v: loss(lambda u: symtuner.all_reduce(u, "i", op), v))(x)
                want = derive(lambda v: loss(lambda u: LAX[op](u, "i"), v))(x)
                assert np.allclose(ours, want, rtol=1e-12), (vma, op, derive.__name__)


def test_backward_is_our_call_too():
    f = smap(lambda v: jax.grad(lambda u: (symtuner.all_reduce(u, "i") ** 2).sum())(v))
    assert len(for_cuda(f, jnp.ones(8))) == 2


def test_max_has_no_derivative():
    for op in ("max", "min", "prod"):
        f = smap(lambda v: jax.grad(lambda u: symtuner.all_reduce(u, "i", op).sum())(v))
        raises(NotImplementedError, "has no derivative", f, jnp.ones(4))


def test_vmap():
    f = smap(lambda v: jax.vmap(lambda u: symtuner.all_reduce(u, "i"), in_axes=1, out_axes=1)(v))
    x = jnp.arange(24.0).reshape(4, 6)
    assert (f(x) == jnp.broadcast_to(x.sum(0), (4, 6))).all()
    assert len(for_cuda(f, x)) == 1
    outer = jax.vmap(
        lambda v: jax.shard_map(
            lambda u: symtuner.all_reduce(u, "i"),
            mesh=LINE,
            in_specs=P("i"),
            out_specs=P("i"),
            check_vma=False,
        )(v)
    )
    assert (outer(x.T) == jnp.broadcast_to(x.sum(0)[:, None], (6, 4))).all()


def test_vmapped_axis_name_is_lax():
    got = jax.vmap(lambda v: symtuner.all_reduce(v, "k"), axis_name="k")(jnp.arange(5.0))
    assert (got == 10).all()


def test_pmap_and_set_mesh():
    p = jax.pmap(lambda v: symtuner.all_reduce(v, "i"), axis_name="i")
    assert (p(jnp.arange(4.0)) == 6).all() and len(for_cuda(jax.jit(p), jnp.arange(4.0))) == 1
    code = """
        jax.set_mesh(mesh)
        s = dict(in_specs=P('i'), out_specs=P())
        f = jax.jit(jax.shard_map(lambda v: symtuner.all_reduce(v, 'i'), **s))
        text = f.trace(jnp.ones(4)).lower(lowering_platforms=('cuda',)).as_text()
        print(f(jnp.ones(4))[0], text.count('custom_call @symtuner'))"""
    assert fresh(code).stdout.split() == ["4.0", "1"], fresh(code)


def test_control_flow():
    f = smap(lambda v: lax.fori_loop(0, 3, lambda i, u: symtuner.all_reduce(u, "i") / 4, v))
    assert (f(jnp.ones(4)) == 1).all() and len(for_cuda(f, jnp.ones(4))) == 1
    g = smap(lambda v: jax.checkpoint(lambda u: symtuner.all_reduce(jnp.sin(u), "i"))(v))
    assert np.allclose(g(jnp.ones(4)), 4 * np.sin(1))
    h = smap(
        lambda v: lax.scan(lambda c, _: (symtuner.all_reduce(c, "i", "avg"), c.sum()), v, None, 5)[
            0
        ]
    )
    assert (h(jnp.ones(4)) == 1).all()


def test_varying_axes_as_psum():
    f = jax.shard_map(
        lambda v: symtuner.all_reduce(v, "i"), mesh=LINE, in_specs=P("i"), out_specs=P()
    )
    assert f(jnp.arange(4.0)) == 6
    for op in LAX:
        for dtype in (jnp.float32, jnp.int16):  # the first type takes our call, the second jax.lax
            g = jax.shard_map(
                lambda v: symtuner.all_reduce(v, "i", op), mesh=LINE, in_specs=P("i"), out_specs=P()
            )
            want = {"sum": 10, "avg": 2.5, "max": 4, "min": 1, "prod": 24}
            assert g(jnp.arange(1, 5, dtype=dtype)) == want[op], (op, dtype)
    bad = jax.shard_map(
        lambda v: symtuner.all_reduce(v, "j"), mesh=SQUARE, in_specs=P("i", "j"), out_specs=P()
    )
    raises(ValueError, "out_specs", bad, jnp.ones((2, 2)))


def test_errors():
    x = jnp.ones(4)
    raises(ValueError, "op='mul' is unknown", smap(lambda v: symtuner.all_reduce(v, "i", "mul")), x)
    raises(NameError, "nope", smap(lambda v: symtuner.all_reduce(v, "nope")), x)


def fresh(code, **env):
    """Run ``code`` in a process of its own, because the package reads settings only once."""
    script = (
        "import warnings; warnings.simplefilter('always')\n"
        + textwrap.dedent("""
        import jax, jax.numpy as jnp, numpy as np, symtuner
        from jax.sharding import Mesh, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()), ('i',))
        def f(n=1):
            s = jax.jit(jax.shard_map(lambda v: [symtuner.all_reduce(v * k, 'i') for k in range(n)],
                                      mesh=mesh, in_specs=P('i'), out_specs=P('i')))
            return s
        """)
        + textwrap.dedent(code)
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        env=dict(os.environ, **env),
        text=True,
        capture_output=True,
        timeout=120,
    )


def test_keys_are_no_numbers():
    """For random keys, which are no numbers, our function gives the same error as that of
    jax.lax."""
    f = smap(lambda v: symtuner.all_reduce(v, "i"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            f(jax.random.split(jax.random.key(0), 4))
        except Exception as e:
            assert "symtuner" not in str(e), e
    assert "is not a type of numbers" in str(said[0].message), said


def test_one_warning_says_why():
    p = fresh("print(jnp.sum(f(3)(jnp.ones(4))[1]))")
    assert p.stdout.strip() == "16.0", p
    assert p.stderr.count("uses jax.lax instead") == 1 and "is for cpu, not for CUDA" in p.stderr, (
        p.stderr
    )


def test_command_buffers():
    """Check which calls XLA may record."""
    script = (
        "from symtuner import _library\n"
        "made = _library.load()\n"
        "print(*(int(made.target(n, a, False, {}) == _library.RECORDABLE)\n"
        "        for a in (False, True) for n in (1 << 20, 12 << 20, (12 << 20) + 1)))\n"
        "names = {made.target(1 << n, True, True, {}, c)\n"
        "         for n in (10, 24) for c in _library.COLLS}\n"
        "assert not any('recordable' in name for name in names), names\n"
        "text = f().trace(jnp.ones(4)).lower(lowering_platforms=('cuda',)).as_text()\n"
        "print(text.count('@symtuner_all_reduce_recordable('))"
    )

    def which(**env):
        p = fresh(script, **env)
        assert p.returncode == 0, p.stderr
        return p.stdout.split()

    assert which() == "1 1 0 1 0 0 1".split()
    assert which(SYMTUNER_JAX_COMMAND_BUFFERS="0") == "0 0 0 0 0 0 0".split()
    assert which(SYMTUNER_JAX_COMMAND_BUFFERS="1") == "1 1 0 1 1 1 1".split()
    assert which(SYMTUNER_JAX_ZERO_COPY="0") == "1 1 1 1 0 0 1".split()
    saved = os.environ["XLA_FLAGS"]  # jax has read it already
    try:
        for mode, record in ("CONCURRENT", "0"), ('"CONCURRENT_REGIONS"', "0"), ("LHS", "auto"):
            os.environ["XLA_FLAGS"] = f"--a=b --xla_gpu_command_buffer_scheduling_mode={mode}"
            assert _library._record() == record, mode
        os.environ["XLA_FLAGS"] = "--xla_gpu_command_buffer_scheduling_mode=CONCURRENT"
        os.environ["SYMTUNER_JAX_COMMAND_BUFFERS"] = "1"
        assert _library._record() == "1"  # as the user's setting asks
    finally:
        os.environ["XLA_FLAGS"] = saved
        os.environ.pop("SYMTUNER_JAX_COMMAND_BUFFERS", None)
    p = fresh(script, SYMTUNER_JAX_COMMAND_BUFFERS="yes")
    assert "SYMTUNER_JAX_COMMAND_BUFFERS='yes' is unknown; write one of auto, 0, 1" in p.stderr


def test_missing_library():
    p = fresh(
        "text = f().trace(jnp.ones(4)).lower(lowering_platforms=('cuda',)).as_text()\n"
        "print(text.count('custom_call @symtuner'), text.count('stablehlo.all_reduce'))",
        SYMTUNER_LIB_DIR="/nonexistent",
    )
    assert p.stdout.strip() == "0 1" and "libsymtuner_ffi.so is not in /nonexistent" in p.stderr, p


def test_library_of_another_version():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libsymtuner_ffi.so", "libsymtuner_ar.so"):  # both lead to libsymtuner_ar.so
            os.symlink(_library.load().ar_path.resolve(), os.path.join(folder, name))
        p = fresh(
            "text = f().trace(jnp.ones(4)).lower(lowering_platforms=('cuda',)).as_text()\n"
            "print(text.count('custom_call @symtuner'), text.count('stablehlo.all_reduce'))",
            SYMTUNER_LIB_DIR=folder,
        )
    assert p.stdout.strip() == "0 1" and "is of another version of symtuner" in p.stderr, p


def test_wrong_setting():
    p = fresh(
        "f().trace(jnp.ones(4)).lower(lowering_platforms=('cuda',))", SYMTUNER_JAX_ZERO_COPY="maybe"
    )
    assert "SYMTUNER_JAX_ZERO_COPY='maybe' is unknown; write one of 0, 1" in p.stderr, p.stderr


def test_xla_communicator():
    """Check which groups a program opens, and what it tells the handler about them."""

    class Device:
        platform = "gpu"

        def __init__(self, place, process):
            self.id, self.process_index = 100 - place, process

    class Somebody:
        pass

    def lower(processes, shape, names, axes, use):
        ctx = Somebody()
        ctx.module_context = Somebody()
        ctx.module_context.axis_context = Somebody()
        ctx.module_context.axis_context.mesh = mesh = Somebody()
        devices = [Device(i, p) for i, p in enumerate(processes)]
        mesh.devices, mesh.axis_names = np.array(devices).reshape(shape), names
        opened = []
        saved = _all_reduce.open_rows, _xla.use
        _all_reduce.open_rows = lambda rows, xla, by_name: opened.extend(
            ([d.id for d in row], xla) for row in rows
        )
        _xla.use = use
        try:
            return _all_reduce._open_groups(ctx, axes, None, True), opened
        finally:
            _all_reduce.open_rows, _xla.use = saved

    def never():
        raise AssertionError("asked without need")

    (said, across), opened = lower([0, 1, 2, 3], (2, 2), ("i", "j"), ("i",), lambda: True)
    assert across and said["flat"].tolist() == [3, 1, 2, 0] and said["ranks"] == 2
    assert said["groups"].tolist() == [97, 99, 98, 100] and said["flat"].dtype == np.int64
    assert opened == [([97, 99], True), ([98, 100], True)]
    (said, across), opened = lower([0, 1, 2, 3], (4,), ("i",), ("i",), lambda: False)
    assert across and "flat" not in said and opened == [([97, 98, 99, 100], False)]
    (said, across), opened = lower([0, 0, 0, 0], (4,), ("i",), ("i",), never)
    assert not across and "flat" not in said and opened == [([97, 98, 99, 100], False)]
    (said, across), opened = lower([0, 0, 1, 1], (2, 2), ("i", "j"), ("j",), never)
    assert not across and "flat" not in said and len(opened) == 2
    os.environ["SYMTUNER_JAX_COMM"] = "xla"
    try:  # the probe of _xla.py cannot run without a GPU, and says so
        assert _xla.use() is True
        raises(symtuner.SymtunerError, "leave it at own: Unknown backend", _xla.check, True)
        os.environ["SYMTUNER_JAX_COMM"] = "auto"
        assert _xla.use() is False
        saved, _library.load().record = _library.load().record, "1"
        with contextlib.redirect_stderr(io.StringIO()) as said:
            _xla.check(False), _xla.check(True), _xla.check(True)
        _library.load().record = saved
        assert said.getvalue().count("SYMTUNER_JAX_COMMAND_BUFFERS=1 does not hold for") == 1
    finally:
        del os.environ["SYMTUNER_JAX_COMM"]
    assert _xla.use() is False
    for bad in ("nccl", ""):
        os.environ["SYMTUNER_JAX_COMM"] = bad
        assert _xla.use() is False
        raises(symtuner.SymtunerError, "write one of own, auto, xla", _xla.check, False)
    del os.environ["SYMTUNER_JAX_COMM"]


def test_verdicts():
    """A step of several processes ends in the same way for all processes, even if one has timed
    out."""

    class Store:
        def __init__(self, *slow):
            self.words, self.slow = {}, list(slow)

        def key_value_set(self, key, word):
            if key in self.words:
                raise RuntimeError(f"ALREADY_EXISTS: {key}")
            self.words[key] = word

        def blocking_key_value_get(self, key, ms):
            if key in self.slow:
                self.slow.remove(key)
                raise RuntimeError(f"DEADLINE_EXCEEDED: {key}, {ms} ms")
            return self.words[key]

    def talk(store, me):
        _processes.coordinator = lambda: store
        made = _processes._Talk((7, 8), me)
        made.key = "k"
        return made

    saved = _processes.coordinator
    try:
        store = Store("k/s/1")  # rank 1's answer comes after rank 0 has timed out
        store.words = {"k/s/1": "+b", "k/s/verdict": "+"}
        assert talk(store, 0).share("s", lambda: "a") == ["a", "b"]
        store = Store("k/s/1")
        gave_up = "rank 1 did not answer within 120 s: DEADLINE_EXCEEDED: k/s/1, 120000 ms; all"
        raises(symtuner.SymtunerError, gave_up, talk(store, 0).share, "s", lambda: "a")
        raises(symtuner.SymtunerError, gave_up, talk(store, 1).share, "s", lambda: "b")
        assert store.words["k/s/1"] == "+b"
        again = "another process was rank 1 of this group before; restart all processes"
        raises(symtuner.SymtunerError, again, talk(store, 1).share, "s", lambda: "b")
        gone = "the coordinator of jax.distributed does not answer: no words"
        store.key_value_set = lambda *_: (_ for _ in ()).throw(RuntimeError("no words"))
        raises(symtuner.SymtunerError, gone, talk(store, 0).share, "s", lambda: "a")
    finally:
        _processes.coordinator = saved
    raises(symtuner.SymtunerError, "call jax.distributed.initialize() first",
           _processes.coordinator)


def test_groups_and_close():
    assert symtuner.groups() == [] and symtuner.describe() is None
    symtuner.close()
    raises(symtuner.SymtunerError, "one GPU", symtuner.open_group, jax.devices()[:1])
    raises(symtuner.SymtunerError, "list of devices is empty", symtuner.open_group, [])


def main(names):
    _library.load()
    tests = [(n, f) for n, f in names.items() if n.startswith("test_") and callable(f)]
    failed = 0
    for name, f in tests:
        try:
            f()
        except Exception as e:
            failed += 1
            import traceback

            print(f"FAILED: {name}: {type(e).__name__}: {str(e)[:800]}")
            traceback.print_exc(limit=-2)
    print(f"jax {jax.__version__}: {len(tests) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(globals()))

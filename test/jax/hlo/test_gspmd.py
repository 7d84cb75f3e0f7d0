#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests GSPMD programs: what becomes of the all-reduces that XLA's partitioner inserts, and what
the programs compute.

jax compiles for four CPU devices, and shows us each program as it would on GPUs. A fake of the
custom call reduces on the CPU. All sums are exact, so the results must be equal bit by bit.
"""

import collections
import contextlib
import ctypes
import os
import re
import sys

from test_hlo import edit, made, run, show  # must be first: it sets up jax

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental.xla_metadata import set_xla_metadata  # noqa: E402
from jax.extend import xla  # noqa: E402
from jax.interpreters import mlir  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from symtuner import _all_reduce, _hlo, _install, _library  # noqa: E402

jax.config.update("jax_enable_x64", True)
DEVICES = jax.devices()


# ---- real programs -------------------------------------------------------------------------------
def integers(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def place(mesh, x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def programs():
    """Return a dictionary: for each name a function that makes a program and its arguments for a
    mesh. All sums are exact in float32."""
    flat = Mesh(np.array(DEVICES), ("a",))
    turned = Mesh(np.array(DEVICES)[[2, 0, 3, 1]].reshape(2, 2), ("a", "b"))
    square = Mesh(np.array(DEVICES).reshape(2, 2), ("a", "b"))

    def mlp(mesh, axis, dtype=np.float32):
        x = place(mesh, integers((8, 16), dtype))
        up, down = integers((16, 32), dtype, 1), integers((32, 16), dtype, 2)
        args = x, place(mesh, up, None, axis), place(mesh, down, axis, None)
        return jax.jit(lambda x, u, d: jnp.maximum(x @ u, 0) @ d), args

    def step(mesh):
        f, (x, u, d) = mlp(mesh, "b")
        loss = lambda u, d, x: (f(x, u, d) ** 2).sum() / 64
        x = place(mesh, np.asarray(x), "a", None)
        return jax.jit(jax.grad(loss, (0, 1))), (u, d, x)

    def scan(mesh):
        w = place(mesh, np.eye(16, dtype=np.float32) * 2, "a", None)
        x = place(mesh, integers((4, 16), np.float32), None, "a")
        body = lambda c, _: (jax.lax.with_sharding_constraint(c @ w, NamedSharding(mesh, P())), 0)
        return jax.jit(lambda x, w: jax.lax.scan(body, x, None, length=5)[0]), (x, w)

    def statistics(mesh):
        x = place(mesh, integers((8, 12), np.int32), "a", "b")
        f = lambda x: (x.sum(), x.max(0), x.min(1), x.prod(), (x > 2).any(), x.sum(0) * x.max())
        return jax.jit(f), (x,)

    def branches(mesh):
        x, w = place(mesh, integers((4, 8), np.float32), None, "a"), integers((8, 4), np.float32, 3)
        f = lambda x, w, n: jax.lax.cond(n > 0, lambda: x @ w, lambda: (x * 2) @ w)
        return jax.jit(f), (x, place(mesh, w, "a", None), 1)

    return {
        "mlp": mlp(flat, "a"),
        "mlp of f64": mlp(square, "b", np.float64),
        "mlp on turned devices": mlp(turned, "b"),
        "mlp over two axes": mlp(turned, ("a", "b")),
        "mlp of two devices": mlp(Mesh(np.array(DEVICES)[[3, 1]], ("a",)), "a"),
        "training step": step(turned),
        "scan": scan(flat),
        "statistics": statistics(turned),
        "branches": branches(flat),
    }


PROGRAMS = programs()
modules = []  # the modules that XLA has shown us since the list was last cleared


def capture(proto):
    modules.append(proto)


xla.register_hlo_module_transformation(capture, name="capture", platforms="cpu")


def compiled(name):
    """Return the module of a program before an edit."""
    f, args = PROGRAMS[name]
    jax.clear_caches()
    modules.clear()
    f.lower(*args).compile()
    return max((m for m in modules if b"all-reduce" in m), key=len)


COLLECTIVE = " all-reduce("
ORDERS = [0, 1, 2, 3], [2, 0, 3, 1], [0, 3, 1, 2]


def key(line):
    return line.split(" = ")[0].split("%")[1]


def test_real_modules():
    """Only the lines of the replaced instructions change, and each becomes a custom call."""
    replaced = 0
    for name in PROGRAMS:
        before = compiled(name)
        edited, rows = edit(before)
        # XLA prints a computation before those that call it, so their order may change
        old, new = (collections.Counter(show(m).splitlines()) for m in (before, edited or before))
        calls = {key(line): line for line in new - old}
        gone = {key(line): line for line in old - new}
        assert calls.keys() == gone.keys() == {row[1] for row in rows if row[2]}, (name, rows)
        assert {key(line) for line in old if COLLECTIVE in line} == {row[1] for row in rows}, name
        for _, instruction, done, reason, where, _ in rows:
            assert done != bool(reason) and where and where[0] == __file__, (name, instruction)
        for instruction, line in gone.items():
            head, operand = re.match(r"(.*) all-reduce\((.*?)\)", line).groups()
            want = f'{head} custom-call({operand}), custom_call_target="symtuner_all_reduce'
            assert calls[instruction].startswith(want), (want, calls[instruction])
        replaced += len(calls)
    assert replaced > 8, replaced


def test_lines_of_the_user():
    first = test_lines_of_the_user.__code__.co_firstlineno
    x = place(Mesh(np.array(DEVICES), ("a",)), integers((4, 8), np.int32), None, "a")
    modules.clear()
    jax.jit(
        lambda x: x.sum(1)  # the report names this line
    ).lower(x).compile()
    rows = [row for m in modules if b"all-reduce" in m for row in edit(m)[1]]
    assert [row[4] for row in rows] == [(__file__, first + 5)], (rows, first)


# ---- values --------------------------------------------------------------------------------------
fake = ctypes.CDLL(os.path.join(os.environ["SYMTUNER_LIB_DIR"], "libfake_reduce.so"))
for target in _library.TARGETS:
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(fake.fake_reduce), platform="cpu")


def values(f, args):
    jax.clear_caches()
    return [np.asarray(leaf) for leaf in jax.tree.leaves(f(*args))]


def compare(f, args):
    """Run a program without us and with us. Returns the rows of the report."""
    rows = []
    want = values(f, args)
    before = fake.fake_reduce_calls()
    _hlo.install(lambda *row: rows.append(row), "cpu")
    try:
        got = values(f, args)
    finally:
        _hlo.uninstall()
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), (a, b)
    done = sum(row[2] for row in rows)
    assert (fake.fake_reduce_calls() > before) == (done > 0), rows
    return rows


def test_values():
    for name, (f, args) in PROGRAMS.items():
        rows = compare(f, args)
        assert any(row[2] for row in rows), (name, rows)


def test_values_of_random_programs():
    """Check products of matrices and sums, over random axes of random meshes."""
    rng = np.random.default_rng(1)
    done = 0
    for seed in range(25):
        n = int(rng.choice([2, 4]))
        shape = (n,) if n < 4 or rng.random() < 0.3 else (2, 2)
        devices = np.array(rng.permutation(DEVICES)[:n]).reshape(shape)
        mesh = Mesh(devices, ("a", "b")[: len(shape)])
        axes = [None, "a"] + ["b", ("a", "b"), ("b", "a")] * (len(shape) > 1)
        pick = lambda: axes[rng.integers(len(axes))]
        dtype = rng.choice(["float32", "float64", "int32", "int64"])
        inner = pick()
        x = place(mesh, integers((8, 16), dtype, seed), None, inner)
        w = place(mesh, integers((16, 8), dtype, seed + 99), inner, None)
        v = place(mesh, integers((8, 4), dtype, seed + 999), pick(), None)
        f = jax.jit(lambda x, w, v: (x @ w @ v, (x * 2).sum(1), jnp.abs(v).max(0)))
        done += sum(row[2] for row in compare(f, (x, w, v)))
    assert done > 15, done


PLACE = """HloModule made

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}}

ENTRY %main (p: f32[6,4]) -> f32[6,4] {{
  %p = f32[6,4]{{1,0}} parameter(0)
  %n = f32[6,4]{{1,0}} negate(%p)
  {rest}
}}
"""
ALL_REDUCE = "%c = f32[6,4]{1,0} all-reduce(%n), channel_id=1, replica_groups={{0,1,2,3}}, \
use_global_device_ids=true, to_apply=%sum".replace("\\\n", "")
CALL = """%c = f32[6,4]{1,0} custom-call(%n), custom_call_target="symtuner_all_reduce", \
operand_layout_constraints={f32[6,4]{1,0}}, api_version=API_VERSION_TYPED_FFI, \
backend_config={groups = dense<[0, 1, 2, 3]> : tensor<4xi64>, op = 0 : i32, \
ranks = 4 : i32}""".replace(
    "\\\n", ""
)
FLAT6, BACK = "f32[24]{0} reshape(%n)", "ROOT %e = f32[6,4]{1,0} reshape(%c)"


def in_place(*rest, root=False, text=PLACE):
    """Does our call put its result into its operand's buffer? ``rest`` has one collective. Try the
    module twice: with XLA's all-reduce, which the edit replaces by our call, and with our call."""
    answers = set()
    for call in (ALL_REDUCE, CALL):
        lines = [("ROOT " * root + call) if line == "CALL" else line for line in rest]
        if "flat" in lines:
            at = lines.index("flat")
            lines[at : at + 1] = [call.replace("f32[6,4]{1,0}", "f32[24]{0}").replace("%n", "%f")]
        edited, rows = edit(made(text=text, rest="\n  ".join(lines)))
        assert len(rows) == (call == ALL_REDUCE) and all(row[2] for row in rows), rows
        assert edited or call == CALL
        shown = show(edited) if edited else ""
        assert ("output_to_operand_aliasing={{}: (0, {})}" in shown) == ("aliasing" in shown), shown
        assert edited is None or shown.count("custom-call(") == 1, shown
        answers.add("aliasing" in shown)
    assert len(answers) == 1, (rest, answers)
    return answers.pop()


def test_in_place():
    """A call gets its operand's buffer for its result only if XLA need not copy the operand."""
    use = "ROOT %e = f32[6,4]{1,0} add(%c, %n)"
    assert in_place("CALL", root=True) and in_place("CALL", use.replace("%n", "%p"))
    assert in_place("%f = " + FLAT6, "flat", BACK)
    assert not in_place("CALL", use), "the operand is used later"
    assert not in_place("CALL", "ROOT %n2 = f32[6,4]{1,0} negate(%n)"), "and so it is here"
    result = PLACE.replace("%n = ", "ROOT %n = ")
    assert not in_place("CALL", text=result), "the program returns the operand"
    assert not in_place("%f = " + FLAT6, "flat", "%g = f32[6,4]{1,0} reshape(%c)",
                        "ROOT %e = f32[6,4]{1,0} add(%g, %n)"), "in its other shape"
    assert not in_place("%f = " + FLAT6.replace("%n", "%p"), "flat", BACK), "an argument"
    twice = CALL + ", output_to_operand_aliasing={{}: (0, {})}"
    assert edit(made(text=PLACE, rest="ROOT " + twice))[0] is None, "it is already in place"
    other = "ROOT " + CALL.replace("symtuner", "another")
    assert edit(made(text=PLACE, rest=other))[0] is None, "a call that is not ours"


def test_memory():
    """Our all-reduce puts its result into its operand's buffer, so it takes no other memory.
    test_compiled.py tests the same with XLA's compiler for GPUs."""
    mesh = Mesh(np.array(DEVICES), ("a",))
    x = place(mesh, integers((512, 1024), np.float32), None, "a")
    w = place(mesh, integers((1024, 512), np.float32, 1), "a", None)
    f = jax.jit(lambda x, w: x @ w, out_shardings=NamedSharding(mesh, P()))
    _hlo.install(lambda *_: None, "cpu")
    try:
        jax.clear_caches()
        memory = f.lower(x, w).compile().memory_analysis()
    finally:
        _hlo.uninstall()
    assert memory.temp_size_in_bytes < 512 * 512 * 4 == memory.output_size_in_bytes, memory
    compare(f, (x, w))


def test_meshes_of_one_shape():
    """JAX keeps one lowering for all meshes of one shape. But our calls name devices, so each mesh
    needs a lowering of its own, whether the function names a mesh or takes that of
    jax.set_mesh()."""
    x = integers((8, 3), np.float32)
    spec = P(("a", "b"))
    meshes = [Mesh(np.array(DEVICES)[ids].reshape(2, 2), ("a", "b")) for ids in ORDERS]

    def run(reduce, **more):
        more.update(in_specs=spec, out_specs=spec, check_vma=False)
        f = jax.jit(jax.shard_map(lambda v: reduce(v, "a"), **more))
        out = []
        for now in meshes:
            y = jax.device_put(x, NamedSharding(now, spec))
            with contextlib.nullcontext() if more.get("mesh") else jax.set_mesh(now):
                out.append(np.asarray(f(y)))
        return out

    def by_name(v, axis):
        return _all_reduce.all_reduce(v, axis)

    want = run(jax.lax.psum)
    mlir.register_lowering(_all_reduce.all_reduce_p, _all_reduce._lower_cuda, platform="cpu")
    _install._PLATFORM, before = "cpu", fake.fake_reduce_calls()
    for reduce in (by_name, jax.lax.psum):
        if reduce is not by_name:
            _install.install()
        try:
            for more in ({}, {"mesh": meshes[0].abstract_mesh}):
                for ours, theirs in zip(run(reduce, **more), want, strict=True):
                    assert ours.tobytes() == theirs.tobytes(), (reduce, more, ours, theirs)
        finally:
            _install.uninstall()
    assert fake.fake_reduce_calls() == before + 2 * 2 * len(meshes) * 4, "our calls ran"


def test_uninstalled():
    f, args = PROGRAMS["mlp"]
    _hlo.install(print, "cpu")
    _hlo.uninstall()
    before = fake.fake_reduce_calls()
    values(f, args)
    assert fake.fake_reduce_calls() == before


def test_concurrent_recording():
    """A call gets a target that XLA may record, unless an option of the compiler forbids it."""
    seen = []
    library = _library.load()
    choose = library.target
    library.target = lambda size, *more: seen.append(choose(size, *more)) or seen[-1]
    f, args = PROGRAMS["mlp"]
    try:
        rows = compare(f, args)
        assert set(seen) == {_library.RECORDABLE}, (seen, rows)
        seen.clear()
        compiler_options_kvs = tuple({"xla_command_buffer_scheduling_mode": "CONCURRENT"}.items())
        edit(made())
        assert set(seen) == {_library.TARGET}, (seen, compiler_options_kvs)
    finally:
        library.target = choose


def test_jax_without_transformations():
    rows = []
    module = sys.modules.pop("jax.extend.xla")
    attribute = jax.extend.__dict__.pop("xla")
    sys.modules["jax.extend.xla"] = None
    try:
        _hlo.install(lambda *row: rows.append(row), "tpu")
    finally:
        sys.modules["jax.extend.xla"], jax.extend.xla = module, attribute
        _hlo.uninstall()
    assert len(rows) == 1 and rows[0][3].endswith("has no jax.extend.xla; 0.10.2 has"), rows


def test_disabled():
    """Nothing is replaced in a program that symtuner.disabled() has marked."""
    f, args = PROGRAMS["mlp"]
    with set_xla_metadata(symtuner="off"):
        rows = compare(jax.jit(lambda *a: f(*a)), args)
    assert {row[2:4] for row in rows} == {
        (False, "symtuner.disabled() is in force in the program")
    }, rows


def test_say_in_strict_mode():
    """An exception that ``say`` raises, as in strict mode, ends the compilation. Other exceptions
    in our code do not."""

    def strict(*row):
        raise RuntimeError("strict forbids")

    f, args = PROGRAMS["mlp"]
    _hlo.install(strict, "cpu")
    try:
        values(f, args)
    except Exception as e:
        assert "strict forbids" in str(e), e
    else:
        raise AssertionError("no error")
    finally:
        _hlo.uninstall()


if __name__ == "__main__":
    sys.exit(run(globals()))

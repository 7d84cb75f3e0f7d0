#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests small all-reduces that share calls (jax/hlo/join.c): which of them do, and what programs
compute."""

import os
import random
import re
import sys
import time

import numpy as np
from test_gspmd import fake, integers, place, values  # must be first: it sets up jax
from test_hlo import edit, field, made, replace_in, run, show

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import symtuner
from symtuner import _cache, _hlo, _install, _library, _report

DEVICES = jax.devices()
LINE = Mesh(np.array(DEVICES), ("a",))
SQUARE = Mesh(np.array(DEVICES)[[2, 0, 3, 1]].reshape(2, 2), ("a", "b"))


# ---- modules from text ---------------------------------------------------------------------------
TEXT = """HloModule made

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}}

%most (c: s32[], d: s32[]) -> s32[] {{
  %c = s32[] parameter(0)
  %d = s32[] parameter(1)
  ROOT %m = s32[] maximum(%c, %d)
}}
{more}
ENTRY %main (p: f32[6,4], q: s32[5]) -> {result} {{
  %p = f32[6,4]{{1,0}} parameter(0)
  %q = s32[5]{{0}} parameter(1)
  {body}
}}
"""
ALL = "{groups = dense<[0, 1, 2, 3]> : tensor<4xi64>, op = 0 : i32, ranks = 4 : i32}"
SHAPE = "f32[6,4]{1,0}"


def ours(name, operand, shape=SHAPE, attributes=ALL, more="", target="symtuner_all_reduce"):
    """Return a call of ours, as JAX writes it."""
    return (
        f'%{name} = {shape} custom-call(%{operand}), custom_call_target="{target}", '
        f"operand_layout_constraints={{{shape}}}, api_version=API_VERSION_TYPED_FFI{more}, "
        f"backend_config={attributes}"
    )


def theirs(name, operand, shape=SHAPE, by="sum", groups="{{0,1,2,3}}", more=""):
    """Return an all-reduce of XLA's."""
    return (
        f"%{name} = {shape} all-reduce(%{operand}), channel_id=1, replica_groups={groups}, "
        f"use_global_device_ids=true, to_apply=%{by}{more}"
    )


def module(*body, results=(), more=""):
    """Return a module that returns ``results``, which are pairs of name and shape."""
    shapes = ", ".join(shape for _, shape in results)
    names = ", ".join("%" + name for name, _ in results)
    root = f"ROOT %root = ({shapes}) tuple({names})"
    text = "\n  ".join([*body, root])
    return made(text=TEXT, body=text, more=more, result=f"({shapes})")


def shared(proto):
    """Edit a module. Return how many small all-reduces share how many calls (None if none do), and
    the number of our calls after that."""
    _report.forget()
    edited, _ = edit(proto)
    text = show(edited or proto)
    calls = len(re.findall(r'custom_call_target="symtuner_all_reduce', text))
    lines = symtuner.report().shared
    if not lines:
        return None, calls
    ((members, into),) = re.findall(r"made: (\d+) small all-reduces share (\w+) calls?$", lines[0])
    return (int(members), 1 if into == "one" else int(into)), calls


def plain(n, make=ours, shape=SHAPE, operand="p", **words):
    """Return ``n`` calls that do not need each other's results, and what the module returns."""
    lines = [make(f"r{i}", operand, shape, **words) for i in range(n)]
    return lines, [(f"r{i}", shape) for i in range(n)]


def simple(n, *args, **words):
    lines, results = plain(n, *args, **words)
    return module(*lines, results=results)


def test_counts():
    """Two calls are too few to share one. XLA's all-reduces and ours share calls with each
    other."""
    for make in (ours, theirs):
        assert shared(simple(2, make)) == (None, 2)
        assert shared(simple(3, make)) == ((3, 1), 1)
        assert shared(simple(150, make)) == ((150, 3), 3), "64 at most"
        assert shared(simple(130, make)) == ((128, 2), 4), "two are left over"
    lines, results = plain(2, theirs)
    both = [*results, ("c", SHAPE)]
    assert shared(module(*lines, ours("c", "p"), results=both)) == ((3, 1), 1)


def test_sizes():
    """Calls that share have at most 64 KiB each and 1 MiB together, and their arrays are not
    empty."""
    for count, want in ((1 << 14, ((20, 2), 2)), ((1 << 14) + 1, (None, 20)), (0, (None, 20))):
        shape = f"f32[{count}]{{0}}"
        lines, results = plain(20, shape=shape, operand="z")
        z = f"%one = f32[] constant(1)\n  %z = {shape} broadcast(%one), dimensions={{}}"
        assert shared(module(z, *lines, results=results)) == want, count


def test_instructions():
    """Check the instructions of which a shared call consists."""
    flat, scalar = "f32[24]{0}", "f32[]"
    body = (
        f"%n = {SHAPE} negate(%p)",
        f"%f = {flat} reshape(%n)",
        "%s = f32[] constant(3)",
        ours("x", "n"),
        ours("y", "f", flat),
        ours("z", "s", scalar),
    )
    edited, rows = edit(module(*body, results=[("x", SHAPE), ("y", flat), ("z", scalar)]))
    text = re.sub(r"%symtuner_joined\.\d+", "%new", show(edited)).splitlines()
    want = (
        "%new = f32[24]{0} reshape(%n)",
        "%new = f32[1]{0} reshape(%s)",
        "%new = f32[49]{0} concatenate(%new, %f, %new), dimensions={0}",
        '%new = f32[49]{0} custom-call(%new), custom_call_target="symtuner_all_reduce", '
        "operand_layout_constraints={f32[49]{0}}, output_to_operand_aliasing={{}: (0, {})}, "
        "api_version=API_VERSION_TYPED_FFI, backend_config=" + ALL,
        "%new = f32[24]{0} slice(%new), slice={[0:24]}",
        "%x = f32[6,4]{1,0} reshape(%new)",
        "%y = f32[24]{0} slice(%new), slice={[24:48]}",
        "%new = f32[1]{0} slice(%new), slice={[48:49]}",
        "%z = f32[] reshape(%new)",
    )
    assert {"  " + line for line in want} <= set(text), "\n".join(text)
    assert sum("%new = " in row for row in text) == sum("%new = " in line for line in want)
    assert rows == [], "JAX's own calls are in the report already"


def test_alike():
    """All-reduces share a call only if they have the same groups, operator, type and
    computation."""
    other = ALL.replace("0, 1, 2, 3", "0, 1, 3, 2")
    pairs = ALL.replace("ranks = 4", "ranks = 2")
    for odd in (
        ours("o", "p", attributes=other),
        ours("o", "p", attributes=pairs),
        ours("o", "p", attributes=ALL.replace("op = 0", "op = 1")),
        ours("o", "p", more=', custom_call_has_side_effect=true'),
        ours("o", "p", more=', frontend_attributes={wish="1"}'),
        ours("o", "p", more=", output_to_operand_aliasing={{}: (0, {})}"),
        ours("o", "p", target="another_all_reduce"),
        ours("o", "p").replace("all_reduce", "reduce_scatter"),
    ):
        lines, results = plain(2)
        both = [*results, ("o", SHAPE)]
        assert shared(module(*lines, odd, results=both))[0] is None, odd
        proto = module(*lines, odd, ours("l", "p"), results=[*both, ("l", SHAPE)])
        assert shared(proto)[0] == (3, 1), odd
    lines, results = plain(2)
    odd = ours("o", "q", "s32[5]{0}")
    assert shared(module(*lines, odd, results=[*results, ("o", "s32[5]{0}")])) == (None, 3)
    assert shared(simple(3, theirs, groups="{{0,1},{2,3}}")) == ((3, 1), 1)
    lines, results = plain(3, theirs)
    lines[1] = lines[1].replace("{{0,1,2,3}}", "{{0,1},{2,3}}")
    assert shared(module(*lines, results=results)) == (None, 3)
    assert shared(simple(3, theirs, "s32[5]{0}", "q", by="most")) == ((3, 1), 1)


def test_targets():
    """XLA may record a shared call if it may record each of the calls that share it. Calls share
    even if XLA may record only some of them, because this may differ between processes."""
    names = [_library.RECORDABLE] * 3
    for odd in (None, 0, 1, 2):
        targets = [_library.TARGET if i == odd else name for i, name in enumerate(names)]
        lines = [ours(f"r{i}", "p", target=target) for i, target in enumerate(targets)]
        proto = module(*lines, results=[(f"r{i}", SHAPE) for i in range(3)])
        assert shared(proto) == ((3, 1), 1), odd
        want = _library.RECORDABLE if odd is None else _library.TARGET
        assert f'custom_call_target="{want}"' in show(edit(proto)[0]), odd


def test_computations():
    """A call in the body of a loop does not share a call with one outside the loop."""
    tuple_ = f"({SHAPE}, {SHAPE})"
    more = f"""
%body (t: {tuple_}) -> {tuple_} {{
  %t = {tuple_} parameter(0)
  %x = {SHAPE} get-tuple-element(%t), index=0
  %y = {SHAPE} get-tuple-element(%t), index=1
  LINES
  ROOT %u = {tuple_} tuple(%b0, %b1)
}}

%more (v: {tuple_}) -> pred[] {{
  %v = {tuple_} parameter(0)
  ROOT %no = pred[] constant(false)
}}
"""
    for inner, outer, want in ((2, 2, None), (3, 2, (3, 1)), (2, 3, (3, 1)), (3, 3, (6, 2))):
        lines = "\n  ".join(ours(f"b{i}", "x" if i else "y") for i in range(inner))
        body, results = plain(outer)
        body.append(f"%w0 = {tuple_} tuple(%p, %r0)")
        body.append(f"%w = {tuple_} while(%w0), condition=%more, body=%body")
        proto = module(*body, results=[*results, ("w", tuple_)], more=more.replace("LINES", lines))
        assert shared(proto)[0] == want, (inner, outer)


def test_computations_that_run_beside_others():
    three = f"({SHAPE}, {SHAPE}, {SHAPE})"
    lines = "\n  ".join(ours(f"b{i}", "x") for i in range(3))
    more = f"""
%within (x: f32[6,4]) -> {three} {{
  %x = {SHAPE} parameter(0)
  {lines}
  ROOT %u = {three} tuple(%b0, %b1, %b2)
}}
"""
    start = f"%s = (({SHAPE}), {three}) async-start(%p), calls=%within"
    for body, want in (
        ([f"%w = {three} call(%p), to_apply=%within"], (3, 1)),
        ([f"%w = {three} fusion(%p), kind=kLoop, calls=%within"], None),
        ([start, f"%w = {three} async-done(%s)"], None),
    ):
        assert shared(module(*body, results=[("w", three)], more=more))[0] == want, body


def chain(*pairs):
    """Return a module with calls of which some need the result of others. ``pairs``: a name, and
    the names whose sum is the operand."""
    lines = []
    for name, needs in pairs:
        last = "p"
        for need in needs:
            lines.append(f"%{name}_{need} = {SHAPE} add(%{last}, %{need})")
            last = f"{name}_{need}"
        lines.append(ours(name, last))
    return module(*lines, results=[(name, SHAPE) for name, _ in pairs])


def test_needs():
    """No call may need its own result, not even through another call."""
    assert shared(chain(("a", ""), ("b", "a"), ("c", "b"))) == (None, 3)
    assert shared(chain(("a", ""), ("b", "a"), ("c", "a"), ("d", "a"))) == ((3, 1), 2)
    assert shared(chain(("a", ""), ("b", ""), ("c", ""), ("d", "abc"))) == ((3, 1), 2)
    two = [(x, "") for x in "abc"] + [(x, "abc") for x in "def"]
    assert shared(chain(*two)) == ((6, 2), 2)
    # as in a backward pass, each step has a result that nothing else needs
    steps = [("a", ""), ("b", "a"), ("c", "b"), ("x", ""), ("y", "a"), ("z", "b")]
    assert shared(chain(*steps)) == ((4, 1), 3), "c, x, y and z"


def test_many():
    """Edit a program with 6,000 all-reduces among 60,000 instructions in less than 1 s. (Once the
    time grew with the square of these numbers.)"""
    lines, last = [], "p"
    for i in range(6000):
        for j in range(9):
            lines.append(f"%n{i}_{j} = {SHAPE} negate(%{last})")
            last = f"n{i}_{j}"
        lines.append(ours(f"r{i}", last))
    proto = module(*lines, results=[(f"r{i}", SHAPE) for i in range(6000)])
    before = time.process_time()
    edited, _ = edit(proto)
    took = time.process_time() - before
    assert edited and took < 0.5, took


def test_order_that_counts():
    """Nothing is joined if the module says in which order instructions run."""
    lines, results = plain(3)
    proto = module(*lines, results=results)
    assert shared(proto) == ((3, 1), 1)
    assert shared(proto + field(7, b"")) == (None, 3), "it has a schedule"
    for opcode, number, content in ((b"tuple", 37, b"\1"), (b"custom-call", 200, 1)):
        old = field(2, opcode)
        changed = replace_in(proto, [3, 2], old, old + field(number, content))
        with _hlo._open(changed) as opened:
            assert list(opened.join()) == [], (opcode, "waits for another, or has a newer field")
    for name, want in (("_scheduling_group_id", None), ("inlineable", (3, 1))):
        odd = f'%n = {SHAPE} negate(%p), frontend_attributes={{{name}="1"}}'
        assert shared(module(odd, *lines, results=results))[0] == want, name
    off = f'%n = {SHAPE} negate(%p), frontend_attributes={{symtuner="off"}}'
    assert shared(module(off, *lines, results=results)) == (None, 3), "symtuner.disabled()"
    named = module(f"%symtuner_joined.7 = {SHAPE} negate(%p)", *lines, results=results)
    assert shared(named) == (None, 3), "our names are taken"


def test_groups_that_do_not_open():
    """If groups do not open, calls are not joined. This happens, for example, if only this process
    has called install()."""

    passing = False

    def refuse(rows, xla):
        error = _library.SymtunerError("process 1 does not run symtuner")
        error.may_pass = passing
        raise error

    before, _hlo.open_rows = _hlo.open_rows, refuse
    try:
        proto = simple(3)
        assert shared(proto) == (None, 3)
        assert edit(proto)[0] is None
        assert not _cache._kept_out, "it can never share calls"
        passing = True
        assert shared(proto) == (None, 3)
        assert _cache._kept_out == {"made"}, "at a later start it may, so JAX must not store it"
    finally:
        _hlo.open_rows = before
        _cache.let_in()
    os.environ["SYMTUNER_MODE"] = "observe"
    try:
        assert shared(simple(3)) == (None, 3)
    finally:
        del os.environ["SYMTUNER_MODE"]


def test_damaged_modules():
    """No bytes crash the editor. If jaxlib can read the input, it can read what the editor
    writes."""
    rng = random.Random(0)
    _hlo.install(lambda *row: None, "nowhere")
    try:
        for proto in (simple(4), simple(4, theirs), chain(*[(x, "") for x in "abc"], ("d", "ab"))):
            assert _hlo._transform("cpu", proto)
            for _ in range(400):
                bad = bytearray(proto)
                for _ in range(rng.randint(1, 4)):
                    bad[rng.randrange(len(bad))] = rng.randrange(256)
                _hlo._transform("cpu", bytes(bad))
    finally:
        _hlo.uninstall()


# ---- programs that run ---------------------------------------------------------------------------
class Installed:
    """Installs for the CPU: registers the lowering rules, and edits compiled programs."""

    def __enter__(self):
        _install._PLATFORM = "cpu"
        _install.install()
        _hlo.install(lambda *row: self.rows.append(row), "cpu")
        self.rows = []
        return self

    def __exit__(self, *_):
        _hlo.uninstall()
        _install.uninstall()


def compare(f, args):
    """Run a program without us and with us. The values must have the same bits. Return how often
    the fake was called on each device, and what report() says about shared calls."""
    want = values(f, args)
    before = fake.fake_reduce_calls()
    with Installed() as on:
        got = values(f, args)
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), (a, b)
    calls, rest = divmod(fake.fake_reduce_calls() - before, len(DEVICES))
    assert rest == 0, (calls, rest)
    return calls, symtuner.report().shared, on.rows


def weights(n, seed=0):
    return [integers((8, 8) if i % 3 else (8,), np.float32, seed + i) for i in range(n)]


def loss(ws, x):
    for i, w in enumerate(ws):
        x = jnp.maximum(x @ w, 0) % 5 if w.ndim == 2 else x + w * (i + 1)
    return (x * x).sum()


def test_training_steps():
    """Check one psum for each gradient, the sums of shard_map's backward pass, and XLA's own
    all-reduces."""

    def mapped(f, vma):
        outs = (P(), P())
        g = jax.shard_map(f, mesh=LINE, in_specs=outs, out_specs=P(), check_vma=vma)
        return jax.jit(g)

    def each(ws, x):
        return [w - lax.psum(g, "a") for w, g in zip(ws, jax.grad(loss)(ws, x))]

    def tree(ws, x):
        return lax.psum(jax.grad(loss)(ws, x), "a")

    ws, x = weights(200), integers((8, 8), np.float32, 999)
    for f in (each, tree):
        spec = ((P(), P("a")), P())
        g = jax.jit(jax.shard_map(f, mesh=LINE, in_specs=spec[0], out_specs=P(), check_vma=False))
        calls, lines, rows = compare(g, (ws, x))
        assert calls == 4 and lines == [f"jit_{f.__name__}: 200 small all-reduces share 4 calls"]
        assert rows == []
    both = jax.shard_map(
        lambda ws, x: jax.grad(lambda ws: lax.psum(loss(ws, x), "a"))(ws),
        mesh=LINE, in_specs=(P(), P("a")), out_specs=P(), check_vma=True,
    )
    calls, lines, _ = compare(jax.jit(both), (ws[:20], x))
    assert calls == 1 and "share one call" in lines[0], (calls, lines)
    whole = NamedSharding(LINE, P())
    step = jax.jit(jax.grad(loss), out_shardings=whole)
    calls, lines, rows = compare(step, (jax.device_put(ws[:20], whole), place(LINE, x, "a")))
    assert calls == 1 and sum(row[2] for row in rows) == 20, (calls, lines, rows)
    assert lines == ["jit_loss: 20 small all-reduces share one call"], lines


def random_program(rng):
    """Return a program with sums of sums, over random axes, of several types and shapes, some in
    loops or branches."""
    types = ("float32", "int32", "float64", "int8")
    shapes = ((), (3,), (2, 5), (4, 1, 2))
    plan = []
    for _ in range(rng.integers(8, 25)):
        kind = str(rng.choice(["psum", "psum", "psum", "pmax", "mix", "scan", "cond"]))
        axes = [("a",), ("b",), ("a", "b")][rng.integers(3)]
        plan.append((kind, rng.integers(0, 1 << 30, 2), axes))
    made_ = [
        rng.integers(0, 3, (4, *shapes[rng.integers(4)])).astype(types[rng.integers(4)])
        for _ in range(5)
    ]

    def body(*all_):
        all_ = [x[0] for x in all_]
        for kind, (i, j), axes in plan:
            x, y = all_[i % len(all_)], all_[j % len(all_)]
            if kind == "pmax":
                kind = "pmax" if x.dtype.kind == "i" else "psum"
            small = lambda v: v % 3
            if kind == "mix":
                out = small(x + y.astype(x.dtype).sum())
            elif kind == "scan":
                sums = lambda c, _: ([small(lax.psum(v + 1, axes)) for v in c], None)
                all_ += lax.scan(sums, [x, x + 1, x + 2], None, length=2)[0]
                continue
            elif kind == "cond":
                sums = lambda: sum(small(lax.psum(x + n, axes)) for n in range(3))
                out = lax.cond(jnp.int32(i % 2) > 0, sums, lambda: x)
            else:
                out = small(getattr(lax, kind)(x, axes))
            all_.append(out)
        return tuple(x[None] for x in all_[5:])

    spec = P(("a", "b"))
    f = jax.shard_map(body, mesh=SQUARE, in_specs=spec, out_specs=spec, check_vma=False)
    return jax.jit(f), made_


def test_random_programs():
    joined = calls = 0
    for seed in range(int(os.environ.get("PROGRAMS", "12"))):
        rng = np.random.default_rng(seed)
        f, args = random_program(rng)
        done, lines, _ = compare(f, args)
        calls += done
        for line in lines:
            members, into = re.search(r"(\d+) small all-reduces share (\w+)", line).groups()
            joined += int(members) - (1 if into == "one" else int(into))
    assert joined > 30 and calls > 30, (joined, calls)


if __name__ == "__main__":
    sys.exit(run(globals()))

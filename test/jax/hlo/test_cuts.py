#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests all-gathers and reduce-scatters in the editor of jax/hlo/: modules, and programs that run.
Also tests all-reduces that XLA turns into something cheaper, or runs beside other work."""

import sys

import numpy as np
from test_gspmd import DEVICES, compare, integers, place  # must be first: it sets up jax
from test_hlo import edit, field, fields, made, opened, run, show

import jax
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from symtuner import _library

MODULE = """HloModule made

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] {op}(%a, %b)
}}

ENTRY %main (p: f32[{operand}]) -> f32[{result}] {{
  %p = f32[{operand}] parameter(0)
  ROOT %c = f32[{result}] {kind}(%p), channel_id=1, dimensions={{{dimension}}}, {more}
}}
"""
GATHER, SCATTER = "all-gather", "reduce-scatter"
LOOP = """HloModule made

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] {op}(%a, %b)
}}

%body (t: (f32[8,4], f32[8,4])) -> (f32[8,4], f32[8,4]) {{
  %t = (f32[8,4]{{1,0}}, f32[8,4]{{1,0}}) parameter(0)
  %x = f32[8,4]{{1,0}} get-tuple-element(%t), index=0
  %y = f32[8,4]{{1,0}} get-tuple-element(%t), index=1
  %c = f32[8,4]{{1,0}} all-reduce(%y), channel_id=1, replica_groups={{{{0,1,2,3}}}}, \
use_global_device_ids=true, to_apply=%sum
  {rest}
}}

%more (u: (f32[8,4], f32[8,4])) -> pred[] {{
  %u = (f32[8,4]{{1,0}}, f32[8,4]{{1,0}}) parameter(0)
  ROOT %no = pred[] constant(false)
}}

ENTRY %main (p: (f32[8,4], f32[8,4])) -> (f32[8,4], f32[8,4]) {{
  %p = (f32[8,4]{{1,0}}, f32[8,4]{{1,0}}) parameter(0)
  ROOT %w = (f32[8,4]{{1,0}}, f32[8,4]{{1,0}}) {call}
}}
""".replace("\\\n", "")
WHILE = "while(%p), condition=%more, body=%body"
LONG = """HloModule made

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}}

%inner (q: f32[{n},{n}]) -> f32[{n},{n}] {{
  %q = f32[{n},{n}]{{1,0}} parameter(0)
  ROOT %i = f32[{n},{n}]{{1,0}} {inner}
}}

%outer (o: f32[{n},{n}]) -> f32[{n},{n}] {{
  %o = f32[{n},{n}]{{1,0}} parameter(0)
  ROOT %j = f32[{n},{n}]{{1,0}} call(%o), to_apply=%inner
}}

ENTRY %main (p: f32[{n},{n}], w: f32[{n},{n}]) -> (f32[{n},{n}], f32[{n},{n}]) {{
  %p = f32[{n},{n}]{{1,0}} parameter(0)
  %w = f32[{n},{n}]{{1,0}} parameter(1)
  %x = f32[{n},{n}]{{1,0}} {before}
  %c = f32[{n},{n}]{{1,0}} all-reduce(%x), channel_id=1, replica_groups={{{{0,1,2,3}}}}, \
use_global_device_ids=true, to_apply=%sum
  %y = f32[{n},{n}]{{1,0}} {beside}
  ROOT %m = (f32[{n},{n}]{{1,0}}, f32[{n},{n}]{{1,0}}) tuple(%c, %y)
}}
""".replace("\\\n", "")
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
SHAPES = {0: ("8,5", "2,5"), 1: ("2,20", "2,5"), 2: ("1,1,12,3", "1,1,3,3")}
LINE = ((0, 1, 2, 3),)


def cut(kind, at=0, groups="{{0,1,2,3}}", ids=LINE, op="add", shapes=None):
    """Return a module with one all-gather or reduce-scatter."""
    longer, shorter = shapes or SHAPES[at]
    more = f"replica_groups={groups}, use_global_device_ids=true"
    operand, result = (shorter, longer) if kind == GATHER else (longer, shorter)
    more += "" if kind == GATHER else ", to_apply=%sum"
    words = dict(operand=operand, result=result, kind=kind, dimension=at, more=more, op=op)
    return made(ids, MODULE, **words)


def test_replaced():
    """Reduce-scatters and all-gathers are replaced. Our call's operand and result have different
    shapes."""
    for groups in ("{{0,1,2,3}}", "[1,4]<=[4]", "mesh['x'=2,'y'=2] {'x','y'}", "{}"):
        for at in (0, 2):
            for kind, coll in ((SCATTER, 1), (GATHER, 2)):
                edited, rows = edit(cut(kind, at, groups))
                assert [row[1:4] for row in rows] == [("c", True, "")], (groups, at, kind, rows)
                (line,) = [row for row in show(edited).splitlines() if "custom-call(" in row]
                shapes = [f"f32[{shape}]" for shape in SHAPES[at]]
                operand, result = reversed(shapes) if kind == GATHER else shapes
                name = kind.replace("-", "_")
                assert f'custom_call_target="symtuner_{name}"' in line, line
                assert f"%c = {result}" in line and "dimensions=" not in line, line
                assert f"operand_layout_constraints={{{operand}" in line, line
                words = f"{{coll = {coll} : i32, groups = dense<[0, 1, 2, 3]> : tensor<4xi64>, op"
                assert words in line, line
                assert opened.pop() == [[0, 1, 2, 3]]
    assert edit(cut(GATHER, groups="{{1,0,3,2}}", ids=[[1, 0, 3, 2]]))[0], "the order of ids"
    assert "op = 1 :" in show(edit(cut(SCATTER, op="multiply"))[0])


REFUSED = (
    ("it cuts another dimension than the first", cut(GATHER, 1)),
    ("it cuts another dimension than the first", cut(SCATTER, 1)),
    ("the ranks of its groups are not in the order", cut(GATHER, groups="{{0,2,1,3}}")),
    ("the ranks of its groups are not in the order", cut(GATHER, groups="[1,4]<=[2,2]T(1,0)")),
    ("the ranks of its groups are not in the order", cut(SCATTER, ids=[[1, 0, 2, 3]])),
    ("the ranks of its groups", cut(GATHER, groups="mesh['x'=2,'y'=2] {'y','x'}")),
    ("it has not one part for each rank", cut(GATHER, groups="{{0,1},{2,3}}")),
    ("it has not one part for each rank", cut(SCATTER, groups="{{0,1},{2,3}}")),
    ("its reduction is not a sum", cut(SCATTER, op="divide")),
    ("maximum and minimum of floats", cut(SCATTER, op="maximum")),
)


def test_refused():
    for reason, proto in REFUSED:
        edited, rows = edit(proto)
        assert edited is None and len(rows) == 1, (reason, rows)
        assert reason in rows[0][3] and not rows[0][2], (reason, rows)


def turned(proto, path=(3, 2)):
    """Return the module with the fields of each instruction in reverse order."""
    parts = [
        field(number, turned(part, path[1:]) if path and number == path[0] else part)
        for number, part in fields(proto)
    ]
    return b"".join(parts if path else reversed(parts))


def test_order_of_fields():
    """The editor must read the fields of an instruction in any order, because protobuf allows any.
    XLA writes them in ascending order."""
    for proto in (made(), cut(GATHER), cut(SCATTER)):
        assert turned(proto) != proto and turned(proto, (0,)) == proto
        assert show(edit(turned(proto))[0]) == show(edit(proto)[0])
        opened.clear()


def test_only_what_was_asked_for():
    library = _library.load()
    try:
        library.only = frozenset(["all_reduce"])
        edited, rows = edit(cut(GATHER))
        assert edited is None and rows[0][3] == "SYMTUNER_ONLY does not name allgather", rows
    finally:
        library.only = _library.only()


def test_values():
    """Run programs of shard_map, and one in which XLA's partitioner gathers a weight."""
    line = Mesh(np.array(DEVICES), ("a",))
    square = Mesh(np.array(DEVICES).reshape(2, 2), ("a", "b"))

    def mapped(mesh, axes, f):
        spec = P(axes)
        g = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return jax.jit(g), (place(mesh, integers((16, 6), np.float32), axes),)

    def sharded(mesh):
        whole = NamedSharding(mesh, P())
        x = place(mesh, integers((8, 16), np.float32), None, None)
        w = place(mesh, integers((16, 8), np.float32, 1), "a", None)
        gather = lambda w: lax.with_sharding_constraint(w * 2, whole)
        return jax.jit(lambda x, w: x @ gather(w)), (x, w)

    scatter = lambda axes: lambda v: lax.psum_scatter(v, axes, tiled=True)
    gather = lambda axes: lambda v: lax.all_gather(v * 3, axes, tiled=True)
    programs = (
        (1, mapped(line, "a", scatter("a"))),
        (1, mapped(line, "a", gather("a"))),
        (1, mapped(square, ("a", "b"), gather("b"))),
        (1, mapped(square, ("a", "b"), scatter("a"))),
        (0, mapped(square, ("a", "b"), gather(("b", "a")))),
        (0, mapped(line, "a", lambda v: lax.all_gather(v, "a", axis=1, tiled=True))),
        (2, mapped(line, "a", lambda v: gather("a")(scatter("a")(v)))),
        (1, sharded(line)),
    )
    for number, (count, (f, args)) in enumerate(programs):
        rows = compare(f, args)
        assert sum(row[2] for row in rows) == count, (number, rows)


# ---- all-reduces that XLA makes cheaper ----------------------------------------------------------
WHOLE = "f32[8,4]{1,0} "
ZERO, PART = "%z = s32[] constant(0)", "f32[2,4]{1,0} dynamic-slice(%d, %at, %z), "
PART += "dynamic_slice_sizes={2,4}"
# where the rank's own part begins, as XLA's partitioner writes it
OWN = """%p = u32[] partition-id()
  %i = s32[] convert(%p)
  %n = s32[] constant(2)
  %at = s32[] multiply(%i, %n)"""
TABLE = """%p = u32[] partition-id()
  %t1 = s32[4]{0} constant({0, 2, 4, 6})
  %t2 = s32[1]{0} dynamic-slice(%t1, %p), dynamic_slice_sizes={1}
  %at = s32[] reshape(%t2)"""
JOINED = "f32[8,4]{1,0} concatenate(%s, %s, %s, %s), dimensions={0}"
JOIN = f"ROOT %m = (f32[2,4]{{1,0}}, {WHOLE}) tuple(%s, %y)"
SUM = f"%s = {WHOLE} add(%x, %c)"
END = f"ROOT %m = ({WHOLE}, {WHOLE}) tuple(%s, %y)"


def loop(*rest, call=WHILE, op="add", kind="f32"):
    """Return a module with an all-reduce %c in the body of a loop, which carries %x and %y
    along."""
    kinds = lambda text: text.replace("f32[", kind + "[")
    made_ = made(LINE, kinds(LOOP), rest=kinds("\n  ".join(rest)), call=kinds(call), op=op)
    ((*_, done, why, _, _),) = edit(made_)[1]
    assert done != bool(why)
    return why


def test_what_becomes_a_reduce_scatter():
    """If each rank uses only its own part, XLA makes a reduce-scatter, as for gradients of sharded
    weights."""
    scatter = "XLA may make a reduce-scatter of it"
    part, out = PART.replace("%d", "%c"), JOINED
    end = f"ROOT %m = ({WHOLE}, {WHOLE}) tuple(%o, %y)"
    cut = (f"%s = {part}", f"%o = {out}", end)
    assert loop(ZERO, OWN, *cut) == scatter and loop(ZERO, TABLE, *cut) == scatter
    assert loop(ZERO, OWN, *cut, op="multiply") == scatter
    assert loop(ZERO, OWN.replace("partition", "replica"), *cut) == scatter
    turned = ["%h = f16[8,4]{1,0} convert(%c)", f"%d = {WHOLE} convert(%h)"]
    assert loop(ZERO, OWN, *turned, f"%s = {PART}", f"%o = {out}", end) == scatter
    both = f"ROOT %m = ({WHOLE}, {WHOLE}) tuple(%o, %c)"
    assert loop(ZERO, OWN, *cut[:2], both) == "", "all of it is used, too"
    other = f"%s = {PART.replace('%d', '%y')}"
    assert loop(ZERO, OWN, other, f"%o = {out}", both) == "", "a part of something else is used"


def test_what_stays_an_all_reduce():
    """If only a part is used, but not the rank's own part, XLA makes no reduce-scatter."""
    part, out = PART.replace("%d", "%c"), JOINED
    end = f"ROOT %m = ({WHOLE}, {WHOLE}) tuple(%o, %y)"
    cut = (f"%s = {part}", f"%o = {out}", end)
    assert loop(ZERO, "%at = s32[] constant(2)", *cut) == "", "the same part on all ranks"
    data = OWN.replace("constant(2)", "constant(2)\n  %k = s32[1]{0} reshape(%i)")
    data = data.replace("%at = s32[] multiply(%i, %n)", "%l = s32[1]{0} dynamic-slice(%k, %z), "
                        "dynamic_slice_sizes={1}\n  %at = s32[] reshape(%l)")
    assert loop(ZERO, data, *cut) == "", "an offset that XLA does not understand"
    halves = out.replace("%s, %s, %s, %s", "%s, %s")
    half = part.replace("f32[2,4]", "f32[4,4]").replace("{2,4}", "{4,4}")
    assert loop(ZERO, OWN, f"%s = {half}", f"%o = {halves}", end) == "", "more ranks than parts"
    twice = OWN + "".join(f"\n  %a{i} = s32[] add(%a{i - 1}, %a{i - 1})" for i in range(1, 40))
    twice = twice.replace("%at =", "%a0 =") + "\n  %at = s32[] add(%a39, %a39)"
    assert loop(ZERO, twice, *cut) != ""
    twice = twice.replace("partition-id()", "constant(1)")
    assert loop(ZERO, twice, *cut) == "", "and not after 2^40 steps"
    refused = "its reduction is not a sum, product, maximum or minimum of two numbers of its type"
    assert loop(ZERO, OWN, *cut, op="subtract") == refused, "no reason that XLA could not have"


def test_what_leaves_its_loop():
    """If each iteration only adds the sum to a value that it carries along, XLA moves the sum out
    of the loop, as for gradients that are accumulated."""
    move = "XLA may move it out of its loop"
    assert loop(SUM, END) == move and loop(SUM.replace("%x, %c", "%c, %x"), END) == move
    assert loop("%h = f16[8,4]{1,0} convert(%c)", f"%d = {WHOLE} convert(%h)",
                SUM.replace("%c", "%d"), END) == move
    assert loop(SUM, END, call="call(%p), to_apply=%body") == "", "no loop"
    assert loop(SUM, END, op="multiply") == "", "XLA moves sums only"
    assert loop(SUM, END, kind="c64") == "", "XLA moves no complex numbers"
    for used in ("%s, %s", "%s, %x", "%s, %c"):
        assert loop(SUM, END.replace("%s, %y", used)) == "", "used twice: " + used
    assert loop(SUM.replace("add", "multiply"), END) == ""
    assert loop(f"%d = {WHOLE} negate(%x)", SUM.replace("%x", "%d"), END) == ""
    assert loop(SUM.replace("%x", "%c"), END) == ""
    negated = f"%d = {WHOLE} negate(%s)"
    assert loop(SUM, negated, END.replace("%s", "%d")) == ""


def long(beside, before="negate(%p)", inner="negate(%q)", n=1774):
    """Return why a long all-reduce %c stays with XLA."""
    words = dict(beside=beside, before=before, inner=inner, n=n)
    ((*_, done, why, _, _),) = edit(made(LINE, LONG, **words))[1]
    assert done != bool(why)
    return why


def test_what_runs_beside_products():
    """XLA can run a long all-reduce beside products that do not need its result, and whose results
    it does not need, such as the products for the gradients of other layers."""
    beside = "XLA may run it beside matrix products"
    assert long(f"dot(%w, %w), {DOT}") == beside
    assert long(f"dot(%x, %w), {DOT}") == beside, "both need the same"
    assert long('custom-call(%w), custom_call_target="__cublas$gemm"') == beside
    assert long('custom-call(%w), custom_call_target="another"') == ""
    assert long("negate(%w)") == "", "no product"
    assert long(f"dot(%c, %w), {DOT}") == "", "the product needs the sum"
    assert long("negate(%w)", before=f"dot(%p, %w), {DOT}") == "", "the sum needs the product"
    assert long(f"dot(%w, %w), {DOT}", n=1773) == "", "12 MiB are not long"
    inner = f"dot(%q, %q), {DOT}"
    for way in ("call(%{}), to_apply=%inner", "call(%{}), to_apply=%outer"):
        assert long(way.format("w"), inner=inner) == beside, way
        assert long(way.format("w")) == "", way
        assert long(way.format("c"), inner=inner) == "", way
        assert long("negate(%w)", before=way.format("p"), inner=inner) == "", way


if __name__ == "__main__":
    sys.exit(run(globals()))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the editor of jax/hlo/: what it replaces, what it writes, and what it leaves alone.

jaxlib makes the modules from HLO text and reads the edited ones back. test_gspmd.py runs programs.
"""

import os
import random
import sys
import traceback

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4 "
# on the CPU this pass runs before our edit
os.environ["XLA_FLAGS"] += "--xla_disable_hlo_passes=cpu-all-reduce-combiner"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["SYMTUNER_ONLY"] = "allreduce,reducescatter,allgather"
import jax  # noqa: E402
import numpy as np  # noqa: E402

try:
    from jax.extend import xla  # noqa: E402, F401
    from jaxlib import _hlo as hlo  # noqa: E402
except ImportError:
    print(f"{__file__}: not run: jax {jax.__version__} shows nobody its programs; 0.10.2 does")
    sys.exit(77)

from symtuner import _hlo, _library  # noqa: E402

opened = []  # the groups that were opened, each as rows of ids


def record(rows, xla):
    opened.append([[d.id for d in row] for row in rows])


_hlo.open_rows = record  # there are no GPUs here, so no group can be opened


# ---- modules from text ---------------------------------------------------------------------------
def varint(n):
    n, out = n & (1 << 64) - 1, b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def assignment(ids):
    """Return a DeviceAssignmentProto: ids[replica][partition]."""
    columns = b"".join(
        field(3, field(1, b"".join(varint(row[p]) for row in ids))) for p in range(len(ids[0]))
    )
    return field(15, field(1, len(ids)) + field(2, len(ids[0])) + columns)


MODULE = """HloModule made

%sum (a: {type}[], b: {type}[]) -> {type}[] {{
  %a = {type}[] parameter(0)
  %b = {type}[] parameter(1)
  ROOT %c = {type}[] {op}(%{first}, %b)
}}

ENTRY %main (p: {shape}) -> {shape} {{
  %p = {shape} parameter(0)
  ROOT %ar = {shape} all-reduce(%p), {more}to_apply=%sum
}}
"""


def made(ids=((0, 1, 2, 3),), text=MODULE, **words):
    given = {
        "type": "f32",
        "op": "add",
        "first": "a",
        "more": "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, ",
    }
    given.update(words)
    given.setdefault("shape", given["type"] + "[3,5]{1,0}")
    module = hlo.hlo_module_from_text(text.format(**given))
    return module.as_serialized_hlo_module_proto() + (assignment(ids) if ids else b"")


def show(proto):
    return hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string()


def edit(proto):
    return _hlo._edit("cpu", proto)


def look(proto):
    """Return the only collective's operator, and the ids and positions of its groups' devices."""
    with _hlo._open(proto) as module:
        ((_, call),) = module.calls()
        assert call.why == b"", call.why
        ids = call.groups[: call.rows * call.ranks]
        places = call.places[: call.rows * call.ranks]
    return call.op, cut(ids, call.ranks), cut(places, call.ranks)


def why(proto):
    with _hlo._open(proto) as module:
        return [call.why.decode() for _, call in module.calls()]


def test_one_call():
    proto = made(ids=[[2, 3, 0, 1]])
    edited, rows = edit(proto)
    assert rows == [("made", "ar", True, "", None, 0)], rows
    before, after = show(proto).splitlines(), show(edited).splitlines()
    changed = [(a, b) for a, b in zip(before, after) if a != b]
    ((_, line),) = [pair for pair in changed if "%ar" in pair[0]]
    assert line.strip() == (
        'ROOT %ar = f32[3,5]{1,0} custom-call(%p), custom_call_target="symtuner_all_reduce", '
        "operand_layout_constraints={f32[3,5]{1,0}}, api_version=API_VERSION_TYPED_FFI, "
        "backend_config={groups = dense<[0, 1, 2, 3]> : tensor<4xi64>, op = 0 : i32, "
        "ranks = 4 : i32}"
    ), line
    assert opened.pop() == [[0, 1, 2, 3]]


def numbers(proto):
    """Return the field numbers of the last instruction of the module."""
    found = [content for number, content in fields(proto) if number == 3]
    found = [content for number, content in fields(found[-1]) if number == 2]
    return {number for number, _ in fields(found[-1])}


def test_fields():
    """The edit removes the fields of an all-reduce, and adds the fields of a custom call."""
    proto = made(more=FLAT + 'backend_config="xla", ')
    before, after = numbers(proto), numbers(edit(proto)[0])
    assert before - after == {26, 38, 71, 87}, before - after
    assert after - before == {28, 56, 57, 77}, after - before


def test_two_computations():
    """If an all-reduce is left to XLA, all-reduces of later computations are still replaced."""
    body = "%s = s16[4]{0} convert(%p)\n %c = s16[4]{0} call(%s), to_apply=%within\n"
    text = INNER.replace("f32[4]{{0}} all-reduce(%x)", "s16[4]{{0}} all-reduce(%x)")
    text = text.replace("(x: f32[4]) -> f32[4]", "(x: s16[4]) -> s16[4]")
    text = text.replace("%x = f32[4]", "%x = s16[4]")
    proto = made(text=text, body=body + PART.replace("%g", "%last") + "all-reduce(%p), "
                 + FLAT + "to_apply=%sum")
    edited, rows = edit(proto)
    assert [row[1:3] for row in rows] == [("ar", False), ("last", True)], rows
    assert show(edited).count("custom-call(") == 1


def test_halves_of_ids():
    """Some releases write only the lower half of an id in some places. Both forms are read."""
    full = field(36, varint(1 << 32))
    proto = made()
    assert proto.count(full) == 1
    assert look(replace_in(proto, [3, 2], full, field(36, b"\0")))[0] == 0


def test_flat():
    """Check the attribute "flat", which has the positions of devices in the list of devices."""
    with _hlo._open(made(ids=[[2, 3, 0, 1]])) as module:
        list(module.calls())
        assert module.replace(0, "t", True) and not module.replace(1, "t", True)
        assert "flat = dense<[2, 3, 0, 1]> : tensor<4xi64>, groups = dense<[0" in show(
            module.write()
        )


def test_unchanged_bytes():
    """Without a replacement the writer returns the same bytes, whatever fields they have."""
    extra = field(1000, b"\x01\x02") + field(777, 5) + varint(99 << 3 | 1) + b"12345678"
    proto = made() + extra
    with _hlo._open(proto) as module:
        assert module.write() == proto
        list(module.calls())
        module.replace(0, "t", False)
        assert module.write().endswith(extra)


# ---- groups --------------------------------------------------------------------------------------
def cut(ids, each):
    return np.asarray(ids).reshape(-1, each).tolist()


def random_lists(rng, n, each):
    ids = rng.permutation(n)
    groups = cut(ids, each)
    return "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups) + "}", groups


def factors(rng, n):
    out = []
    while n > 1:
        f = int(rng.choice([d for d in range(2, n + 1) if n % d == 0]))
        out.append(f)
        n //= f
    return out or [1]


def random_iota(rng, n, each):
    sizes = factors(rng, n)
    order = rng.permutation(len(sizes)).tolist()
    ids = np.arange(n).reshape(sizes).transpose(order)
    if order == sorted(order):
        return f"[{n // each},{each}]<=[{n}]", cut(range(n), each)
    text = f"[{n // each},{each}]<=[{','.join(map(str, sizes))}]T({','.join(map(str, order))})"
    return text, cut(ids, each)


def random_mesh(rng, n, _):
    """Return groups over some axes of a random mesh, as HLO text and as rows of ids."""
    sizes = factors(rng, n)
    ids, listed = np.arange(n), ""
    if rng.random() < 0.5 and n > 2:
        ids = rng.permutation(n)
        if ids.tolist() != list(range(n)):
            listed = f", device_ids=({','.join(map(str, ids))})"
    dims, grouped, refs = [], [], []
    for a, size in enumerate(sizes):
        parts = factors(rng, size)
        if len(parts) < 2 or rng.random() < 0.5:
            parts = [size]
        for i, part in enumerate(parts):
            # do not take adjacent parts of an axis, which would have to be written as one
            if rng.random() < 0.5 and not (i > 0 and len(dims) - 1 in grouped):
                grouped.append(len(dims))
                pre = int(np.prod(parts[:i], dtype=int))
                refs.append(f"'x{a}'" + (f":({pre}){part}" if len(parts) > 1 else ""))
            dims.append(part)
    if not refs:
        return random_mesh(rng, n, _)
    rest = [i for i in range(len(dims)) if i not in grouped]
    each = int(np.prod([dims[i] for i in grouped]))
    axes = ",".join(f"'x{a}'={size}" for a, size in enumerate(sizes))
    text = f"mesh[{axes}]{listed} {{{','.join(refs)}}}"
    return text, cut(ids.reshape(dims).transpose(rest + grouped), each)


def test_groups_in_all_forms():
    rng = np.random.default_rng(0)
    seen = set()
    for form in (random_lists, random_iota, random_mesh):
        for _ in range(150):
            n = int(rng.choice([2, 4, 6, 8, 12, 16, 24, 64]))
            each = int(rng.choice([d for d in range(2, n + 1) if n % d == 0 and d <= 16]))
            text, groups = form(rng, n, each)
            replicas = int(rng.choice([1, 2])) if n % 2 == 0 else 1
            ids = (rng.permutation(n) + 3).reshape(replicas, -1)
            more = f"channel_id=1, replica_groups={text}, use_global_device_ids=true, "
            proto = made(ids.tolist(), more=more)
            if len(groups[0]) > 16:
                assert "more than 16" in why(proto)[0], (text, why(proto))
                continue
            flat = ids.reshape(-1)
            want = sorted(sorted(int(flat[p]) for p in group) for group in groups)
            _, got, places = look(proto)
            assert got == want, (text, ids, got, want)
            assert [[int(flat[p]) for p in row] for row in places] == want, text
            seen.add((form, len(want) > 1, "T(" in text, ":(" in text, "device_ids" in text))
    assert len(seen) > 10, seen


def test_replicas_and_partitions():
    """With a channel and no global ids, a group is some replicas with all their partitions."""
    more = "channel_id=1, replica_groups={{0,2},{1,3}}, "
    _, got, places = look(made(np.arange(8)[::-1].reshape(4, 2).tolist(), more=more))
    assert got == [[0, 1, 4, 5], [2, 3, 6, 7]] and places == [[7, 6, 3, 2], [5, 4, 1, 0]], places
    _, got, _ = look(made([[0, 1], [2, 3]], more="channel_id=1, replica_groups={}, "))
    assert got == [[0, 1, 2, 3]]


def iota_transform(sizes, order, refs):
    """Return the mesh in the form of newer releases, whose text jaxlib 0.10 does not know."""
    packed = lambda numbers: b"".join(map(varint, numbers))
    axes = b"".join(field(1, field(1, b"x%d" % i) + field(2, s)) for i, s in enumerate((4, 2)))
    mesh = axes + field(3, field(1, packed(sizes)) + field(2, packed(order)))
    groups = field(1, mesh) + b"".join(field(2, field(1, r)) for r in refs)
    mark = b"\xea\x05"  # the tag of field 93
    proto = made([list(range(8))], more="channel_id=1, replica_groups=mesh['x'=8] {'x'}, "
                 "use_global_device_ids=true, ")
    at = proto.index(mark)
    return proto, at, proto[at : at + 3 + proto[at + 2]], field(93, groups)


def test_iota_transform():
    """Put groups in the form of newer releases into a module, and check what the editor reads."""
    proto, _, old, new = iota_transform((2, 4), (1, 0), (1,))
    proto = replace_in(proto, [3, 2], old, new)
    want = np.arange(8).reshape(2, 4).T.reshape(4, 2).tolist()
    assert look(proto)[1] == sorted(map(sorted, want)), look(proto)


def test_fields_of_a_mesh_that_are_none():
    proto, _, old, new = iota_transform((2, 4), (1, 0), (1,))
    for odd in (field(7, 1), field(1, 1), field(3, b""), b"\x0a\x05"):
        bad = replace_in(proto, [3, 2], old, field(93, new[3:] + odd))  # new[:3] is tag and length
        assert why(bad) == ["its replica groups cannot be read"]


def test_other_fields_of_an_instruction():
    """Other integer fields of an instruction do not change how the editor reads its groups."""
    proto = made(more="channel_id=1, replica_groups={{0,1}}, ", ids=[[0, 1], [2, 3]])
    name = field(2, b"all-reduce")
    assert look(replace_in(proto, [3, 2], name, name + field(9, 1))) == look(proto)


def replace_in(proto, path, old, new):
    """Replace bytes within nested fields."""
    if not path:
        return proto.replace(old, new)
    out, at = b"", 0
    while at < len(proto):
        start = at
        tag, at = take(proto, at)
        if tag & 7 == 0:
            _, at = take(proto, at)
        else:
            size, at = take(proto, at)
            content, at = proto[at : at + size], at + size
            if tag >> 3 == path[0] and old in content:
                out += field(path[0], replace_in(content, path[1:], old, new))
                continue
        out += proto[start:at]
    return out


def fields(proto):
    at = 0
    while at < len(proto):
        tag, at = take(proto, at)
        content, at = take(proto, at)
        if tag & 7 == 2:
            content, at = proto[at : at + content], at + content
        yield tag >> 3, content


def take(proto, at):
    value = shift = 0
    while True:
        value |= (proto[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if proto[at - 1] < 128:
            return value, at


# ---- what stays XLA's ----------------------------------------------------------------------------
def test_reductions():
    types = "s8 u8 s32 u32 s64 u64 f16 bf16 f32 f64 f8e4m3fn f8e5m2".split()
    for number, op in enumerate(("add", "multiply", "maximum", "minimum")):
        for name in types:
            proto = made(type=name, op=op)
            if number > 1 and "f" in name:
                assert why(proto) == ["the kernels' maximum and minimum of floats lose a NaN"]
            else:
                assert look(proto)[0] == number, (op, name)
        complexes = [why(made(type=t, op=op)) for t in ("c64", "c128")] if number < 2 else []
        assert complexes in ([], [[""]] * 2, [["complex numbers can be summed only"]] * 2)
    for op in ("subtract", "divide"):
        assert "not a sum" in why(made(op=op))[0]
    assert "not a sum" in why(made(first="b"))[0]  # the reduction computes b + b
    assert look(made(text=MODULE.replace("%sum", "%maximum")))[0] == 0  # names do not matter


FLAT = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, "
PAIR = """HloModule made

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}

ENTRY %main (p: f32[4]) -> f32[4] {{
  %p = f32[4]{{0}} parameter(0)
  {body}
}}
"""
START = "%s = f32[4]{0} all-reduce-start(%p), " + FLAT + "to_apply=%sum\n"
TWO = "%s = (f32[4]{0}, f32[4]{0}) all-reduce(%p, %p), " + FLAT + "to_apply=%sum\n"
PART = "ROOT %g = f32[4]{0} "
TURNED = """
  %t = f32[3,5]{{0,1}} copy(%p)
  ROOT %ar = {shape} all-reduce(%t)"""
WITHIN = """%within (x: f32[4]) -> f32[4] {{
  %x = f32[4]{{0}} parameter(0)
  ROOT %ar = f32[4]{{0}} all-reduce(%x), {more}to_apply=%sum
}}

ENTRY"""
INNER = PAIR.replace("ENTRY", WITHIN)
FUSION = PART + "fusion(%p), kind=kLoop, calls=%within"
ASYNC = "%s = ((f32[4]{0}), f32[4]{0}) async-start(%p), calls=%within\n" + PART + "async-done(%s)"
PROMOTED = MODULE.replace("-> {type}[] {{", "-> f32[] {{").replace("%c = {type}", "%c = f32")
REFUSED = {  # why the collective is left to XLA: a module with such a collective
    "it has no channel id": made(more="replica_groups={{0,1,2,3}}, ", ids=[[0], [1], [2], [3]]),
    "each of its groups has one device": made(more=FLAT.replace("0,1,2,3", "0},{1},{2},{3")),
    "its groups have different sizes": made(more=FLAT.replace("0,1,2,3", "0,1,2},{3")),
    "its replica groups do not have each device once": made(more=FLAT.replace("0,1,2,3", "0,1")),
    "the module does not say which devices": made(ids=None),
    "the module's device assignment does not name each": made(ids=[[0, 1, 2, 2]]),
    "the module's device assignment does not name each device": made(ids=[[0, 1, 2, -1]]),
    "its layout is not the default": made(shape="f32[3,5]{0,1}"),
    "its layout is not the default one": made(shape="f32[3,5]{1,0:S(1)}"),
    "it has a dynamic dimension": made(shape="f32[<=3,5]{1,0}"),
    "it constrains its layout": made(more=FLAT + "constrain_layout=true, "),
    "it has frontend attributes": made(more=FLAT + 'frontend_attributes={{_x="1"}}, '.format()),
    "NCCL has no such type": made(type="s16"),
    "NCCL has no such type ": made(type="pred", op="or"),
    "XLA runs it beside other": made(
        text=PAIR, body=START + PART + "all-reduce-done(%s)"
    ),
    "it has several operands": made(
        text=PAIR, body=TWO + PART + "get-tuple-element(%s), index=0"
    ),
    "its operand has another layout": made(
        text=MODULE.replace("\n  ROOT %ar = {shape} all-reduce(%p)", TURNED)
    ),
    "its operand has another shape": made(text=MODULE.replace("(%p)", "(%t)").replace(
        "  ROOT %ar", "  %t = f32[15]{{0}} reshape(%p)\n  ROOT %ar"
    )),
    "its reduction is not a sum": made(type="bf16", text=PROMOTED),
    "it is part of a fusion": made(text=INNER, body=FUSION),
    "XLA runs it beside other work": made(text=INNER, body=ASYNC),
}


def test_refused():
    for reason, proto in REFUSED.items():
        edited, rows = edit(proto)
        assert edited is None and len(rows) == 1, (reason, rows)
        assert reason.strip() in rows[0][3] and not rows[0][2], (reason, rows)
    spmd = FLAT + 'frontend_attributes={is_spmd_generated="true"}, '
    assert why(made(more=spmd)) == [""]
    opcode = field(2, b"all-reduce")
    newer = replace_in(made(), [3, 2], opcode, opcode + field(200, 1))
    assert why(newer) == ["it has a field that only a newer XLA has"]


def test_devices_that_cannot_be_read():
    """If a device assignment has an unknown field, ids that are cut short, or too many ids, the
    editor treats the module like one without an assignment."""
    for odd in (b"", field(9, 1), b"\x0a\x05", field(1, 7)):
        ids = b"".join(field(3, field(1, varint(i)) + (odd if i == 3 else b"")) for i in range(4))
        got = why(made(ids=None) + field(15, field(1, 1) + field(2, 4) + ids))
        assert got == ["the module does not say which devices it is for" if odd else ""], got


def test_group_that_does_not_open():
    def refuse(rows, xla):
        raise _library.SymtunerError("no memory")

    try:
        _hlo.open_rows = refuse
        assert edit(made()) == (None, [("made", "ar", False, "no memory", None, 0)])
    finally:
        _hlo.open_rows = record
    edited, ((*_, reason, _, _),) = edit(made(ids=[[0, 1, 2, 9]]))
    assert edited is None and reason == "device 9 of the program is not one of jax.devices()"


def test_damaged_modules():
    """No bytes crash the editor, and no exception leaves _transform."""
    said = []
    _hlo.install(lambda *row: said.append(row), "nowhere")
    rng = random.Random(0)
    for proto in (made(), *list(REFUSED.values())[:4]):
        for end in range(0, len(proto), 7):
            _hlo._transform("cpu", proto[:end])
        for _ in range(300):
            bad = bytearray(proto)
            for _ in range(rng.randint(1, 4)):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            _hlo._transform("cpu", bytes(bad))
    _hlo.uninstall()
    assert any("cannot be read" in row[3] for row in said), said[:3]


def run(tests):
    """Run all functions test_* of a module, or those that the command line names."""
    tests = [(n, t) for n, t in tests.items() if n.startswith("test_")]
    chosen = [(n, t) for n, t in tests if not sys.argv[1:] or n in sys.argv[1:]]
    failed = 0
    for name, test in chosen:
        try:
            test()
        except Exception:
            failed += 1
            print(f"FAILED: {name}\n{traceback.format_exc()}", file=sys.stderr)
    print(f"{os.path.basename(sys.argv[0])}: {len(chosen) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(run(globals()))

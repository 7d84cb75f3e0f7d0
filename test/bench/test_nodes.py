# SPDX-License-Identifier: Apache-2.0
"""Tests bench/nodes.py: does it compute what kernels/nodes/model.c computes, and can it read what
describe.c writes? Also tests bench/nodes_time.py: its arguments, a run with invented times, and
a run with fakes of torch, NCCL and our library, which compute nothing."""
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types

import test_beside as fakes

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
os.environ.update(RANK="0", WORLD_SIZE="4", LOCAL_RANK="0")    # for the run on fakes

import nodes  # noqa: E402
import nodes_time  # noqa: E402


def bench(program, *words):
    return subprocess.run([sys.executable, str(ROOT / "bench" / program), *words],
                          capture_output=True, text=True, timeout=120, check=False,
                          env={k: v for k, v in os.environ.items() if k != "WORLD_SIZE"})


def expect(done, status, says):
    assert done.returncode == status and says in done.stdout + done.stderr, (status, says, done)


def described(figures):
    """Return what add_figures() in kernels/nodes/describe.c writes, made from the format strings in
    its source."""
    source = (ROOT / "kernels/nodes/describe.c").read_text()
    body = source[source.index("static void add_figures"):source.index("static void add_rules")]
    names = re.findall(r'"([^"]*)"', body[body.index("ways[AR_WAYS]"):body.index(";")])
    formats = [f.replace("\\n", "\n").replace("%llu", "%d")
               for f in re.findall(r'add\(t, "([^"]*)"', body)]
    head, size, bytes_, name, us, end = formats
    text = head + "".join(size % s for s in figures[0]) + bytes_
    for word, times in zip(names, figures[1:]):
        text += name % word + "".join(us % t for t in times) + end
    return "a line before\n" + text + "rules that keep this choice:\n  ranks = 4\n"


FIGURES = [(1 << 16, 1 << 20, 1 << 24), (110, 900.5, 123456.7), (15, 30, 150), (100, 400, 5000)]


def test_nodes(folder):
    expect(bench("nodes.py", "--check"), 0, "are those of kernels/nodes/model.c")
    ways = nodes.measured(described(FIGURES))
    for way, times in zip((ways.whole, ways.box, ways.between), FIGURES[1:]):
        assert [way(size) for size in FIGURES[0]] == list(times)
    assert ways.us(1 << 16, 1) == 115 and ways.chosen(1 << 16) == 0 and ways.chosen(1 << 20) == 1
    file = pathlib.Path(folder, "figures")
    file.write_text(described(FIGURES))
    expect(bench("nodes.py", "--measured", str(file)), 0,
           "these boxes: chosen from 262144 bytes on")
    file.write_text("no such group")
    expect(bench("nodes.py", "--measured", str(file)), 2, "no start-up figures")
    file.write_text(described([FIGURES[0], *FIGURES[2:], (1, 2)]))
    expect(bench("nodes.py", "--measured", str(file)), 2,
           'figures of "between the boxes" are not 3 numbers')
    expect(bench("nodes.py", "--per-box", "1"), 2, "2 to 16 ranks of a box")
    if shutil.which("xz"):
        expect(bench("nodes.py", "--boxes", "2"), 0, "boxes of 8, 8 cards of 50 GB/s")
        expect(bench("nodes.py", "--boxes", "2", "--per-box", "2"), 0,
               "boxes of 2, 2 cards of 50 GB/s")
        assert nodes.in_box(2) != nodes.in_box(4) and len(nodes.in_box(2)) == len(nodes.in_box(4))


def test_dry_run(folder):
    out = ("--dry-run", "--out", f"{folder}/nodes.json")
    expect(bench("nodes_time.py", *out), 0,
           "5 of 6 sizes ran box by box; 0 bars do not hold; 0 predictions")
    result = json.loads(pathlib.Path(folder, "nodes.json").read_text())
    assert [r["pieces"] for r in result["rows"]] == [0, 1, 1, 1, 1, 2], result["rows"]
    assert [r["bar"] for r in result["rows"]] == [1.02] + [1.0] * 5, result["rows"]
    assert all(len(r["symtuner"]) == 5 and r["predicted NCCL"]["us"] for r in result["rows"])
    expect(bench("nodes.py", "--measured", f"{folder}/nodes.json.figures"), 0,
           "chosen from 262144 bytes on")
    expect(bench("nodes_time.py", *out, "--slower", "-0.5"), 1, "1 bars do not hold")
    expect(bench("nodes_time.py", *out, "--predicts", "0"), 1,
           "12 predictions are off by more than 0 %")
    done = bench("nodes_time.py", *out, "--most", "65536")
    expect(done, 1, "0 of 1 sizes ran box by box: this run does not count")


def test_arguments():
    expect(bench("nodes_time.py", "--per-box", "1"), 2, "1: at least 2")
    expect(bench("nodes_time.py", "--least", "66"), 2, "--least is a multiple of 4")
    expect(bench("nodes_time.py"), 77, "skipped: it needs")


class Library(fakes.Library):
    def __getattr__(self, name):
        function = super().__getattr__(name)

        def mine(*arguments):
            if name == "symtuner_ar_describe":
                arguments[1].value = described(FIGURES).encode()
            if name == "symtuner_ar_query_coll":
                arguments[-1]._obj.boxes, arguments[-1]._obj.pieces = 2, 4
            return function(*arguments)
        setattr(self, name, mine)
        return mine


class Torch(types.SimpleNamespace):
    """The fake torch of test_beside.py, and what nodes_time.py needs besides."""

    def __init__(self):
        torch, dist = fakes.fake_torch()
        thing = lambda *_, **__: Number()
        super().__init__(**{**vars(torch), "float32": 0, "Generator": thing, "randint": thing,
                            "as_tensor": thing, "tensor": lambda value, **_: Number(value),
                            "__version__": "fake"})
        self.dist = dist


class Number(fakes.Thing):
    """A number, or a tensor that is equal to every other."""

    def __add__(self, _):
        return self

    __radd__ = __iadd__ = __add__

    def __ne__(self, _):
        return Number(0)

    def __hash__(self):
        return 0


def test_a_run(folder):
    ended, torch = [], Torch()
    nodes_time.beside.torch = nodes_time.torch = torch
    nodes_time.beside.dist = nodes_time.dist = torch.dist
    nodes_time.beside.load = Library
    nodes_time.beside.ctypes.CDLL = lambda _: Library()
    nodes_time.beside.ctypes.string_at = lambda *_: bytes(128)
    nodes_time.os = types.SimpleNamespace(environ=os.environ, path=os.path, _exit=ended.append)
    for words in ([], ["--graphs"]):
        out = ["--out", f"{folder}/run.json"]
        sys.argv = ["nodes_time.py", "--library", __file__, "--rounds", "2", *out, *words]
        with contextlib.redirect_stdout(io.StringIO()) as text:
            nodes_time.main()
        assert "6 of 6 sizes ran box by box; 0 bars do not hold" in text.getvalue(), text.getvalue()
    # all measured times are equal, so the predictions differ from them and main() ends with 1
    assert ended == [1, 1], ended
    assert os.environ["NCCL_HOSTID"] == "box0" and os.environ["SYMTUNER_AR_NODES"] == "1"


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_nodes(folder)
        test_dry_run(folder)
        test_arguments()
        test_a_run(folder)
    print("test_nodes: all as expected")


if __name__ == "__main__":
    main()

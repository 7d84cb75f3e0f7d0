# SPDX-License-Identifier: Apache-2.0
"""bench/nodes.py: does it compute what kernels/nodes/model.c does, and read what describe.c writes?"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import nodes  # noqa: E402


def bench(program, *words):
    return subprocess.run([sys.executable, str(ROOT / "bench" / program), *words], capture_output=True,
                          text=True, timeout=120, check=False)


def expect(done, status, says):
    assert done.returncode == status and says in done.stdout + done.stderr, (status, says, done)


def described(figures):
    """Return what add_figures() in kernels/nodes/describe.c writes, by the strings in its source."""
    source = (ROOT / "kernels/nodes/describe.c").read_text()
    body = source[source.index("static void add_figures"):source.index("static void add_rules")]
    names = re.findall(r'"([^"]*)"', body[body.index("ways[AR_WAYS]"):body.index(";")])
    formats = [f.replace("\\n", "\n").replace("%llu", "%d") for f in re.findall(r'add\(t, "([^"]*)"', body)]
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
    expect(bench("nodes.py", "--measured", str(file)), 0, "these boxes: chosen from 262144 bytes on")
    file.write_text("no such group")
    expect(bench("nodes.py", "--measured", str(file)), 2, "no start-up figures")
    file.write_text(described([FIGURES[0], *FIGURES[2:], (1, 2)]))
    expect(bench("nodes.py", "--measured", str(file)), 2, 'figures of "between the boxes" are not 3 numbers')
    expect(bench("nodes.py", "--per-box", "1"), 2, "2 to 16 ranks of a box")
    if shutil.which("xz"):
        expect(bench("nodes.py", "--boxes", "2"), 0, "boxes of 8, 8 cards of 50 GB/s")
        expect(bench("nodes.py", "--boxes", "2", "--per-box", "2"), 0, "boxes of 2, 2 cards of 50 GB/s")
        assert nodes.in_box(2) != nodes.in_box(4) and len(nodes.in_box(2)) == len(nodes.in_box(4))


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_nodes(folder)
    print("test_nodes: all as expected")


if __name__ == "__main__":
    main()

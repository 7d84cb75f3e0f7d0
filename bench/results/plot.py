#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw what ar_compare measured as one SVG with a row of two panels for each (ranks, mode): on the
left the time of each contender over the size per rank, on the right that time divided by ours
(above 1: ours is faster). All axes are logarithmic; a point is the median of the rounds.

    plot.py RESULTS.csv[.xz] OUT.svg [--type bf16] [--op sum] [--cache warm]

Needs only Python.
"""
import argparse
import collections
import csv
import html
import lzma
import math
import statistics

NAMES = ["ours", "staged", "general", "sym", "sym32", "sym64", "torch1", "torch2",
         "nt_lsa", "nt_vec", "nt_vec64", "vllm", "trt1", "trt2", "mscclpp"]
GUESTS = NAMES[6:]  # measured only with one process per GPU, and shown in every mode
COLOURS = dict(zip(NAMES, ["#c0392b", "#e59866", "#1f618d", "#7d3c98", "#a569bd", "#5b2c6f",
                           "#1e8449", "#52be80", "#7f8c8d", "#34495e", "#95a5a6",
                           "#d4ac0d", "#117864", "#45b39d", "#873600"]))
WIDTH, HEIGHT, GAP, LEFT = 440, 260, 70, 60


def read(path, args):
    """Read the file: (ranks, mode) -> contender -> [(bytes, median us)]. Torch and the peers are in
    every mode."""
    rounds = collections.defaultdict(list)
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", newline="") as f:
        for row in csv.DictReader(f):
            if (row["type"], row["op"], row["cache"]) == (args.type, args.op, args.cache):
                key = int(row["ranks"]), row["mode"], row["contender"], int(row["bytes"])
                rounds[key].append(float(row["us"]))
    modes = sorted({k[:2] for k in rounds if k[2] not in GUESTS})
    panels = {m: collections.defaultdict(list) for m in modes}
    for (ranks, mode, name, size), us in sorted(rounds.items()):
        for panel in modes:
            if panel[0] == ranks and (panel[1] == mode or name in GUESTS):
                panels[panel][name].append((size, statistics.median(us)))
    return panels


def size_name(size):
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"


class Panel:
    """A plot with two logarithmic axes."""

    def __init__(self, x, y, xs, ys, title, unit):
        self.x, self.y, self.out = x, y, []
        self.low = math.log2(min(xs)), math.log10(min(ys))
        self.high = math.log2(max(xs)) + 1e-9, math.log10(max(ys)) + 1e-9
        self.out.append(f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" '
                        'stroke="#999"/>')
        self.text(x, y - 8, title)
        for size in sorted(set(xs)):
            if round(math.log2(size)) % 3 == 0:
                px = self.at(size, 10 ** self.low[1])[0]
                self.out.append(f'<path d="M{px:.1f} {y}v{HEIGHT}" stroke="#eee"/>')
                self.text(px, y + HEIGHT + 15, size_name(size), "middle")
        for exponent in range(-3, 6):
            for step in (1, 2, 5):
                value = step * 10.0 ** exponent
                if self.low[1] <= math.log10(value) <= self.high[1]:
                    py = self.at(min(xs), value)[1]
                    self.out.append(f'<path d="M{x} {py:.1f}h{WIDTH}" stroke="#eee"/>')
                    self.text(x - 5, py + 4, f"{value:g}", "end")
        self.text(x, y + HEIGHT + 32, unit)

    def at(self, size, value):
        fx = (math.log2(size) - self.low[0]) / (self.high[0] - self.low[0])
        fy = (math.log10(value) - self.low[1]) / (self.high[1] - self.low[1])
        return self.x + fx * WIDTH, self.y + HEIGHT - fy * HEIGHT

    def text(self, x, y, words, anchor="start"):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
                        f"{html.escape(words)}</text>")

    def line(self, points, colour, width):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*p) for p in points))
        self.out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                        f'stroke-width="{width}"/>')


def draw(panels, args):
    parts, y = [], 70
    drawn = [n for n in NAMES if any(lines.get(n) for lines in panels.values())]
    for i, name in enumerate(drawn):
        parts.append(f'<text x="{LEFT + 70 * i}" y="25" fill="{COLOURS[name]}">{name}</text>')
    for (ranks, mode), lines in panels.items():
        ours = dict(lines.get("ours", []))
        sizes = [p[0] for points in lines.values() for p in points]
        title = f"{ranks} ranks, {mode}, {args.type} {args.op}, {args.cache}"
        times = [p[1] for points in lines.values() for p in points]
        left = Panel(LEFT, y, sizes, times, title, "size per rank; microseconds")
        ratio = {n: [(s, t / ours[s]) for s, t in pts if s in ours] for n, pts in lines.items()}
        values = [min(4, max(0.5, r)) for pts in ratio.values() for _, r in pts] + [0.8, 1.25]
        right = Panel(LEFT + WIDTH + GAP, y, sizes, values, title, "size per rank; time over ours")
        for name in reversed(NAMES):
            if lines.get(name):
                width = 2.5 if name == "ours" else 1.3
                left.line(lines[name], COLOURS[name], width)
                right.line([(s, min(4, max(0.5, r))) for s, r in ratio[name]], COLOURS[name], width)
        parts += left.out + right.out
        y += HEIGHT + GAP
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + 2 * WIDTH + GAP + 20}" '
            f'height="{y}" font-family="sans-serif" font-size="12">'
            '<rect width="100%" height="100%" fill="#fff"/>')
    return head + "\n".join(parts) + "</svg>\n"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("results")
    p.add_argument("out")
    p.add_argument("--type", default="bf16")
    p.add_argument("--op", default="sum")
    p.add_argument("--cache", default="warm")
    args = p.parse_args()
    panels = read(args.results, args)
    if not panels:
        raise SystemExit(f"{args.results}: no rows of {args.type} {args.op} {args.cache}")
    with open(args.out, "w", encoding="utf-8") as f:
        f.write(draw(panels, args))


if __name__ == "__main__":
    main()

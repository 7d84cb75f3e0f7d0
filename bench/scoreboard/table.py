# SPDX-License-Identifier: Apache-2.0
"""Pure functions that read, write and compare rows of times. A row is

    (ranks, what, coll, type, bytes, contender, round, us)

``us`` is the time of the slowest rank. If ``what`` is "alone", it is in microseconds per call. If
``what`` is "beside", it is the microseconds until the calls and the GEMMs beside them were both
done.
"""
import collections
import statistics

import plan

HEAD = "ranks,what,coll,type,bytes,contender,round,us"
LIMIT = 1.005    # ours is "behind" if its time divided by the best rival's time is above this


def text(rows):
    return "".join(["%s\n" % HEAD] + ["%d,%s,%s,%s,%d,%s,%d,%.4g\n" % row for row in rows])


def read(lines):
    """Return the rows that text() wrote."""
    lines = iter(lines)
    if next(lines, "").strip() != HEAD:
        raise ValueError(f"not rows of scoreboard.py: the first line is not {HEAD}")
    rows = []
    for number, line in enumerate(lines, 2):
        try:
            ranks, what, coll, kind, size, who, rnd, us = line.strip().split(",")
            rows.append((int(ranks), what, coll, kind, int(size), who, int(rnd), float(us)))
        except ValueError:
            raise ValueError(f"line {number} is not a row: {line.strip()[:80]}") from None
    return rows


def paired(mine, other):
    """Return the median of the ratios of two contenders' times in the same round, or None if they
    share no round."""
    ratios = [mine[r] / other[r] for r in mine if r in other]
    return statistics.median(ratios) if ratios else None


def compare(times, what):
    """Compare the contenders at one size. ``times`` maps contenders to {round: us}; ``what`` is
    "alone" or "beside". Returns a dictionary:

    "us"     our median time
    "best"   {group: (ratio, contender, us)} of the best contender of each group
    "rival"  (ratio, contender, us) of the group to which ours compares worst, or None
    "aa"     the spread of the A/A measurement, or None

    A ratio is the median, over the rounds, of our time divided by theirs in the same round. An A/A
    ratio is the second time of our own contender divided by its first, in one round. The spread is
    the median distance of the A/A ratios from 1. It shows how far apart two equal contenders
    are."""
    ours, groups = times[plan.OURS[what]], {}
    for contender in plan.CONTENDERS:
        other = times.get(contender.name)
        ratio = paired(ours, other) if other and contender.group != "symtuner" else None
        if ratio is not None and ratio > groups.get(contender.group, (0,))[0]:
            groups[contender.group] = (ratio, contender.name, statistics.median(other.values()))
    again = times.get(plan.AGAIN[what], {})
    spread = [abs(again[r] / ours[r] - 1) for r in ours if r in again]
    return {"us": statistics.median(ours.values()), "best": groups,
            "rival": max(groups.values(), default=None),
            "aa": statistics.median(spread) if spread else None}


def tables(rows):
    """Return {(ranks, what, coll, type): {bytes: compare()}} of all sizes at which ours was
    measured."""
    times = collections.defaultdict(lambda: collections.defaultdict(dict))
    for ranks, what, coll, kind, size, who, rnd, us in rows:
        times[ranks, what, coll, kind, size][who][rnd] = us
    out = collections.defaultdict(dict)
    for (*key, size), who in sorted(times.items()):
        if plan.OURS[key[1]] in who:
            out[tuple(key)][size] = compare(who, key[1])
    return dict(out)


def size_name(size):
    for unit, word in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {word}"
    return f"{size} B"


def behind(line):
    """Return whether our ratio to the best rival is above LIMIT plus the spread of A/A."""
    return line["rival"] is not None and line["rival"][0] > LIMIT + (line["aa"] or 0)


def markdown(rows):
    """Return the tables as Markdown, and how many sizes ours is behind at."""
    out, lost = [], 0
    for (ranks, what, coll, kind), lines in tables(rows).items():
        groups = list(dict.fromkeys(c.group for c in plan.CONTENDERS
                                    if any(c.group in line["best"] for line in lines.values())))
        out += [f"### {coll}, {kind}, {ranks} GPUs, {what}", "",
                "| size | ours, us | " + " | ".join(groups)
                + " | best rival | ours to it | A/A |  |",
                "|---" * (len(groups) + 6) + "|"]
        for size, line in lines.items():
            cells = [f"{line['best'][g][2]:.2f}" if g in line["best"] else "-" for g in groups]
            rival, mark = ("-", "-"), "alone here"
            if line["rival"]:
                rival = (line["rival"][1], f"{line['rival'][0]:.3f}")
                mark = "**behind**" if behind(line) else ""
            lost += behind(line)
            spread = f"{100 * line['aa']:.1f} %" if line["aa"] is not None else "-"
            out.append(f"| {size_name(size)} | {line['us']:.2f} | "
                       + " | ".join([*cells, *rival, spread, mark])
                       + " |")
        rivals = [line["rival"][0] for line in lines.values() if line["rival"]]
        if rivals:
            out += ["", "Ours to the best rival: geometric mean "
                    f"{statistics.geometric_mean(rivals):.3f}, at worst {max(rivals):.3f}; behind "
                    f"by more than {100 * (LIMIT - 1):.1f} % and the A/A spread at "
                    f"{sum(behind(line) for line in lines.values())} of {len(lines)} sizes."]
        out.append("")
    return "\n".join(out), lost

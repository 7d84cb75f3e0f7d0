# SPDX-License-Identifier: Apache-2.0
"""gain.py RAW.csv LEDGER TUNE.json TUNE.txt: works out from the raw data and from a program's
ledger what its calls gain, and compares that with what symtuner tune printed. Exit 1: they
differ; the output says how."""

import collections
import json
import re
import statistics
import sys

raw, ledger, answer, text = sys.argv[1:]
with open(answer, encoding="utf-8") as file:
    result = json.load(file)
times = collections.defaultdict(list)
for line in open(raw, encoding="utf-8"):
    if re.match("[0-9]+,", line):
        _, _, coll, name, size, us = line.split(",")
        times[coll, name, int(size)].append(float(us))
chosen = f"symmetric/{result['sym_ctas'] or 'NCCL'}"
own = {(cell["coll"], cell["bytes"]): cell for cell in result["cells"]
       if cell["candidate"] == "symtuner"}
way = {(cell["coll"], cell["bytes"]): cell["candidate"]
       for flag in ("library", "rules")  # a rule's way wins
       for cell in result["cells"] if cell.get(flag)}
before = plugin = kernels = calls = others = 0
for line in open(ledger, encoding="utf-8"):
    field = dict(re.findall(r"([\w-]+)=(\S+)", line))
    if line.startswith("comm"):
        here = field["ranks"] == "4" and field["nodes"] == "1"
    if not line.startswith("ran"):
        continue
    size = int(field["bytes"].split("..")[0])
    for kind, was, then in (("general", "general", "general"),
                            ("symmetric", "symmetric/NCCL", chosen)):
        n = int(field[kind])
        key = (field["coll"], was, size)
        if not here or key not in times:
            others += n
            continue
        calls += n
        before += n * statistics.median(times[key])
        plugin += n * statistics.median(times[field["coll"], then, size])
        runs = way.get((field["coll"], size), "")
        kernels += n * (own[field["coll"], size]["us"]
                        if runs and (kind == "symmetric" or runs.startswith(("one_", "two_")))
                        else statistics.median(times[field["coll"], then, size]))
gain = result["gain"]
want = {"calls": calls, "not_counted": others, "before_us": before / calls,
        "plugin": plugin / calls, "kernels": kernels / calls}
got = {"calls": gain["calls"], "not_counted": gain["not_counted"], "before_us": gain["before_us"],
       "plugin": gain["plugin"]["us"], "kernels": gain["kernels"]["us"]}
wrong = [f"{name}: {got[name]}, not {want[name]}" for name in want
         if abs(got[name] - want[name]) > 1e-3]
for name, us in (("plugin", plugin), ("kernels", kernels)):
    percent = 100 * (1 - us / before)
    if f"You gain {percent:.1f} ±" not in open(text, encoding="utf-8").read():
        wrong.append(f"{text} does not say {percent:.1f} %")
print(*[f"FAIL gain: {line}" for line in wrong], sep="\n", end="\n" if wrong else "")
sys.exit(bool(wrong))

# SPDX-License-Identifier: Apache-2.0
"""run_times.py: makes cli/run/times.h, from which `symtuner run` estimates the time saved
(docs/run.md).

usage: python3 bench/run_times.py > cli/run/times.h      (in the repository root)

The times are those of bench/results/2026-11-22-h200x4b: all-reduces of buffers that are not
registered, sum, one process per GPU, warm caches, medians of the rounds. Each row has the times of
bf16 or of f32: those of the type for which our kernels save less time.
"""

import collections
import csv
import lzma
import pathlib
import statistics
import sys

SOURCE = "bench/results/2026-11-22-h200x4b/ar-compare.csv.xz"

times = collections.defaultdict(list)
with lzma.open(pathlib.Path(__file__).parent.parent / SOURCE, "rt", encoding="utf-8") as file:
    for row in csv.DictReader(file):
        if row["mode"] == "procs" and row["op"] == "sum" and row["cache"] == "warm":
            times[int(row["ranks"]), row["contender"], row["type"],
                  int(row["bytes"])].append(float(row["us"]))
median = {key: statistics.median(us) for key, us in times.items()}
print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/*
 * times.h - times of all-reduces on H200s without NVLink multicast, in us. bench/run_times.py made
 * this file from {SOURCE}.
 *
 * X(ranks, binary logarithm of the bytes, NCCL's general kernel, our kernel)
 */
#ifndef ST_RUN_TIMES_H_
#define ST_RUN_TIMES_H_
""")
rows = ["#define ST_RUN_TIMES_MAP(X)"]
for ranks, size in sorted({(key[0], key[3]) for key in median if key[1] == "staged"
                           and key[2] == "f32"}):
    pairs = [(median[ranks, "general", kind, size], median[ranks, "staged", kind, size])
             for kind in ("bf16", "f32")]
    nccl, ours = min(pairs, key=lambda pair: pair[0] - pair[1])
    if size != 1 << size.bit_length() - 1:
        sys.exit(f"{SOURCE}: {size} bytes are no power of two")
    rows.append(f"    X({ranks}, {size.bit_length() - 1}, {nccl:.2f}, {ours:.2f})")
print("\n".join([f"{row:<99}\\" for row in rows[:-1]] + rows[-1:]))
print("\n#endif")

# SPDX-License-Identifier: Apache-2.0
"""Profile a few calls with JAX's profiler: the GPU kernels, their times, and the gaps between them.

An all-reduce kernel waits for the slowest rank, so its shortest times show the kernel itself;
longer ones include waiting. Profiling itself takes time between kernels.
"""

from __future__ import annotations

import collections
import glob
import tempfile

CALLS = 3  # how many calls in a row are profiled


def _quarters(values):
    v = sorted(values)
    return "/".join(f"{v[int((len(v) - 1) * q)]:.1f}" for q in (0, 0.25, 0.5, 0.75))


def _events(folder):
    """Read the trace: GPU plane -> [(start us, length us, name)], sorted by start."""
    import jax

    path = glob.glob(folder + "/**/*.xplane.pb", recursive=True)[0]
    planes = {}
    for plane in jax.profiler.ProfileData.from_file(path).planes:
        if "GPU" not in plane.name:
            continue
        for line in plane.lines:
            if line.name.startswith("Stream"):
                planes.setdefault(plane.name, []).extend(
                    (e.start_ns / 1e3, e.duration_ns / 1e3, e.name) for e in line.events
                )
    return {name: sorted(events) for name, events in planes.items()}


def kernels(call, loop):
    """One line of text: the three kernels that took most time (0/25/50/75 % of their times, us),
    the gaps between kernels, the longest gaps of one GPU, and its time for each all-reduce of the
    loop."""
    import jax

    for _ in range(3):
        call(2)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            call(CALLS)
        planes = _events(folder)
    times, gaps, longest, spans = collections.defaultdict(list), [], [], []
    for events in planes.values():
        end, own = 0, []
        for start, length, name in events:
            times[name].append(length)
            if end:
                own.append(start - end)
            end = max(end, start + length)
        gaps += own
        longest.append(sorted(own)[-CALLS:])
        spans.append((end - events[0][0]) / (loop * CALLS))
    if not gaps:
        return "the profiler saw no kernel"
    top = sorted(times, key=lambda name: -sum(times[name]))[:3]
    parts = [f"{len(times[n])} x {n[:48]} {_quarters(times[n])}" for n in top]
    parts.append(f"gaps {_quarters(gaps)}")
    parts.append("longest " + " ".join(f"{g:.0f}" for g in max(longest)))
    return ";  ".join(parts) + f";  {max(spans):.1f} us for each"

# SPDX-License-Identifier: Apache-2.0
"""What the GPUs did during a few calls, from JAX's profiler: kernels, their times, and the gaps.

A kernel of an all-reduce waits for the slowest rank, so its shortest times are its own and the rest
is waiting. Profiling itself costs time between kernels.
"""

from __future__ import annotations

import collections
import glob
import tempfile


def _quarters(values):
    v = sorted(values)
    return "/".join(f"{v[int((len(v) - 1) * q)]:.1f}" for q in (0, 0.25, 0.5, 0.75))


def _events(folder):
    """GPU plane -> [(start us, length us, name)] in order."""
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
    """One line: the three kernels with most time (0/25/50/75 % of their times, us), and the gaps."""
    import jax

    for _ in range(5):
        call()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(3):
                call()
        planes = _events(folder)
    times, gaps = collections.defaultdict(list), []
    for events in planes.values():
        for _, length, name in events:
            times[name].append(length)
        gaps += [b[0] - a[0] - a[1] for a, b in zip(events, events[1:])]
    if not gaps:
        return "the profiler saw no kernel"
    top = sorted(times, key=lambda name: -sum(times[name]))[:3]
    parts = [f"{len(times[n])} x {n[:48]} {_quarters(times[n])}" for n in top]
    return ";  ".join(parts) + f";  gaps {_quarters(gaps)}"

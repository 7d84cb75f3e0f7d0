#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the random programs of programs.py on the GPUs of this box, first without install() and then
with it, and compares the values. install() replaces the collectives that SYMTUNER_ONLY names;
without SYMTUNER_ONLY this script asks for all collectives.

usage: on_gpus.py [PROGRAMS]        (200; in parts: FIRST-LAST)

Runs in one process, or in several (test/jax/processes/together.py). In several processes each
compares the parts of the results on its own GPUs. Programs with jax.pmap are then left out, because
pmap takes other arguments there.
"""

import os
import sys

os.environ.setdefault("SYMTUNER_ONLY", "allreduce,reducescatter,allgather")
import jax  # noqa: E402
import numpy as np  # noqa: E402
from programs import Program, same  # noqa: E402

import symtuner  # noqa: E402

jax.config.update("jax_enable_x64", True)


def values(numbers):
    out = {}
    for n in numbers:
        f, args = Program(n).function()
        out[n] = np.stack([np.asarray(s.data) for s in f(*args).addressable_shards])
    return out


def main(which="200"):
    first, _, last = which.rpartition("-")
    numbers = range(int(first or 0), int(last) + bool(first))
    if len(jax.devices()) < 2:
        print("on_gpus.py: not run: one device")
        return 77
    if jax.process_count() > 1:
        numbers = [n for n in numbers if not Program(n).pmap]
    want = values(numbers)
    symtuner.install()
    got = values(numbers)
    wrong = []
    for n in numbers:
        program = Program(n)
        # numbers of both signs may cancel, so allow at least the rounding error of numbers of about
        # 1
        least = program.tolerance()
        if not same(got[n], want[n], program.tolerance(), least):
            wrong.append(n)
            print(f"FAILED: program {n}: {vars(program)}\n{got[n]}\n{want[n]}")
    replaced = sum(call.replaced for call in symtuner.report())
    print(f"random programs: {len(numbers)} run, {len(wrong)} differ, {replaced} kinds replaced")
    none = replaced == 0 and jax.default_backend() == "gpu"
    if none:
        print(symtuner.report())
    return bool(wrong) or none


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

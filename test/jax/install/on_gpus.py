#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The random programs of programs.py on the GPUs of this box, in one process: do they give the same
values installed as not installed? SYMTUNER_ONLY says which collectives are replaced; here all.

usage: on_gpus.py [PROGRAMS]        (200; in parts: FIRST-LAST)
"""

import os
import sys

os.environ.setdefault("SYMTUNER_ONLY", "allreduce,reducescatter,allgather")
import jax  # noqa: E402
from programs import Program, same  # noqa: E402

import symtuner  # noqa: E402

jax.config.update("jax_enable_x64", True)


def values(numbers):
    out = {}
    for n in numbers:
        f, args = Program(n).function()
        out[n] = jax.device_get(f(*args))
    return out


def main(which="200"):
    first, _, last = which.rpartition("-")
    numbers = range(int(first or 0), int(last) + bool(first))
    if len(jax.devices()) < 2:
        print("on_gpus.py: not run: one device")
        return 77
    want = values(numbers)
    symtuner.install()
    got = values(numbers)
    wrong = []
    for n in numbers:
        program = Program(n)
        # in sums of numbers of both signs, which are about 1, rounding may exceed the result
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

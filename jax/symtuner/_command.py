# SPDX-License-Identifier: Apache-2.0
"""Run the command symtuner, a program in C. A wheel has it in bin/ of this package."""

from __future__ import annotations

import os
import pathlib
import sys


def folders(kind: str) -> list[pathlib.Path]:
    """Return the folders that may have files of a ``kind``, "bin" or "lib": one in the installed
    package, and build/ of the source tree that this package is part of."""
    here = pathlib.Path(__file__).resolve().parent
    return [here / kind, here.parent.parent / "build"]


def run(*words: str) -> None:
    """Replace this process by the command symtuner. Does not return."""
    for folder in folders("bin"):
        if os.access(folder / "symtuner", os.X_OK):
            os.execv(folder / "symtuner", ["symtuner", *words])
    where = ", ".join(map(str, folders("bin")))
    sys.exit(f"symtuner: the command is not in {where}; build it (make)")


def main() -> None:
    run(*sys.argv[1:])

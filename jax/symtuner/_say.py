# SPDX-License-Identifier: Apache-2.0
"""Warnings about a call, shown at the line of the call, once for each reason and line."""

from __future__ import annotations

import os
import re
import sys
import warnings
from typing import Any

from jax.extend import source_info_util

from ._library import STRICT, SymtunerError, idle, is_off, word

Line = tuple[str, int]
_UNKNOWN = ("<unknown>", 0)
_LINE = re.compile(r"(.+?):(\d+)(?::(\d+))? \(")  # file:line:column (function)
_said: set[tuple[str, Line]] = set()

# Let JAX skip the files of this package when it looks for the line of a call. So our messages and
# JAX's own name the line that calls this package.
source_info_util.register_exclusion(os.path.dirname(os.path.abspath(__file__)) + os.sep)


def place_of(ctx: Any = None) -> tuple[Line, int]:
    """Return the line of the call that is being lowered, and its column in that line (0: not
    known). Without ``ctx``, return those of the call that is being traced."""
    source = source_info_util.current()
    if ctx is not None:
        source = source.replace(traceback=getattr(ctx, "traceback", None))
    found = _LINE.match(source_info_util.summarize(source))
    return ((found[1], int(found[2])), int(found[3] or 0)) if found else (_UNKNOWN, 0)


def line_of(ctx: Any = None) -> Line:
    """Return the line of place_of()."""
    return place_of(ctx)[0]


def _warn(text: str, line: Line) -> None:
    if (text, line) not in _said:
        _said.add((text, line))
        warnings.warn_explicit(text, UserWarning, *line)


def once(text: str) -> None:
    """Print a message that belongs to no line of the user's program, but only once."""
    if (text, _UNKNOWN) not in _said:
        _said.add((text, _UNKNOWN))
        print(f"symtuner: {text}", file=sys.stderr)


def falls_back(why: str, line: Line | None = None) -> None:
    """Warn that jax.lax runs instead; with SYMTUNER_JAX_STRICT=1 raise an error. If SYMTUNER_MODE
    is observe, only warn; if it is off, do nothing."""
    if is_off():
        return
    line = line or line_of()
    if not idle() and word(STRICT, ("0", "1"), "0") == "1":
        raise SymtunerError(
            f"{line[0]}:{line[1]}: symtuner.all_reduce cannot run here, and {STRICT}=1 forbids "
            f"jax.lax instead: {why}"
        )
    _warn(f"symtuner.all_reduce uses jax.lax instead: {why}", line)


def exported(target: str, line: Line) -> None:
    """Warn that jax.export will refuse the program, and say what to do: jax.export's error does not
    say it."""
    _warn(
        "symtuner.all_reduce is a custom call, which jax.export refuses unless it is told "
        f"disabled_checks=[jax.export.DisabledSafetyCheck.custom_call({target!r})]; a process "
        "that runs the exported program calls symtuner.open_group(devices) before",
        line,
    )

# SPDX-License-Identifier: Apache-2.0
"""What the user is told about a call: once for each reason and line, at the line of the call."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

from jax.extend import source_info_util

from ._library import STRICT, SymtunerError, word

Line = tuple[str, int]
_UNKNOWN = ("<unknown>", 0)
_LINE = re.compile(r"(.+?):(\d+)(:\d+)? \(")  # file:line:column (function)
_said: set[tuple[str, Line]] = set()

# JAX then takes the line that calls us for the line of the call, here and in its own messages
source_info_util.register_exclusion(os.path.dirname(os.path.abspath(__file__)) + os.sep)


def line_of(ctx: Any = None) -> Line:
    """The line of the call that is being lowered; without ``ctx``, traced."""
    source = source_info_util.current()
    if ctx is not None:
        source = source.replace(traceback=getattr(ctx, "traceback", None))
    found = _LINE.match(source_info_util.summarize(source))
    return (found[1], int(found[2])) if found else _UNKNOWN


def _warn(text: str, line: Line) -> None:
    if (text, line) not in _said:
        _said.add((text, line))
        warnings.warn_explicit(text, UserWarning, *line)


def falls_back(why: str, line: Line | None = None) -> None:
    """jax.lax runs instead, unless the user would rather have an error."""
    line = line or line_of()
    if word(STRICT, ("0", "1"), "0") == "1":
        raise SymtunerError(
            f"{line[0]}:{line[1]}: symtuner.all_reduce cannot run here, and {STRICT}=1 forbids "
            f"jax.lax instead: {why}"
        )
    _warn(f"symtuner.all_reduce uses jax.lax instead: {why}", line)


def exported(target: str, line: Line) -> None:
    """jax.export refuses the program when it has been lowered, and does not say what to do."""
    _warn(
        "symtuner.all_reduce is a custom call, which jax.export refuses unless it is told "
        f"disabled_checks=[jax.export.DisabledSafetyCheck.custom_call({target!r})]; a process "
        "that runs the exported program calls symtuner.open_group(devices) before",
        line,
    )

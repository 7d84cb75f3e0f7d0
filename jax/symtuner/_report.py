# SPDX-License-Identifier: Apache-2.0
"""The report: what install() replaced, in which program and at which line of the user's source, and
what it left to XLA and why."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable

from ._say import Line


@dataclasses.dataclass(frozen=True)
class Call:
    """One kind of reduction in one program. JAX lowers equal reductions of a program once, so
    ``where`` is the line of the first one."""

    program: str
    what: str  # such as "psum float32[8,4096] over i"
    replaced: bool
    why: str  # why it was not replaced; "" if it was
    where: Line | None

    def __str__(self) -> str:
        place = f"{self.where[0]}:{self.where[1]}" if self.where else ""
        fate = "replaced" if self.replaced else f"left to XLA: {self.why}"
        return ": ".join(word for word in (self.program, place, self.what, fate) if word)


class Replaced(list[Call]):
    """A list of calls, in the order in which JAX lowered them. print() shows each call as one line.
    ``shared`` has a line for each program in which small all-reduces share calls. ``why_empty``
    is printed if the list is empty."""

    def __init__(
        self, calls: Iterable[Call] = (), shared: Iterable[str] = (), why_empty: str = ""
    ) -> None:
        super().__init__(calls)
        self.shared, self.why_empty = list(shared), why_empty

    def __str__(self) -> str:
        done = sum(call.replaced for call in self)
        head = (
            f"symtuner: {done} kinds of reduction replaced, {len(self) - done} left to XLA; "
            "equal ones of a program are one line"
        )
        why = [self.why_empty] if self.why_empty and not self else []
        return "\n".join([head, *why, *map(str, self), *self.shared])


_lock = threading.Lock()
_calls: dict[Call, None] = {}  # an ordered set, because JAX may lower a program several times
_shared: dict[str, None] = {}  # another ordered set: a line of the report for each program
_why_empty = ""  # why the report may be empty although programs have collectives


def say(
    program: str, instruction: str, replaced: bool, why: str = "", where: Line | None = None
) -> None:
    """Record what became of one reduction. ``instruction`` describes it in one line."""
    with _lock:
        _calls[Call(program, instruction, replaced, why, where)] = None


def shared(program: str, members: int, calls: int) -> None:
    """Record that some small all-reduces of a program share a few calls."""
    into = "one call" if calls == 1 else f"{calls} calls"
    with _lock:
        _shared[f"{program}: {members} small all-reduces share {into}"] = None


def empty_because(why: str) -> None:
    """Record why the report may be empty although programs have collectives."""
    global _why_empty
    _why_empty = why


def report() -> Replaced:
    """Return what became of the reductions in the programs that were lowered or compiled since
    install(): one Call for each kind of reduction in a program. ``print(symtuner.report())`` shows
    each Call as one line."""
    with _lock:
        return Replaced(_calls, _shared, _why_empty)


def forget() -> None:
    empty_because("")
    with _lock:
        _calls.clear()
        _shared.clear()

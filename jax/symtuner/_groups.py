# SPDX-License-Identifier: Apache-2.0
"""Groups of devices: opened once per set of devices, kept until the process ends."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from . import _processes
from ._library import SymtunerError, load

MAX_RANKS = 16
CLOSE_S = 20  # a process that ends waits no longer than this for the others
# A kernel gives up on a silent peer after this. One process launches all of its devices together,
# so only a dead one is silent for long; processes may be apart by a compilation.
_TIMEOUT_MS = {"local": 20_000, "processes": 600_000}
# Memory may be freed by others soon, so all processes of a group try again after so many seconds;
# the groups of one process once more with a program that is lowered later.
PAUSES_S = (1, 4)
LATER_S = 30
_FULL = re.compile("out of memory", re.IGNORECASE)

_Ids = tuple[int, ...]
_lock = threading.RLock()
_open: set[tuple[_Ids, bool]] = set()
# of the groups of a call: what is wrong, or nothing, and since when
_settled: dict[tuple[_Ids, ...], tuple[str, float]] = {}
_closer: _processes.Standby | None = None
_late: _processes.Standby


def timeout_ms(kind: str) -> int:
    return 0 if os.environ.get("SYMTUNER_AR_TIMEOUT_MS") else _TIMEOUT_MS[kind]


def _open_local(devices: Sequence[Any]) -> None:
    ids = (ctypes.c_int64 * len(devices))(*[d.id for d in devices])
    ordinals = (ctypes.c_int * len(devices))(*[d.local_hardware_id for d in devices])
    load().call(
        "open_local",
        ids,
        ordinals,
        ctypes.c_int(len(devices)),
        ctypes.c_uint32(timeout_ms("local")),
    )


def spans_processes(devices: Sequence[Any]) -> bool:
    return len({d.process_index for d in devices}) > 1


def _open_one(devices: Sequence[Any], xla: bool) -> None:
    if len(devices) == 0:
        raise SymtunerError("the list of devices is empty")
    if len(devices) < 2:
        raise SymtunerError("there is one GPU in the group")
    if len(devices) > MAX_RANKS:
        raise SymtunerError(f"{len(devices)} GPUs in the group; {MAX_RANKS} at most")
    if spans_processes(devices):
        _processes.open_across(devices, timeout_ms("processes"), xla)
    else:
        _open_local(devices)


def open_group(devices: Sequence[Any]) -> None:
    """Make a group of these JAX devices ready; the order of ranks is that of their ids.

    all_reduce does this by itself while a program is lowered. Only a program that was lowered in
    another process (jax.export) needs the call. Every process with a device of the group must make
    it.
    """
    open_for(devices, xla=False)


def open_for(devices: Sequence[Any], xla: bool) -> None:
    """open_group; with ``xla`` the group uses XLA's communicator, as its programs must."""
    global _closer, _late
    devices = sorted(devices, key=lambda d: d.id)
    key = tuple(d.id for d in devices), xla
    with _lock:
        if key in _open:
            return
        if _closer is None:
            _closer, _late = _processes.Standby(), _processes.Standby()
            atexit.register(_at_exit)
        _open_one(devices, xla)
        _open.add(key)


def _try_rows(rows: list[list[Any]], xla: bool) -> str:
    """Open all groups of this process; what is wrong with one of them in any process, or nothing.

    One that fails does not end this: other processes wait in the others.
    """
    problem, settings = "", ""
    for row in rows:
        try:
            open_for(row, xla)
        except Exception as e:  # whatever it is, the others must hear of it
            problem = problem or str(e) or repr(e)
    try:
        settings = f"{load().settings()}, communicator: {'xla' if xla else 'own'}"
    except SymtunerError as e:
        problem = problem or str(e)
    processes = sorted({d.process_index for row in rows for d in row})
    if len(processes) == 1:
        return problem
    return _processes.agree([d.id for row in rows for d in row], processes, problem, settings)


def open_rows(rows: list[list[Any]], xla: bool) -> None:
    """Open the groups that one call of a program needs, all or none: when one cannot be had in one
    process, all processes lower jax.lax, for two of them must not run different programs.

    The verdict stays, as no process knows what the others lower next. It is tried again where all
    hear the same: at once, when memory was short; after retry() or close().
    """
    key = tuple(tuple(d.id for d in row) for row in rows)
    alone = len({d.process_index for row in rows for d in row}) == 1
    with _lock:
        problem, since = _settled.get(key, ("", 0.0))
        known = key in _settled
        later = alone and time.monotonic() - since >= LATER_S and bool(_FULL.search(problem))
        if not known or later:
            problem = _try_rows(rows, xla)
            for pause in () if later else PAUSES_S:
                if not _FULL.search(problem):
                    break
                gc.collect()  # arrays in cycles, too, are memory
                time.sleep(pause)
                problem = _try_rows(rows, xla)
            _settled[key] = problem, time.monotonic()
    if problem:
        raise SymtunerError(problem)


def retry() -> None:
    """Let programs that are lowered from now on try again to open what could not be opened. Every
    process must call it at the same place of its program; one that does not makes jax.lax run on
    all. jax.clear_caches() lets programs be lowered again."""
    with _lock:
        for key in [key for key, (problem, _) in _settled.items() if problem]:
            del _settled[key]


def groups() -> list[str]:
    """One line for each rank of each group that this process has open."""
    library, lines = load(), list[str]()
    while (line := library.text("seat", ctypes.c_int(len(lines)))) is not None:
        lines.append(line)
    return lines


def describe(seat: int = 0) -> str | None:
    """What the kernels' library has found out about the group of line ``seat`` of groups():
    transport, limits, selection table. None when there is no such line."""
    return load().text("describe", ctypes.c_int(seat), size=1 << 16)


def plan(count: int, nccl_dtype: int, nccl_op: int, seat: int = 0) -> str | None:
    """Which kernel runs a call of ${count} elements; None when no group is open."""
    return load().text(
        "plan",
        ctypes.c_int(seat),
        ctypes.c_size_t(count),
        ctypes.c_int(nccl_dtype),
        ctypes.c_int(nccl_op),
    )


def _at_exit() -> None:
    try:
        load().ending()
    except SymtunerError:  # then no group was opened
        return
    _late.begin(_processes.watch_end)
    close()


def close() -> None:
    """Close all groups. Collective across processes; runs by itself at exit. Bounded by CLOSE_S."""
    locked = _lock.acquire(timeout=CLOSE_S)
    try:
        if not locked:  # in another thread, which may wait minutes for another process
            print(
                "symtuner: a group is still being opened; it is not closed with the others",
                file=sys.stderr,
            )
        _close_open()
    finally:
        if locked:
            _lock.release()


def _close_open() -> None:
    known, settled = set(_open), list(_settled)
    closer = _closer if known else None
    if closer is not None:
        load().settle(CLOSE_S)  # a goodbye means: all my calls are done
        _processes.say_goodbye()
    try:  # Ctrl-C up to here leaves the groups to another close
        if closer is not None:
            closer.bounded(CLOSE_S, lambda: load().call("close"), "closing the groups")
    except SymtunerError as e:
        print(f"symtuner: {e}", file=sys.stderr)
    finally:
        _open.difference_update(known)
        for rows in settled:
            _settled.pop(rows, None)

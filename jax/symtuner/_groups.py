# SPDX-License-Identifier: Apache-2.0
"""Groups of devices. A group is opened once and stays open until close() or the end of the
process."""

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

import jax
import jax._src.distributed

from . import _presence, _processes, _say, _xla
from ._library import SymtunerError, idle, load

MAX_RANKS = 16
CLOSE_S = 20  # seconds; longest time that each step of close() waits
# Our kernels give up if a peer does not answer for this long (ms). NCCL's kernels, which would run
# the calls without symtuner, never give up. With several processes, one may compile, read data or
# write a checkpoint while the kernels of the others already wait for it; a day is the longest limit
# that the library accepts. Within one process a host callback can delay a device for some minutes.
# If launches deadlock in one process, the limit ends the deadlock.
_TIMEOUT_MS = {"local": 600_000, "processes": 86_400_000}
# If there is too little memory to open a group, all its processes try again after these pauses
# (seconds), since other programs may free memory. A process that has all ranks of the group also
# tries when it lowers a program, if its last attempt is at least LATER_S seconds ago.
PAUSES_S = (1, 4)
LATER_S = 30
_FULL = re.compile("out of memory", re.IGNORECASE)

_Ids = tuple[int, ...]
_lock = threading.RLock()
_open: set[tuple[_Ids, bool]] = set()
# the groups of a call -> (what is wrong with them or "", time of the last attempt to open them)
_settled: dict[tuple[_Ids, ...], tuple[str, float]] = {}
_closer: _processes.Standby | None = None
_late: _processes.Standby


def timeout_ms(kind: str) -> int:
    return 0 if os.environ.get("SYMTUNER_AR_TIMEOUT_MS") else _TIMEOUT_MS[kind]


def _open_local(devices: Sequence[Any]) -> None:
    _xla.show_memory()
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


def _box(device: Any) -> int | None:
    """Return the number that XLA gives the device's box; boxes that NVLink joins have the same
    number. Return None if this release of JAX has no such number, or if the user has set the
    numbers."""
    given = jax._src.distributed.global_state
    names = ("partition_index", "slice_index")
    if any(getattr(given, name, None) is not None for name in names):
        return None
    return next((n for n in (getattr(device, name, None) for name in names) if n is not None), None)


def _over_boxes(devices: Sequence[Any]) -> bool:
    """Would NCCL run every call of this group? It would if the group spans boxes, and the user has
    not switched on adding up box by box (SYMTUNER_AR_NODES=1, docs/nodes.md). The switch must be
    the same on all processes. With NCCL_HOSTID set we cannot tell, because NCCL may then count
    several boxes as one; then return False."""
    if len({_box(d) for d in devices}) < 2 or os.environ.get("NCCL_HOSTID"):
        return False
    try:
        return not load().boxes_asked()
    except SymtunerError:  # no library: _try_rows() tells the other processes
        return False


def _why_never(devices: Sequence[Any]) -> str:
    """Return why a group of these devices can never be opened, or "". All processes get the same
    answer."""
    if len(devices) < 2:
        return "there is one GPU in the group" if devices else "the list of devices is empty"
    if len(devices) > MAX_RANKS:
        return f"{len(devices)} GPUs in the group; {MAX_RANKS} at most"
    if spans_processes(devices) and len({d.process_index for d in devices}) < len(devices):
        return (
            "a group across processes needs one GPU in each process; start one process for each "
            "GPU, or one for all of them"
        )
    return ""


def _open_one(devices: Sequence[Any], xla: bool) -> None:
    if never := _why_never(devices):
        raise SymtunerError(never)
    if all(d.process_index != jax.process_index() for d in devices):
        return  # this process has no device of the group
    if spans_processes(devices):
        _processes.open_across(devices, timeout_ms("processes"), xla)
    else:
        _open_local(devices)


def open_group(devices: Sequence[Any]) -> None:
    """Open the group of these JAX devices. Its ranks are in the order of the devices' ids.

    all_reduce does this by itself while a program is lowered. If a program was lowered in another
    process (jax.export), every process with a device of the group must call open_group().

    This also opens the group if SYMTUNER_MODE is observe or off, because an exported program that
    calls symtuner cannot run without it: XLA knows no other way to run these calls. A line on
    stderr says so. In these modes an error raises no exception, since the program may have no such
    calls.
    """
    why = idle()
    if why:
        _say.once(
            f"{why}, but symtuner.open_group() opens a group, because XLA cannot run the calls of "
            "symtuner that a program from jax.export may have"
        )
    try:
        open_for(devices, xla=False)
    except SymtunerError as e:
        if not why:
            raise
        _say.once(f"symtuner.open_group(): {e}")


def open_for(devices: Sequence[Any], xla: bool) -> None:
    """Open a group as open_group() does. With ``xla`` the group uses XLA's communicator; then
    each program that uses the group must request that communicator."""
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


def _missing(rows: list[list[Any]], question: str) -> str:
    """Return which other process with a device of these groups does not run symtuner, and why. If
    all run it, return "" (_presence.missing())."""
    processes = sorted({d.process_index for row in rows for d in row})
    among = len(processes) > 1 and jax.process_index() in processes
    return _presence.missing(processes, question) if among else ""


def _try_rows(rows: list[list[Any]], xla: bool) -> str:
    """Open the groups of ``rows`` that have a device of this process. Returns what is wrong with
    one of the groups, in this process or in another one, or "".

    If one group fails, we still open the others, because other processes wait for this process to
    open them.
    """
    processes = sorted({d.process_index for row in rows for d in row})
    if problem := _missing(rows, _presence.RUNS):
        return problem
    problem, settings = "", ""
    for row in rows:
        try:
            open_for(row, xla)
        except Exception as e:  # the other processes must learn of any error
            problem = problem or str(e) or repr(e)
    try:
        settings = f"{load().settings()}, communicator: {'xla' if xla else 'own'}"
    except SymtunerError as e:
        problem = problem or str(e)
    if len(processes) == 1:
        return problem
    return _processes.agree([d.id for row in rows for d in row], processes, problem, settings)


def _passing(problem: str) -> SymtunerError:
    """Return an error whose ``may_pass`` says that a later start of the program may succeed."""
    error = SymtunerError(problem)
    error.may_pass = True
    return error


def open_rows(rows: list[list[Any]], xla: bool, by_name: bool = False) -> None:
    """Open the groups that one call of a program needs. If one group cannot be opened in one
    process, all processes lower the call to jax.lax, since all must run the same program.
    ``by_name``: the program calls symtuner.all_reduce(), so no process needs install().

    The result is kept, because processes can only try again together, and no process knows which
    program the others lower next. So groups that failed are tried again only at times that are the
    same for all processes: after PAUSES_S if there was too little memory, and after retry() or
    close(). A process that has all ranks and had too little memory also tries again after LATER_S.
    """
    # If these groups can never be opened, raise the error without asking the other processes. They
    # may have read the program from the compile cache. There it has no calls with such groups, so
    # those processes would not answer.
    if never := next(filter(None, map(_why_never, rows)), ""):
        raise SymtunerError(never)
    # NCCL would run these calls, with us or without us. Leave them to XLA, which calls NCCL, too,
    # but joins small calls and runs calls beside other work
    if any(map(_over_boxes, rows)):
        raise SymtunerError(
            "the group spans several boxes, where NCCL runs every call (docs/nodes.md)"
        )
    if not by_name and (problem := _missing(rows, _presence.INSTALLED)):
        raise _passing(problem)
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
                gc.collect()  # frees arrays in reference cycles, too
                time.sleep(pause)
                problem = _try_rows(rows, xla)
            _settled[key] = problem, time.monotonic()
    if problem:
        raise SymtunerError(problem) if alone and not _FULL.search(problem) else _passing(problem)


def retry() -> None:
    """Let programs that are lowered from now on try again to open groups that could not be opened.
    Every process must call this at the same point of its program. If one process does not call it,
    jax.lax runs on all. jax.clear_caches() makes JAX lower programs again."""
    from . import _cache  # not imported at the top, because _cache imports this module

    _cache.let_in()
    with _lock:
        _presence.again()
        for key in [key for key, (problem, _) in _settled.items() if problem]:
            del _settled[key]


def groups() -> list[str]:
    """Return one line for each rank that this process has in an open group."""
    library, lines = load(), list[str]()
    while (line := library.text("member", ctypes.c_int(len(lines)))) is not None:
        lines.append(line)
    return lines


def describe(seat: int = 0) -> str | None:
    """Return what libsymtuner_ar.so knows about a group: transport, limits, selection table.
    ``seat`` is the number of a line of groups(), from 0 on. Return None if groups() has no such
    line, or if the group uses XLA's communicator and has not run yet."""
    return load().text("describe", ctypes.c_int(seat), size=1 << 16)


def plan(count: int, nccl_dtype: int, nccl_op: int, seat: int = 0) -> str | None:
    """Return the line of symtuner_ffi_plan(), which says which kernel runs an all-reduce of
    ``count`` elements in a group. ``seat`` is the number of a line of groups(), from 0 on. Return
    None if symtuner_ffi_plan() fails."""
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
    except SymtunerError:  # no library, so no group was opened
        return
    _late.begin(_processes.watch_end)
    _close(at_exit=True)


def close() -> None:
    """Close all groups. All processes that have a group together must call close(). It also runs by
    itself when the process ends. Each step takes at most CLOSE_S seconds."""
    _close(at_exit=False)


def _close(at_exit: bool) -> None:
    locked = _lock.acquire(timeout=CLOSE_S)
    try:
        if not locked:  # another thread is opening a group, which may take minutes
            print(
                "symtuner: a group is still being opened; it is not closed with the others",
                file=sys.stderr,
            )
        _close_open()
        _presence.again(speak=not at_exit)
    finally:
        if locked:
            _lock.release()


def _close_open() -> None:
    known, settled = set(_open), list(_settled)
    closer = _closer if known else None
    if closer is not None:
        load().settle(CLOSE_S)  # a goodbye means that all our calls are done, so wait for them
        _processes.say_goodbye()
    try:  # if a Ctrl-C comes before this, the groups stay open, and close() can be called again
        if closer is not None:
            closer.bounded(CLOSE_S, lambda: load().call("close"), "closing the groups")
    except SymtunerError as e:
        print(f"symtuner: {e}", file=sys.stderr)
    finally:
        _open.difference_update(known)
        for rows in settled:
            _settled.pop(rows, None)

# SPDX-License-Identifier: Apache-2.0
"""Replace the collectives of compiled programs, also those that XLA's partitioner inserted. Also
let our calls put their results into their operands' buffers where nothing else needs the operands,
and let several small all-reduces share one call.

jax.extend.xla.register_hlo_module_transformation lets us see each program after partitioning, in
the middle of XLA's compilation, as a serialized HloModuleProto. jax/hlo/ edits it. A collective
that we do not understand, or whose groups cannot be opened, stays as it is, and report() says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax

from . import _cache, _report, _xla
from ._groups import open_rows, spans_processes
from ._library import COLLS, TARGET, SymtunerError, idle, load
from ._say import Line

# the function that is told about each collective. Arguments: program, instruction, was it replaced,
# if not the reason, line of the user's program, column of the call in that line (0: not known)
Say = Callable[[str, str, bool, str, Line | None, int], None]
_Row = tuple[str, str, bool, str, Line | None, int]

_say: Say | None = None
_platforms: set[str] = set()
_lock = threading.Lock()
_WORDS = b"all-", b"reduce-scatter", TARGET.encode()  # a program with none of them is not edited
# the bytes that symtuner.disabled() leaves in a serialized program: one map entry, key and value
_OFF = b"".join(
    b"\n%c%s\x12%c%s" % (len(k), k.encode(), len(v), v.encode()) for k, v in _cache.MARK.items()
)


class _Call(ctypes.Structure):  # struct symtuner_hlo_call of jax/hlo/hlo.h
    _fields_ = (
        ("name", ctypes.c_char * 128),
        ("where", ctypes.c_char * 512),
        ("why", ctypes.c_char * 128),
        ("bytes", ctypes.c_int64),
        ("coll", ctypes.c_int32),
        ("op", ctypes.c_int32),
        ("rows", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("column", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("groups", ctypes.POINTER(ctypes.c_int64)),
        ("places", ctypes.POINTER(ctypes.c_int64)),
    )


class _Joined(ctypes.Structure):  # struct symtuner_hlo_joined of jax/hlo/hlo.h
    _fields_ = (
        ("count", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("attributes", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    )


class _Module:
    """A module that is open in jax/hlo/hlo.c."""

    def __init__(self, c: Any, handle: ctypes.c_void_p) -> None:
        self._c, self._handle = c, handle
        name = ctypes.create_string_buffer(256)
        c.symtuner_ffi_hlo_name(handle, name, ctypes.c_size_t(len(name)))
        self.name = name.value.decode(errors="replace")

    def calls(self) -> Iterator[tuple[int, _Call]]:
        number, call = 0, _Call()
        while self._c.symtuner_ffi_hlo_call(self._handle, number, ctypes.byref(call)) == 0:
            yield number, call
            number, call = number + 1, _Call()

    def replace(self, number: int, target: str, flat: bool) -> bool:
        """Mark a call to be replaced. Returns whether it can be."""
        arguments = self._handle, ctypes.c_int(number), target.encode(), ctypes.c_int(flat)
        return self._c.symtuner_ffi_hlo_replace(*arguments) == 0

    def in_place(self) -> bool:
        """Did the module have some of our calls when it was opened, and can these put their results
        into their operands' buffers?"""
        return self._c.symtuner_ffi_hlo_in_place(self._handle) > 0

    def join(self) -> Iterator[tuple[int, int, str]]:
        """Let small all-reduces share calls. Yield for each shared call its number, how many
        all-reduces share it, and its attributes, as XLA prints them."""
        load().call("hlo_join", self._handle)
        number, joined = 0, _Joined()
        while self._c.symtuner_ffi_hlo_joined(self._handle, number, ctypes.byref(joined)) == 0:
            text = ctypes.string_at(joined.attributes, joined.size)
            if joined.count > 0:
                yield number, joined.count, text.decode(errors="replace")
            number += 1

    def part(self, number: int) -> None:
        """Undo a shared call, so that each of its all-reduces has a call of its own."""
        self._c.symtuner_ffi_hlo_part(self._handle, number)

    def write(self) -> bytes:
        at, size = ctypes.c_void_p(), ctypes.c_size_t()
        load().call("hlo_write", self._handle, ctypes.byref(at), ctypes.byref(size))
        return ctypes.string_at(at, size.value)


@contextlib.contextmanager
def _open(module: bytes) -> Iterator[_Module]:
    handle, library = ctypes.c_void_p(), load()
    library.call("hlo_open", module, ctypes.c_size_t(len(module)), ctypes.byref(handle))
    try:
        yield _Module(library._c, handle)
    finally:
        library._c.symtuner_ffi_hlo_close(handle)


# ---- groups --------------------------------------------------------------------------------------
def _open_groups(platform: str, ids: list[int], ranks: int) -> tuple[bool, bool]:
    """Open the groups of a call. Returns whether any group spans processes, and whether all groups
    use XLA's communicator."""
    devices = {d.id: d for d in jax.devices(platform)}
    missing = [i for i in ids if i not in devices]
    if missing:
        raise SymtunerError(f"device {missing[0]} of the program is not one of jax.devices()")
    rows = [[devices[i] for i in ids[at : at + ranks]] for at in range(0, len(ids), ranks)]
    if _cache.is_shared() and spans_processes(sum(rows, [])):
        raise SymtunerError("jax_share_binary_between_hosts makes one process compile for all")
    across = [spans_processes(row) for row in rows]
    xla = all(across) and _xla.use()
    open_rows(rows, xla)
    return any(across), xla


def _compiler_options() -> dict[str, Any]:
    """Return the compiler options of all threads that compile a program now. XLA may call us in a
    thread of its own, so we do not know which of those threads compiles this program."""
    found: dict[str, Any] = {}
    for thread, top in sys._current_frames().items():
        frame = top
        while frame is not None:
            if "compiler_options_kvs" in frame.f_code.co_varnames:
                options = dict(frame.f_locals.get("compiler_options_kvs") or ())
                found.update({f"{thread}_{name}": value for name, value in options.items()})
                found[f"{thread}_"] = ""
            frame = frame.f_back
    # if we find no thread that compiles, we do not know the options. Then return an option that
    # makes Library.target() assume that two calls of the program may run at the same time
    return found or {"unknown_command_buffer_scheduling_mode": "unknown"}


# ---- a program -----------------------------------------------------------------------------------
def _line(where: str) -> Line | None:
    name, _, number = where.rpartition(":")
    return (name, int(number)) if name else None


def _ids(call: _Call) -> list[int]:
    return call.groups[: call.rows * call.ranks]


def _unasked(call: _Call) -> str:
    coll = list(COLLS)[call.coll]
    return "" if coll in load().only else f"SYMTUNER_ONLY does not name {COLLS[coll]}"


def _open_all(platform: str, module: _Module) -> None:
    """Open the groups of all calls that can be replaced, in the order of their sizes and ids.
    Another process may have the program in its compile cache, where the calls have a different
    order. In that process _cache.py opens the groups in the order of sizes and ids, too."""
    able = [c for _, c in module.calls() if not (c.why or _unasked(c))]
    for ranks, ids in sorted({(c.ranks, tuple(_ids(c))) for c in able}):
        with contextlib.suppress(SymtunerError):  # _replace() meets the same error and reports it
            _open_groups(platform, list(ids), ranks)


def _replace(platform: str, module: _Module, number: int, call: _Call) -> str:
    """Replace a call if possible. Returns "", or why the call is left to XLA."""
    coll = list(COLLS)[call.coll]
    try:
        if why := idle():
            return why
        across, xla = _open_groups(platform, _ids(call), call.ranks)
        target = load().target(call.bytes, across, xla, _compiler_options(), coll)
    except SymtunerError as e:
        if e.may_pass:
            _cache.keep_out(module.name)
        return str(e)
    return "" if module.replace(number, target, xla) else "the editor refuses to replace it"


def _may_share(platform: str, program: str, attributes: str) -> bool:
    """May calls of ``program`` with these attributes share one? They may if all processes with a
    device of the groups edit the program as this one does. A process in which install() is not in
    force does not edit the program, although it runs the calls of symtuner.all_reduce() in it."""
    try:
        rows = _cache.rows_in(attributes)
        _open_groups(platform, sum(rows, []), len(rows[0]))
        return True
    except SymtunerError as e:
        # let JAX write no cache entry. At a later start these calls may share one call, but a
        # process that read the entry would make each call separately
        if e.may_pass:
            _cache.keep_out(program)
        return False


def _join(platform: str, module: _Module) -> bool:
    """Let small all-reduces share calls. Returns whether any do."""
    members = calls = 0
    for number, count, attributes in module.join():
        if _may_share(platform, module.name, attributes):
            members, calls = members + count, calls + 1
        else:
            module.part(number)
    if calls:
        _report.shared(module.name, members, calls)
    return calls > 0


def _edit(platform: str, proto: bytes) -> tuple[bytes | None, list[_Row]]:
    """Return the edited program (None if it stays as it is), and what became of each collective."""
    rows: list[_Row] = []
    off = "symtuner.disabled() is in force in the program" if _OFF in proto else ""
    with _open(proto) as module:
        if not (off or idle()):
            _open_all(platform, module)
        for number, call in module.calls():
            why = off or _unasked(call) or call.why.decode()
            why = why or _replace(platform, module, number, call)
            name, where = (text.decode(errors="replace") for text in (call.name, call.where))
            rows.append((module.name, name, not why, why, _line(where), call.column))
        changed = any(row[2] for row in rows) or (not off and module.in_place())
        changed = not (off or idle()) and _join(platform, module) or changed
        return module.write() if changed else None, rows


def _transform(platform: str, proto: bytes) -> bytes | None:
    """Edit a program. XLA calls this function. An exception that leaves it ends the compilation.
    Only ``say`` may raise one, which it does in strict mode; we catch all others."""
    say = _say
    if say is None or not any(word in proto for word in _WORDS):
        return None
    try:
        edited, rows = _edit(platform, proto)
    except Exception as e:
        edited, rows = None, [("", "", False, f"a program stays as it is: {e}", None, 0)]
    problems: list[Exception] = []
    for row in rows:
        try:
            say(*row)
        except Exception as e:
            problems.append(e)
    if problems:
        raise problems[0]
    return edited


# ---- registration --------------------------------------------------------------------------------
def _register(platform: str) -> None:
    """Register the transformation with XLA, once per process. It stays registered; after
    uninstall() it does nothing."""
    from jax.extend import xla

    with _lock:
        if platform not in _platforms:
            transform = functools.partial(_transform, platform)
            xla.register_hlo_module_transformation(transform, name="symtuner", platforms=platform)
            _platforms.add(platform)


def install(say: Say, platform: str = "cuda") -> bool:
    """Replace the collectives that SYMTUNER_ONLY names (by default all-reduces) in programs that
    are compiled from now on, and tell ``say`` about each. Returns whether XLA lets us do so. Call
    this only after JAX's backends have started: with jax 0.11.0 to 0.12.0 it would itself start
    them."""
    global _say
    _say = say
    try:
        _register(platform)
        return True
    except ImportError:
        say("", "", False, f"jax {jax.__version__} has no jax.extend.xla; 0.10.2 has", None, 0)
    except Exception as e:  # JAX has no such platform, or jaxlib is older than jax
        say("", "", False, f"XLA takes no transformation: {(str(e) or repr(e))[:200]}", None, 0)
    return False


def uninstall() -> None:
    """Leave programs that are compiled from now on as they are."""
    global _say
    _say = None

# SPDX-License-Identifier: Apache-2.0
"""Find, load and register libsymtuner_ffi.so and libsymtuner_ar.so."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import re
from typing import Any

from . import _command

TARGET = "symtuner_all_reduce"
MEETING = TARGET + "_meeting"
RECORDABLE = TARGET + "_recordable"
XLA = TARGET + "_xla"
# The collectives in the order of enum symtuner_ar_coll, with their words in SYMTUNER_ONLY.
COLLS = {
    "all_reduce": "allreduce",
    "reduce_scatter": "reducescatter",
    "all_gather": "allgather",
}
# Name of a custom call -> (may XLA record it into a CUDA graph, stages in which XLA calls its
# handler). XLA calls the handler in each of these stages for each call of a program, on each device
# and in each run. So we list only the stages that a custom call needs. The names in _STAGES are
# those of an all-reduce. TARGETS also has names for the other collectives, but none for MEETING,
# because only the ranks of an all-reduce exchange addresses (jax/exchange.h).
_STAGES = {
    TARGET: (False, ("execute",)),
    MEETING: (False, ("initialize", "execute")),
    RECORDABLE: (True, ("initialize", "execute")),
    XLA: (False, ("prepare", "initialize", "execute")),
}
TARGETS = {
    name.replace("all_reduce", coll): kind
    for coll in COLLS
    for name, kind in _STAGES.items()
    if name != MEETING or coll == "all_reduce"
}
# For calls of this many bytes or more the ranks exchange addresses before a run (jax/exchange.h).
# With 2 to 4 ranks on NVLink, the kernels that the selection table (kernels/choose/rows.c) names
# for shorter calls do not access the peers' buffers, and so need no addresses.
_ZERO_COPY_FROM = (12 << 20) + 1
# XLA may record all-reduces across processes of up to this many bytes. On any links our kernels run
# calls of this size, unless a rule of the user says otherwise (kernels/choose/rows.c). If a
# replayed kernel of ours waits for a dead rank, symtuner_ar_waits() tells us so. NCCL may run
# longer calls, and nobody can see whether a replayed kernel of NCCL waits for a dead rank.
_RECORD_ACROSS = 1 << 20
_MODE = "command_buffer_scheduling_mode"
_CONCURRENT = re.compile(_MODE + r"=[\"']?CONCURRENT", re.IGNORECASE)
_IN_ORDER = ("LHS", "SERIALIZE")
STRICT = "SYMTUNER_JAX_STRICT"
MODE = "SYMTUNER_MODE"
MODES = ("steer", "observe", "off")
_FFI, _AR = "libsymtuner_ffi.so", "libsymtuner_ar.so"


class SymtunerError(RuntimeError):
    """An error in a library, a group or a setting of symtuner."""

    may_pass = False  # True: a later start of the program may succeed


def _folders() -> list[pathlib.Path]:
    given = os.environ.get("SYMTUNER_LIB_DIR")
    if given:
        return [pathlib.Path(given)]
    return _command.folders("lib")


def _find(name: str) -> pathlib.Path:
    for folder in _folders():
        if (folder / name).is_file():
            return folder / name
    where = ", ".join(map(str, _folders()))
    make = "make kernels" if name == _AR else "make jax"
    raise SymtunerError(f"{name} is not in {where}; build it ({make}) or set SYMTUNER_LIB_DIR")


def word(name: str, allowed: tuple[str, ...], default: str) -> str:
    """Return the value of an environment variable that has a fixed set of values."""
    value = os.environ.get(name, default)
    if value not in allowed:
        raise SymtunerError(f"{name}={value!r} is unknown; write one of {', '.join(allowed)}")
    return value


def idle() -> str:
    """Return why this process leaves every collective to XLA, or "" if SYMTUNER_MODE is steer."""
    try:
        mode = word(MODE, MODES, "steer")
    except SymtunerError as e:
        return str(e)
    return "" if mode == "steer" else f"{MODE} is {mode}"


def is_off() -> bool:
    """Is SYMTUNER_MODE off? Then symtuner also prints no warnings."""
    return os.environ.get(MODE) == "off"


def only() -> frozenset[str]:
    """Return the collectives that install() may replace. Only all-reduces are measured on GPUs, so
    the user must ask for the others with SYMTUNER_ONLY, as for the drop-in."""
    asked = os.environ.get("SYMTUNER_ONLY") or "allreduce"
    names = {word: coll for coll, word in COLLS.items()}
    wrong = [word for word in asked.split(",") if word not in names]
    if wrong:
        raise SymtunerError(
            f"SYMTUNER_ONLY={asked!r}: {wrong[0]!r} is unknown; write some of {','.join(names)}"
        )
    return frozenset(names[word] for word in asked.split(","))


def _record() -> str:
    """Which calls may XLA record into CUDA graphs? "0": none. "auto": small calls. "1": all calls
    whose ranks exchange no addresses."""
    record = word("SYMTUNER_JAX_COMMAND_BUFFERS", ("auto", "0", "1"), "auto")
    # two calls of one group must not run at the same time, but in XLA's CONCURRENT modes they may
    if record == "auto" and _CONCURRENT.search(os.environ.get("XLA_FLAGS", "")):
        return "0"
    return record


def _concurrent(options: dict[str, Any]) -> bool:
    """Do these options tell the compiler that recorded calls may run at the same time?"""
    modes = [str(v).upper() for name, v in options.items() if name.endswith(_MODE)]
    return any(mode not in _IN_ORDER for mode in modes)


class Library:
    """The functions of jax/symtuner_ffi.h. If one of them fails, a SymtunerError is raised."""

    def __init__(self) -> None:
        self.path = _find(_FFI)
        self.ar_path = _find(_AR)
        try:
            self._c = ctypes.CDLL(str(self.path))
        except OSError as e:
            raise SymtunerError(f"{self.path}: {e}") from None
        # raises AttributeError if the library is too old
        self._c.symtuner_ffi_hlo_long.restype = ctypes.c_int64
        self.long = self._c.symtuner_ffi_hlo_long()
        self.call("load", str(self.ar_path).encode())
        ar = ctypes.CDLL(str(self.ar_path))
        # an older library lacks this function and never adds up box by box
        self._boxes_asked = getattr(ar, "symtuner_ar_boxes_asked", lambda: 0)

    def call(self, name: str, *args: object) -> None:
        why = ctypes.create_string_buffer(512)
        if getattr(self._c, "symtuner_ffi_" + name)(*args, why, ctypes.c_size_t(len(why))) != 0:
            raise SymtunerError(why.value.decode(errors="replace") or f"symtuner_ffi_{name} failed")

    def text(self, name: str, *args: object, size: int = 512) -> str | None:
        """Call a function that writes a text. Return the text, or None if the function fails."""
        out = ctypes.create_string_buffer(size)
        bad = getattr(self._c, "symtuner_ffi_" + name)(*args, out, ctypes.c_size_t(len(out)))
        return None if bad else out.value.decode(errors="replace")

    def boxes_asked(self) -> bool:
        """Return whether ranks on several boxes may add up box by box
        (symtuner_ar_boxes_asked())."""
        return bool(self._boxes_asked())

    def abort(self) -> None:
        self._c.symtuner_ffi_abort()

    def settle(self, seconds: float) -> None:
        self._c.symtuner_ffi_settle(ctypes.c_int(int(seconds * 1000)))

    def ending(self) -> None:
        self._c.symtuner_ffi_ending()

    def register(self) -> None:
        import jax

        direct = word("SYMTUNER_JAX_ZERO_COPY", ("0", "1"), "1") == "1"
        self.zero_copy_from = _ZERO_COPY_FROM if direct else 2**64 - 1
        self._c.symtuner_ffi_zero_copy_from(ctypes.c_size_t(self.zero_copy_from))
        self.record, self.only = _record(), only()
        # pass no traits, since jaxlib refuses them here; each handler itself reports whether XLA
        # may record it
        plain = jax.ffi.pycapsule(self._c.symtuner_ffi_all_reduce)
        recordable = jax.ffi.pycapsule(self._c.symtuner_ffi_all_reduce_recordable)
        for target, (recorded, stages) in TARGETS.items():
            handler = recordable if recorded else plain
            jax.ffi.register_ffi_target(target, dict.fromkeys(stages, handler), platform="CUDA")

    def target(
        self, size: int, across: bool, xla: bool, options: dict[str, Any], coll: str = "all_reduce"
    ) -> str:
        """Return the name of the custom call for ``size`` bytes per rank. The name is the same on
        all processes. ``across``: the ranks are in several processes. ``xla``: they use XLA's
        communicator. ``options``: the compiler options.

        XLA must not record calls whose ranks exchange addresses, because a recording would keep
        other ranks' addresses. Nor must it record calls on its own communicator: a recording keeps
        the handle on that communicator, and XLA records a custom call again only if its buffers
        have changed, not if XLA has made another communicator.
        """
        meets = coll == "all_reduce" and not across and size >= self.zero_copy_from
        small = coll == "all_reduce" and size <= _RECORD_ACROSS
        seen = not across or (small and not self.boxes_asked())
        recorded = self.record != "0" and not meets and not xla
        if self.record == "auto" and (not seen or _concurrent(options)):
            recorded = False
        name = XLA if xla else RECORDABLE if recorded else MEETING if meets else TARGET
        return name.replace("all_reduce", coll)

    def settings(self) -> str:
        """Describe the settings on which a lowering depends. These settings must be the same on all
        processes."""
        strict = os.environ.get(STRICT, "0")
        return (
            f"XLA may record: {self.record}, calls meet from {self.zero_copy_from} bytes on, "
            f"collectives: {' '.join(sorted(self.only))}, strict: {strict}, "
            f"box by box: {int(self.boxes_asked())}"
        )

    def register_probe(self) -> str:
        import jax

        probe = jax.ffi.pycapsule(self._c.symtuner_ffi_probe)
        name = TARGET + "_probe"
        jax.ffi.register_ffi_target(name, {"prepare": probe, "execute": probe}, platform="CUDA")
        return name

    def probed(self) -> int:
        return int(self._c.symtuner_ffi_probed())


@functools.cache
def _load() -> Library | SymtunerError:
    try:
        library = Library()
        library.register()
        return library
    except SymtunerError as e:
        return e
    except OSError as e:  # a folder that this user cannot read
        return SymtunerError(f"the libraries cannot be read: {e}")
    except AttributeError as e:  # ctypes: the library lacks a function
        return SymtunerError(
            f"{_find(_FFI)} is of another version of symtuner; build it again: {e}"
        )


def load() -> Library:
    """Return the libraries. The first call loads and registers them. If that fails, this call and
    all later ones raise SymtunerError."""
    result = _load()
    if isinstance(result, SymtunerError):
        raise result
    return result

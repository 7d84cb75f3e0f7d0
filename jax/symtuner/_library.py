# SPDX-License-Identifier: Apache-2.0
"""Find, load and register libsymtuner_ffi.so and libsymtuner_ar.so."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib

TARGET = "symtuner_all_reduce"
# Up to 12 MiB no kernel of the selection table for 2 to 4 ranks touches the peers' buffers
# (kernels/ar_select.c), and the ranks need not meet before a run.
_ZERO_COPY_FROM = (12 << 20) + 1
_FFI, _AR = "libsymtuner_ffi.so", "libsymtuner_ar.so"


class SymtunerError(RuntimeError):
    """Something about symtuner itself: a library, a group, a setting."""


def _folders() -> list[pathlib.Path]:
    given = os.environ.get("SYMTUNER_LIB_DIR")
    if given:
        return [pathlib.Path(given)]
    here = pathlib.Path(__file__).resolve().parent
    return [here, here.parent.parent / "build"]


def _find(name: str) -> pathlib.Path:
    for folder in _folders():
        if (folder / name).is_file():
            return folder / name
    where = ", ".join(map(str, _folders()))
    make = "make kernels" if name == _AR else "make jax"
    raise SymtunerError(f"{name} is not in {where}; build it ({make}) or set SYMTUNER_LIB_DIR")


def word(name: str, allowed: tuple[str, ...], default: str) -> str:
    """An environment variable with a fixed set of values."""
    value = os.environ.get(name, default)
    if value not in allowed:
        raise SymtunerError(f"{name}={value!r} is unknown; write one of {', '.join(allowed)}")
    return value


class Library:
    """The functions of symtuner_ffi.h; an error of theirs becomes a SymtunerError."""

    def __init__(self) -> None:
        self.path = _find(_FFI)
        self.ar_path = _find(_AR)
        try:
            self._c = ctypes.CDLL(str(self.path))
        except OSError as e:
            raise SymtunerError(f"{self.path}: {e}") from None
        self.call("load", str(self.ar_path).encode())

    def call(self, name: str, *args: object) -> None:
        why = ctypes.create_string_buffer(512)
        if getattr(self._c, "symtuner_ffi_" + name)(*args, why, ctypes.c_size_t(len(why))) != 0:
            raise SymtunerError(why.value.decode(errors="replace") or f"symtuner_ffi_{name} failed")

    def text(self, name: str, *args: object) -> str | None:
        """A function that fills a text; None when it fails."""
        out = ctypes.create_string_buffer(512)
        bad = getattr(self._c, "symtuner_ffi_" + name)(*args, out, ctypes.c_size_t(len(out)))
        return None if bad else out.value.decode(errors="replace")

    def abort(self) -> None:
        self._c.symtuner_ffi_abort()

    def settle(self, seconds: float) -> None:
        self._c.symtuner_ffi_settle(ctypes.c_int(int(seconds * 1000)))

    def ending(self) -> None:
        self._c.symtuner_ffi_ending()

    def left(self, ids: object, ranks: int, rank: int) -> None:
        self._c.symtuner_ffi_left(ids, ctypes.c_int(ranks), ctypes.c_int(rank))

    def register(self) -> None:
        import jax

        allow = word("SYMTUNER_JAX_COMMAND_BUFFERS", ("0", "1"), "0") == "1"
        self._c.symtuner_ffi_allow_command_buffers(int(allow))
        direct = word("SYMTUNER_JAX_ZERO_COPY", ("0", "1"), "1") == "1"
        self._c.symtuner_ffi_zero_copy_from(
            ctypes.c_size_t(_ZERO_COPY_FROM if direct else 2**64 - 1)
        )
        # the handler says itself that it may be recorded: jaxlib refuses traits given here
        handler = jax.ffi.pycapsule(self._c.symtuner_ffi_all_reduce)
        stages = {"prepare": handler, "initialize": handler, "execute": handler}
        jax.ffi.register_ffi_target(TARGET, stages, platform="CUDA")

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


def load() -> Library:
    """The libraries, loaded and registered once per process; SymtunerError when that failed."""
    result = _load()
    if isinstance(result, SymtunerError):
        raise result
    return result

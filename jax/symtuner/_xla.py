# SPDX-License-Identifier: Apache-2.0
"""Find out whether this jaxlib offers XLA's own communicators to custom calls, and whether other
processes can map XLA's memory.

jaxlib 0.11.2 attaches its FFI extension "collectives" to every custom call on a GPU. Only the
prepare stage of a call can see whether the extension is there. So once per process we run a small
program on one GPU, with a custom call that looks for the extension.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading

import numpy as np

from . import _say
from ._library import SymtunerError, load, word

_NAME = "SYMTUNER_JAX_COMM"
# seconds; we wait at most this long for the small program of why_not(), or for the array of
# show_memory(). After that time we assume that XLA does not offer what we look for
PROBE_S = 60


def _run_probe(said: list[str]) -> None:
    import jax
    import jax.numpy as jnp

    try:
        name = load().register_probe()
        call = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((), jnp.float32))
        with jax.default_device(jax.local_devices(backend="cuda")[0]):
            jax.jit(lambda: call())().block_until_ready()
        said.append("" if load().probed() == 1 else "no such FFI extension")
    except Exception as e:  # whatever the error is, the answer is no
        said.append((str(e) or repr(e)).splitlines()[0][:200])


@functools.cache
def why_not() -> str:
    """Return why groups across processes cannot use XLA's communicator, or "" if they can. Runs a
    small program in a thread of its own to find out, because the calling thread is lowering another
    program. The calling thread waits at most PROBE_S."""
    said: list[str] = []
    thread = threading.Thread(target=_run_probe, args=(said,), daemon=True)
    thread.start()
    thread.join(PROBE_S)
    return said[0] if said else f"the probe did not end within {PROBE_S} s"


# use() raises no error, because the other processes would then wait for this process. So all
# processes begin to open the group. If check() then raises an error in one process, _processes.py
# raises this error in all of them.
def use() -> bool:
    """Does this process want XLA's communicator for its groups?"""
    choice = os.environ.get(_NAME, "own")
    return choice == "xla" or (choice == "auto" and not why_not())


def check(xla: bool) -> None:
    """Raise SymtunerError if SYMTUNER_JAX_COMM has an unknown value, or if its value is "xla" but
    this jaxlib does not offer XLA's communicators. ``xla``: this group would use one of them. In
    this case also print a line if SYMTUNER_JAX_COMMAND_BUFFERS=1, which has no effect then."""
    if word(_NAME, ("own", "auto", "xla"), "own") == "xla" and xla and why_not():
        raise SymtunerError(
            f"{_NAME}=xla, but this jaxlib offers its communicators to no custom call "
            f"(0.11.2 does), so leave it at own: {why_not()}"
        )


    if xla and load().record == "1":
        _say.once(
            "SYMTUNER_JAX_COMMAND_BUFFERS=1 does not hold for calls on XLA's communicator "
            f"({_NAME}={os.environ.get(_NAME)}): XLA would go on to replay them after it has made "
            "another communicator"
        )


def reason(xla: bool) -> str:
    """Return why this process uses XLA's communicator, or a communicator of its own."""
    choice = os.environ.get(_NAME, "own")
    if xla or choice == "own":
        return f"{_NAME}={choice}"
    return f"{_NAME}={choice}; {(choice == 'auto' and why_not()) or 'symtuner.open_group'}"


@functools.cache
def show_memory() -> None:
    """With SYMTUNER_AR_IPC=1, show the library an address in XLA's memory, from which it learns
    whether other processes can map this memory. The address is that of a small array. If we get no
    address, the library assumes that they cannot. We make the array in a thread of its own, because
    the calling thread is lowering a program."""
    if os.environ.get("SYMTUNER_AR_IPC") != "1":
        return
    at = [1]  # 1 is no valid address

    def find() -> None:
        import jax

        try:
            gpu = jax.local_devices(backend="cuda")[0]
            at.append(jax.device_put(np.zeros(1, np.int8), gpu).unsafe_buffer_pointer())
        except Exception:  # JAX or XLA has failed, so nothing is mapped
            pass

    thread = threading.Thread(target=find, daemon=True)
    thread.start()
    thread.join(PROBE_S)
    load()._c.symtuner_ffi_memory(ctypes.c_void_p(at[-1]))

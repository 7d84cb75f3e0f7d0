# SPDX-License-Identifier: Apache-2.0
"""XLA's own communicators: whether this jaxlib offers them to custom calls, found out by asking.

jaxlib 0.11.2 attaches its FFI extension "collectives" to every custom call on a GPU. Whether it is
there is seen in the prepare stage only, so a program with one custom call that looks for it is run
on one GPU of this process, once.
"""

from __future__ import annotations

import functools
import os
import threading

from ._library import SymtunerError, load, word

_NAME = "SYMTUNER_JAX_COMM"
PROBE_S = 60  # for one small compilation; no answer means no


def _run_probe(said: list[str]) -> None:
    import jax
    import jax.numpy as jnp

    try:
        name = load().register_probe()
        call = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((), jnp.float32))
        with jax.default_device(jax.local_devices()[0]):
            jax.jit(lambda: call())().block_until_ready()
        said.append("" if load().probed() == 1 else "no such FFI extension")
    except Exception as e:  # whatever it is, the answer is no
        said.append((str(e) or repr(e)).splitlines()[0][:200])


@functools.cache
def why_not() -> str:
    """Empty when groups across processes can use XLA's communicator. Programs are lowered while
    this is asked, so the probe has a thread of its own."""
    said: list[str] = []
    thread = threading.Thread(target=_run_probe, args=(said,), daemon=True)
    thread.start()
    thread.join(PROBE_S)
    return said[0] if said else f"the probe did not end within {PROBE_S} s"


# A process that failed by itself here would leave the others waiting for it, so all go on to the
# group's first step, and what is wrong with one is an error of all (_processes).
def use() -> bool:
    """Whether this process wants XLA's communicator for its groups."""
    choice = os.environ.get(_NAME, "own")
    return choice == "xla" or (choice == "auto" and not why_not())


def check(xla: bool) -> None:
    """SymtunerError when the setting is unknown, or cannot be had."""
    if word(_NAME, ("own", "auto", "xla"), "own") == "xla" and xla and why_not():
        raise SymtunerError(
            f"{_NAME}=xla, but this jaxlib offers its communicators to no custom call "
            f"(0.11.2 does), so leave it at own: {why_not()}"
        )


def reason(xla: bool) -> str:
    """Why this process uses the one or the other."""
    choice = os.environ.get(_NAME, "own")
    if xla or choice == "own":
        return f"{_NAME}={choice}"
    return f"{_NAME}={choice}; {(choice == 'auto' and why_not()) or 'symtuner.open_group'}"

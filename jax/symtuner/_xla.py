# SPDX-License-Identifier: Apache-2.0
"""XLA's own communicators: whether this jaxlib offers them to custom calls, found out by asking.

jaxlib 0.11.2 attaches its FFI extension "collectives" to every custom call on a GPU. Whether it is
there is seen in the prepare stage only, so a program with one custom call that looks for it is run
on one GPU of this process, once.
"""

from __future__ import annotations

import functools
import threading

from ._library import SymtunerError, load, word

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


def use() -> bool:
    """All processes must give the same answer; _processes checks that they do."""
    choice = word("SYMTUNER_JAX_COMM", ("own", "auto", "xla"), "own")
    if choice == "own":
        return False
    if why_not() and choice == "xla":
        raise SymtunerError(
            "SYMTUNER_JAX_COMM=xla, but this jaxlib offers its communicators to no custom call "
            f"(0.11.2 does), so leave it at own: {why_not()}"
        )
    return not why_not()

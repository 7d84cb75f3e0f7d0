# SPDX-License-Identifier: Apache-2.0
"""Groups across processes: one GPU each, a NCCL communicator of our own, no XLA collective.

The unique id goes through the key-value store of JAX's coordinator, which is plain RPC: an XLA
collective here could wait for a program that waits for us.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ._library import SymtunerError, load

_WAIT_MS = 120_000
_opened: dict[tuple[int, ...], int] = {}


def _client() -> Any:
    from jax._src import distributed  # no public name for the key-value store

    client = getattr(distributed.global_state, "client", None)
    if client is None:
        raise SymtunerError("the group spans processes, but jax.distributed is not initialized")
    return client


def _agree(client: Any, key: str, me: int, ranks: int, mine: str) -> list[str]:
    """Everybody's word on every rank."""
    client.key_value_set(f"{key}/{me}", mine)
    return [client.blocking_key_value_get(f"{key}/{r}", _WAIT_MS) for r in range(ranks)]


def open_across(devices: Sequence[Any]) -> None:
    import jax

    mine = [i for i, d in enumerate(devices) if d.process_index == jax.process_index()]
    if not mine:
        return  # another process's group
    if len(mine) > 1 or len({d.process_index for d in devices}) != len(devices):
        raise SymtunerError("a group across processes needs one GPU in each process")
    me, ids = mine[0], tuple(d.id for d in devices)
    client = _client()
    _opened[ids] = _opened.get(ids, 0) + 1
    key = f"symtuner/{'.'.join(map(str, ids))}/{_opened[ids]}"
    library, problem, unique = None, "", ""
    try:
        library = load()
        if me == 0:
            raw = ctypes.create_string_buffer(128)
            library.call("unique_id", raw)
            unique = raw.raw.hex()
    except SymtunerError as e:
        problem = str(e)
    words = _agree(client, key + "/ready", me, len(ids), f"{int(bool(problem))}{problem or unique}")
    for rank, word in enumerate(words):
        if word[0] == "1":
            raise SymtunerError(f"rank {rank}: {word[1:]}")
    try:
        library.call("open_comm", (ctypes.c_int64 * len(ids))(*ids), ctypes.c_int(len(ids)),
                     ctypes.c_int(me), ctypes.c_int(devices[me].local_hardware_id),
                     bytes.fromhex(words[0][1:]), ctypes.c_uint32(_timeout()))
    except SymtunerError as e:
        problem = str(e)
    words = _agree(client, key + "/made", me, len(ids), f"{int(bool(problem))}{problem}")
    for rank, word in enumerate(words):
        if word[0] == "1":
            raise SymtunerError(f"rank {rank}: {word[1:]}")


def _timeout() -> int:
    from ._groups import timeout_ms

    return timeout_ms("processes")

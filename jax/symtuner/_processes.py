# SPDX-License-Identifier: Apache-2.0
"""Groups across processes: one GPU each, an NCCL communicator of our own, no XLA collective.

The unique id goes through the key-value store of JAX's coordinator, which is plain RPC: an XLA
collective here could wait for a program that waits for us. All ranks tell each other how each step
went, so that all of them use the group or none does.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ._library import SymtunerError, load

WAIT_S = 120  # for the slowest rank to lower the same program
LISTEN_S = 5  # for goodbyes that have been said already
_opened: dict[tuple[int, ...], int] = {}
_talks: list["_Talk"] = []
_listeners: dict[tuple[int, ...], list[tuple["_Talk", threading.Thread]]] = {}


def _client() -> Any:
    from jax._src import distributed  # no public name for the key-value store

    client = getattr(distributed.global_state, "client", None)
    if client is None:
        raise SymtunerError("the group spans processes, but jax.distributed is not initialized")
    return client


class _Talk:
    """What the ranks of one group tell each other, step by step."""

    def __init__(self, key: str, me: int, ranks: int) -> None:
        self.client, self.key, self.me, self.ranks = _client(), key, me, ranks
        self.closed = False

    def share(self, step: str, action: Callable[[], str]) -> list[str]:
        """Everybody's result of ``action``; an error of one is an error of all."""
        try:
            mine = "+" + action()
        except SymtunerError as e:
            mine = "-" + str(e)
        words = []
        try:
            self.client.key_value_set(f"{self.key}/{step}/{self.me}", mine)
            for r in range(self.ranks):
                words.append(
                    self.client.blocking_key_value_get(f"{self.key}/{step}/{r}", WAIT_S * 1000)
                )
        except Exception as e:  # jaxlib's own error type differs between releases
            raise SymtunerError(
                f"rank {len(words)} did not answer within {WAIT_S} s: {e}"
            ) from None
        for rank, word in enumerate(words):
            if word.startswith("-"):
                raise SymtunerError(f"rank {rank}: {word[1:]}")
        return [word[1:] for word in words]


def say_goodbye() -> None:
    """Tell the other ranks that this process makes no more calls, so that none waits for it."""
    for talk in _talks:
        talk.closed = True
        try:
            talk.client.key_value_set(f"{talk.key}/left/{talk.me}", "goodbye")
        except Exception:  # the coordinator may be gone; then the processes' ends are noticed
            pass
    _talks.clear()


def _listen(talk: _Talk, ids: Any, rank: int) -> None:
    """Wait until a rank of the group says goodbye."""
    try:
        talk.client.blocking_key_value_get(f"{talk.key}/left/{rank}", 10**9)
        load().call("goodbye", ids, ctypes.c_int(talk.ranks), ctypes.c_int(rank))
    except Exception:  # the coordinator is gone
        pass


def _listen_to_all(talk: _Talk, ids: tuple[int, ...], c_ids: Any) -> None:
    """One thread for each other rank: one may leave in order and another be lost after it."""
    for rank in range(talk.ranks):
        if rank != talk.me:
            thread = threading.Thread(target=_listen, args=(talk, c_ids, rank), daemon=True)
            _listeners.setdefault(ids, []).append((talk, thread))
            thread.start()


def _hear_out(ids: tuple[int, ...]) -> None:
    """The goodbyes of a closed group of these ids, so that none is taken for one of the group that
    is about to be opened. The ranks have said them: they have come to this one."""
    deadline = time.monotonic() + LISTEN_S
    for talk, thread in _listeners.get(ids, ()):
        if talk.closed:
            thread.join(max(0, deadline - time.monotonic()))
    _listeners[ids] = [(talk, thread) for talk, thread in _listeners.get(ids, ()) if not talk.closed]


def bounded(seconds: float, action: Callable[[], None], what: str) -> None:
    """Run ``action``, but do not wait for it longer than that: NCCL has no time limit of its
    own."""
    problem: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as e:
            problem.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise SymtunerError(f"{what} did not end within {seconds:g} s")
    if problem:
        raise problem[0]


def _facts(me: int, xla: bool) -> str:
    """Rank 0's unique id, and where this process can be watched: pid and its name space."""
    unique = "xla" if xla else ""
    if me == 0 and not xla:
        raw = ctypes.create_string_buffer(128)
        load().call("unique_id", raw)
        unique = raw.raw.hex()
    return f"{unique} {os.getpid()} {os.stat('/proc/self/ns/pid').st_ino}"


def open_across(devices: Sequence[Any], timeout_ms: int, xla: bool) -> None:
    import jax

    mine = [i for i, d in enumerate(devices) if d.process_index == jax.process_index()]
    if not mine:
        return  # other processes' group
    if len(mine) > 1 or len({d.process_index for d in devices}) != len(devices):
        raise SymtunerError("a group across processes needs one GPU in each process")
    me, ranks = mine[0], len(devices)
    ids = tuple(d.id for d in devices)
    _opened[ids] = _opened.get(ids, 0) + 1
    talk = _Talk(f"symtuner/{'.'.join(map(str, ids))}/{_opened[ids]}", me, ranks)
    facts = [w.split(" ") for w in talk.share("ready", lambda: _facts(me, xla))]
    if len({f[0] == "xla" for f in facts}) > 1:
        raise SymtunerError("SYMTUNER_JAX_COMM is not the same on all processes")
    _hear_out(ids)
    c_ids = (ctypes.c_int64 * ranks)(*ids)

    def make() -> str:
        if xla:
            load().call(
                "open_xla",
                c_ids,
                ctypes.c_int(ranks),
                ctypes.c_int(me),
                ctypes.c_int(devices[me].local_hardware_id),
                ctypes.c_uint32(timeout_ms),
            )
            return ""
        bounded(
            WAIT_S,
            lambda: load().call(
                "open_comm",
                c_ids,
                ctypes.c_int(ranks),
                ctypes.c_int(me),
                ctypes.c_int(devices[me].local_hardware_id),
                bytes.fromhex(facts[0][0]),
                ctypes.c_uint32(timeout_ms),
            ),
            "ncclCommInitRank",
        )
        return ""

    talk.share("made", make)
    _talks.append(talk)
    _listen_to_all(talk, ids, c_ids)
    if len({f[2] for f in facts}) == 1:
        try:
            load().call(
                "watch",
                c_ids,
                ctypes.c_int(ranks),
                (ctypes.c_int * ranks)(*[int(f[1]) for f in facts]),
            )
        except SymtunerError as e:
            print(f"symtuner: {e}", file=sys.stderr)

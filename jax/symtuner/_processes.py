# SPDX-License-Identifier: Apache-2.0
"""Groups across processes: each process has one GPU of the group. The group has an NCCL
communicator of its own, or uses XLA's.

Rank 0 sends the unique id through the key-value store of JAX's coordinator. We use no XLA
collective for that, since the collective could wait for a program that waits for us. All ranks tell
each other how each step went, so that either all use the group or none does.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import _xla
from ._library import SymtunerError, load

WAIT_S = 120  # seconds; longest wait for the slowest rank to lower the same program
# number of steps, of up to WAIT_S each, in which a group is opened: all ranks answer, all make the
# group, all agree
OPEN_WAITS = 3
# seconds; before a process ends, it waits this long for the goodbyes (_Talk) sent before its own
LISTEN_S = 2
# seconds from the time at which this process begins to end until watch_end() acts; the same time as
# FFI_LIVENESS_END_MS of jax/liveness.h
END_S = 15
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_Result = queue.SimpleQueue[BaseException | None]
_opened: dict[tuple[int, ...], int] = {}
_talks: list["_Talk"] = []
_agreed: dict[str, int] = {}
_client: Any = None  # the client of jax.distributed to which _opened and _agreed belong


def coordinator() -> Any:
    global _client
    from jax._src import distributed  # the key-value store has no public name

    client = getattr(distributed.global_state, "client", None)
    if client is None:
        raise SymtunerError(
            "the group spans processes, but jax.distributed is not initialized; call "
            "jax.distributed.initialize() first"
        )
    if client is not _client:  # initialize() was called again: count from 0, as a new process does
        _opened.clear()
        _agreed.clear()
        _client = client
    return client


class _Talk:
    """What the ranks of one group tell each other: how each step went, and at last goodbye."""

    def __init__(self, ids: tuple[int, ...], me: int) -> None:
        self.ids, self.me, self.ranks = ids, me, len(ids)
        self.client = coordinator()
        _opened[ids] = _opened.get(ids, 0) + 1
        self.key = f"symtuner/{'.'.join(map(str, ids))}/{_opened[ids]}"
        self.heard = 0  # how many goodbyes we have heard, our own included
        self.asked = 0.0
        self.listener = threading.Thread(target=self._listen, daemon=True)

    def share(self, step: str, action: Callable[[], str]) -> list[str]:
        """All ranks call this together. Run ``action``, tell the other ranks its result, and return
        the results of all ranks. If one rank fails or does not answer, all ranks raise an error."""
        try:
            mine = "+" + action()
        except SymtunerError as e:
            mine = "-" + str(e)
        words: list[str] = []
        try:
            if not self._say(f"{step}/{self.me}", mine):
                raise SymtunerError(
                    f"another process was rank {self.me} of this group before; "
                    "restart all processes"
                )
            problem = self._decide(step, self._hear_all(step, words))
            problem = problem or self._hear_all(step, words)
        except SymtunerError:
            raise
        except Exception as e:  # jaxlib's own error type differs between releases
            problem = f"the coordinator of jax.distributed does not answer: {e}"
        if problem:
            raise SymtunerError(problem)
        return [word[1:] for word in words]

    def _say(self, key: str, word: str) -> bool:
        return first_to_say(self.client, f"{self.key}/{key}", word)

    def _hear_all(self, step: str, words: list[str]) -> str:
        """Append to ``words`` the answers of rank len(words) and of all later ranks. Returns what
        is wrong with one of the answers, or ""."""
        try:
            for r in range(len(words), self.ranks):
                key = f"{self.key}/{step}/{r}"
                words.append(self.client.blocking_key_value_get(key, WAIT_S * 1000))
        except Exception as e:
            return (
                f"rank {len(words)} did not answer within {WAIT_S} s: {e}; all processes with "
                "a GPU of the group must lower the same program within that time"
            )
        bad = [f"rank {r}: {word[1:]}" for r, word in enumerate(words) if word.startswith("-")]
        return bad[0] if bad else ""

    def _decide(self, step: str, problem: str) -> str:
        """Agree on the outcome of a step: the verdict that is set first holds for all ranks. So all
        ranks go on or none does, even if one rank timed out just before the last answer came."""
        key = f"{step}/verdict"
        if self._say(key, "-" + problem if problem else "+"):
            return problem
        return self.client.blocking_key_value_get(f"{self.key}/{key}", WAIT_S * 1000)[1:]

    # Goodbyes are numbered: left/0, left/1, ... A rank uses the next free number and listens only
    # until it hears its own goodbye. It would not be safe to listen longer: Python up to 3.13 ends
    # a process with SIGABRT if a thread returns from self.client after the interpreter has ended.
    def say_goodbye(self) -> None:
        self.asked = time.monotonic()
        for number in range(self.heard, self.ranks):
            try:
                if self._say(f"left/{number}", str(self.me)):
                    return
            except Exception:  # the coordinator is gone; jax/liveness.c notices that processes end
                return

    def _listen(self) -> None:
        try:
            while (rank := self._hear()) != self.me:
                load().call("goodbye", *self._name(), ctypes.c_int(rank))
            load().call("told", *self._name(), ctypes.c_int64(int(self.asked * 1000)))
        except Exception:  # the coordinator is gone
            pass

    def _hear(self) -> int:
        key = f"{self.key}/left/{self.heard}"
        rank = int(self.client.blocking_key_value_get(key, 10**9))
        self.heard += 1
        return rank

    def _name(self) -> tuple[Any, ...]:
        return (ctypes.c_int64 * self.ranks)(*self.ids), ctypes.c_int(self.ranks)


# ---- all processes of a program ------------------------------------------------------------------
def first_to_say(client: Any, key: str, word: str) -> bool:
    """Set ``key`` to ``word`` unless it is set. Returns whether we set it."""
    try:
        client.key_value_set(key, word)
    except Exception as e:
        if "ALREADY_EXISTS" not in str(e):
            raise
        return False
    return True


def _judge(words: dict[int, str]) -> str:
    """Return what is wrong with these answers of the processes, or ""."""
    if len(set(words.values())) == 1:
        word = next(iter(words.values()))
        return word[1:] if word.startswith("-") else ""
    for process, word in words.items():
        if word.startswith("-"):
            return f"process {process}: {word[1:]}"
    (first, ours), *others = words.items()
    other, theirs = next((p, w) for p, w in others if w != ours)
    return (
        f"process {first} would lower another program than process {other} ({ours[1:]}; "
        f"{theirs[1:]}): set the variables of docs/jax.md and XLA_FLAGS alike on all processes"
    )


def agree(ids: Sequence[int], processes: Sequence[int], problem: str, settings: str) -> str:
    """Return what is wrong in any of the processes that run a program with these groups, or "". All
    processes get the same answer.

    Each process says whether it could open its groups, and processes[0] decides for all. If
    processes[0] does not decide in time, the first process that times out decides for all that the
    groups are not used. Only one verdict can be set.
    """
    import jax

    me, judge = jax.process_index(), processes[0]
    if me not in processes:
        return problem  # this process does not run the program
    name = hashlib.sha256(repr(list(ids)).encode()).hexdigest()[:32]
    _agreed[name] = _agreed.get(name, 0) + 1
    key = f"symtuner/rows/{name}/{_agreed[name]}"
    try:
        client = coordinator()
        if not first_to_say(client, f"{key}/{me}", "-" + problem if problem else "+" + settings):
            return f"another process was process {me} of this program before; restart all processes"
        if me == judge:
            verdict = problem or _hear_and_judge(client, key, processes)
            if first_to_say(client, f"{key}/verdict", "+" + verdict):
                return verdict
        return _hear_verdict(client, f"{key}/verdict", judge)
    except Exception as e:  # jaxlib's own error type differs between releases
        return problem or f"the coordinator of jax.distributed does not answer: {e}"


def _hear_and_judge(client: Any, key: str, processes: Sequence[int]) -> str:
    words: dict[int, str] = {}
    until = time.monotonic() + OPEN_WAITS * WAIT_S
    try:
        for process in processes:
            left = max(1, int(1000 * (until - time.monotonic())))
            words[process] = client.blocking_key_value_get(f"{key}/{process}", left)
    except Exception as e:
        return (
            f"process {processes[len(words)]} did not answer within {OPEN_WAITS * WAIT_S} s: {e}; "
            "all processes must lower the same programs within that time"
        )
    return _judge(words)


def _hear_verdict(client: Any, key: str, judge: int) -> str:
    limit = (OPEN_WAITS + 1) * WAIT_S  # the judge's limit, and WAIT_S for its verdict
    try:
        return client.blocking_key_value_get(key, limit * 1000)[1:]
    except Exception as e:
        verdict = f"process {judge} did not decide within {limit} s: {e}"
    if first_to_say(client, key, "-" + verdict):
        return verdict
    return client.blocking_key_value_get(key, WAIT_S * 1000)[1:]


# ---- the end -------------------------------------------------------------------------------------
def say_goodbye() -> None:
    """Tell the other ranks that this process makes no more calls, so that they do not wait for
    it."""
    talks = list(_talks)  # a copy, because another thread may open a group meanwhile
    for talk in talks:
        talk.say_goodbye()
    deadline = time.monotonic() + LISTEN_S
    for talk in talks:
        talk.listener.join(max(0, deadline - time.monotonic()))
    del _talks[: len(talks)]


def watch_end() -> None:
    """Run this in a process that has begun to end. After END_S, tell the library each second that
    this process still waits in jax.distributed's shutdown. All processes leave that shutdown at the
    same moment. So if another process has ended while this one still waits, the other one never
    reached the shutdown, even if it said goodbye. Then this process waits for it in vain."""
    from jax._src.distributed import global_state

    time.sleep(END_S)
    while getattr(global_state, "client", None) is not None:
        before = time.monotonic()
        time.sleep(1)
        if getattr(global_state, "client", None) is not None:
            load().call("waiting", ctypes.c_int64(int(before * 1000)))


class Standby:
    """A thread that runs actions one after another. Start it early, because from Python 3.12 on a
    process that has begun to end cannot start a thread."""

    def __init__(self) -> None:
        self._todo: queue.SimpleQueue[tuple[Callable[[], None], _Result] | None]
        self._todo = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while (job := self._todo.get()) is not None:
            action, result = job
            try:
                action()
                result.put(None)
            except BaseException as e:
                result.put(e)

    def begin(self, action: Callable[[], None]) -> _Result:
        result: _Result = queue.SimpleQueue()
        self._todo.put((action, result))
        return result

    def end(self) -> None:
        self._todo.put(None)

    def bounded(self, seconds: float, action: Callable[[], None], what: str) -> None:
        """Run ``action`` and wait for it at most ``seconds``. NCCL itself has no time limit."""
        result = self.begin(action)
        try:
            problem = result.get(timeout=seconds)
        except queue.Empty:
            raise SymtunerError(
                f"{what} did not end within {seconds:g} s; NCCL_DEBUG=INFO says what NCCL waits for"
            ) from None
        if problem is not None:
            raise problem


def _place(me: int) -> str:
    """Return a name for the pid name space of this process. Two processes with the same name can
    use each other's pids. The name includes the boot id, since the initial name space has the same
    inode number on every host."""
    try:
        with open(_BOOT_ID) as f:
            return f"{f.read().strip()}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"unknown:{me}"  # a name that no other process has


def _facts(me: int, xla: bool) -> str:
    """Return three words for the other ranks. The first is "xla" if the group uses XLA's
    communicator; otherwise it is the ncclUniqueId on rank 0, and empty on all other ranks. The
    second and third are the pid and the pid name space of this process, with which other processes
    can watch it."""
    load()  # an error here becomes an error on all ranks
    _xla.check(xla)
    _xla.show_memory()
    unique = "xla" if xla else ""
    if me == 0 and not xla:
        raw = ctypes.create_string_buffer(128)
        load().call("unique_id", raw)
        unique = raw.raw.hex()
    return f"{unique} {os.getpid()} {_place(me)}"


def _agree(talk: _Talk, users: list[bool]) -> None:
    """Check that all ranks use XLA's communicator or none does."""
    if len(set(users)) == 1:
        return
    reasons = talk.share("comm", lambda: _xla.reason(users[talk.me]))
    xla, own = users.index(True), users.index(False)
    raise SymtunerError(
        f"rank {xla} would use XLA's communicator ({reasons[xla]}), rank {own} one of its own "
        f"({reasons[own]}); set SYMTUNER_JAX_COMM=own on all processes"
    )


def open_across(devices: Sequence[Any], timeout_ms: int, xla: bool) -> None:
    import jax

    me = [d.process_index for d in devices].index(jax.process_index())
    ranks = len(devices)
    talk = _Talk(tuple(d.id for d in devices), me)
    facts = [w.split(" ") for w in talk.share("ready", lambda: _facts(me, xla))]
    _agree(talk, [f[0] == "xla" for f in facts])
    c_ids = (ctypes.c_int64 * ranks)(*talk.ids)

    common = c_ids, ctypes.c_int(ranks), ctypes.c_int(me)
    common += (ctypes.c_int(devices[me].local_hardware_id),)
    opener, ticket = Standby(), ctypes.c_void_p()

    def make() -> str:
        name, more = ("open_xla", ()) if xla else ("open_comm", (bytes.fromhex(facts[0][0]),))
        opener.bounded(
            WAIT_S,
            lambda: load().call(
                name, *common, *more, ctypes.c_uint32(timeout_ms), ctypes.byref(ticket)
            ),
            "opening the group (ncclCommInitRank, symtuner_ar_create)",
        )
        return ""

    try:
        talk.share("made", make)
        load().call("admit", ctypes.byref(ticket))
    except BaseException:
        # do not wait: the thread of opener frees the ticket when it has finished opening, which may
        # take long
        opener.begin(lambda: load().call("give_up", ticket))
        raise
    finally:
        opener.end()
    _talks.append(talk)
    try:
        if len({f[2] for f in facts}) == 1:
            load().call(
                "watch",
                c_ids,
                ctypes.c_int(ranks),
                (ctypes.c_int * ranks)(*[int(f[1]) for f in facts]),
            )
    except SymtunerError as e:
        print(f"symtuner: {e}", file=sys.stderr)
    finally:
        # listen only now, because a watch does not learn of goodbyes that this process heard before
        # the watch began. Without a rank's goodbye, the watch would take the end of that rank's
        # process for a death.
        talk.listener.start()

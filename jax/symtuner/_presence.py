# SPDX-License-Identifier: Apache-2.0
"""Which processes run symtuner? A process that does not run it would never answer the others when
they open a group, and these would wait for minutes. So they ask here first. A process with
SYMTUNER_MODE=observe or off counts as one that does not run it.

There are two questions (_QUESTIONS), because a program can call symtuner.all_reduce() without
install(). Each process answers "yes", or why not, when it lowers its first program to which the
question applies. If it does not answer in time, another process answers for it that it does not run
symtuner. Only the first answer about a process counts. It holds until all processes call
symtuner.retry() or symtuner.close(). So all processes get the same answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from . import _processes, _say
from ._library import SymtunerError, idle, load

RUNS = "runs"  # does the process lower calls of symtuner.all_reduce() to our kernels?
INSTALLED = "installed"  # does it replace psum and other collectives, as install() does?
_QUESTIONS = (RUNS, INSTALLED)

_round = 0  # how many times retry() and close() were called; each call begins a round
# what each process has answered: the key names question, round and process; the value is "+", or
# "-" and why that process does not run symtuner
_words: dict[str, str] = {}
_client: Any = None  # the client of jax.distributed to which _round and _words belong
_asked = False  # SYMTUNER_JAX is set, and this process has told the others (asked())
_called = False  # the program itself called symtuner.install()


def _state() -> Any:
    from jax._src import distributed  # jax.process_index() would start JAX's backends

    return distributed.global_state


def has_others() -> bool:
    """Return whether this process is one of several (jax.distributed is initialized)."""
    return getattr(_state(), "client", None) is not None


def _renew() -> None:
    """Forget all answers if jax.distributed was initialized again: the new coordinator has none."""
    global _client, _round, _words
    client = getattr(_state(), "client", None)
    if client is None or client is _client:
        return
    again = _client is not None
    _client, _round, _words = client, 0, {}
    if again and _asked:
        asked()


def asked() -> None:
    """Tell the other processes that SYMTUNER_JAX is set in this one. JAX calls this (_entry.py)
    before it starts its backends, and on GPUs this start ends only after all processes have begun
    it. So if a process has told nothing when the backends have started, SYMTUNER_JAX is not set in
    that process, or symtuner is not installed there."""
    global _asked
    try:
        key = f"symtuner/asked/{_state().process_id}"
        _processes.first_to_say(_processes.coordinator(), key, "1")
        _asked = True
    except Exception:  # there is only one process
        return
    if idle():
        say()  # now, so that the others need not wait until this process lowers its first program


def called() -> None:
    """Note that the program itself called install(): other processes may still call it later."""
    global _called
    _called = True


def say(*questions: str) -> None:
    """Tell the other processes that this one runs symtuner, or why it cannot. Raises no error: if
    the coordinator does not answer, missing() says so."""
    _renew()
    for key in map(_my_key, questions or _QUESTIONS):
        if key in _words or getattr(_state(), "client", None) is None:
            continue
        try:
            load()
            word = f"-{why}" if (why := idle()) else "+"
        except Exception as e:  # JAX runs say() while it lowers a program, which must not fail
            word = f"-{e}"
        try:
            _words[key] = _set(key, word)
        except Exception:
            pass


def _key(question: str, process: int) -> str:
    return f"symtuner/{question}/{_round}/{process}"


def _my_key(question: str) -> str:
    return _key(question, getattr(_state(), "process_id", 0))


def _set(key: str, word: str) -> str:
    """Store ``word`` as the answer about a process, unless there is an answer already. Returns the
    answer that was stored first."""
    client = _processes.coordinator()
    if _processes.first_to_say(client, key, word):
        return word
    return client.blocking_key_value_get(key, _processes.WAIT_S * 1000)


def _ask_about(question: str, process: int, key: str, seconds: float) -> str:
    client = _processes.coordinator()
    has_asked = {key for key, _ in client.key_value_dir_get("symtuner/asked/")}
    may_know = question == INSTALLED and _asked and not _called
    if may_know and f"symtuner/asked/{process}" not in has_asked:
        return _set(key, "-SYMTUNER_JAX is not set there, or the package is not installed")
    try:
        return client.blocking_key_value_get(key, max(1, int(seconds * 1000)))
    except Exception:
        limit = _processes.OPEN_WAITS * _processes.WAIT_S
        return _set(key, f"-it has lowered no program with symtuner within {limit} s")


def _heard(question: str, keys: dict[int, str]) -> dict[str, str]:
    """Return what processes have said so far about themselves or others. A process that said "+" in
    another round counts as "+" in this round, too: if it has no groups, it need not call close(),
    and so may not know that a new round has begun."""
    said = dict(_processes.coordinator().key_value_dir_get(f"symtuner/{question}/"))
    runs = {key.rpartition("/")[2] for key, word in said.items() if word == "+"}
    every = {key: said.get(key, "+" if str(p) in runs else "") for p, key in keys.items()}
    return {key: word for key, word in every.items() if word}


def missing(processes: Sequence[int], question: str = RUNS) -> str:
    """Return which of these processes does not run symtuner, and why, or "" if all run it. Also
    print this once on stderr. The wait for all answers together takes at most as long as the
    opening of a group may take."""
    say(question)
    # keep the answers and keys of this round, because again() may begin another round meanwhile
    words, keys = _words, {p: _key(question, p) for p in processes}
    until = time.monotonic() + _processes.OPEN_WAITS * _processes.WAIT_S
    out = {}
    try:
        if not set(keys.values()) <= words.keys():
            words.update(_heard(question, keys))
        for process, key in keys.items():
            if key not in words:
                words[key] = _ask_about(question, process, key, until - time.monotonic())
            if words[key].startswith("-"):
                out[process] = words[key][1:]
    except SymtunerError as e:
        return str(e)
    except Exception as e:  # jaxlib's own error type differs between releases
        return f"the coordinator of jax.distributed does not answer: {e}"
    if not out:
        return ""
    process, reason = next(iter(out.items()))
    why = f"process {process} does not run symtuner ({reason})"
    if question == INSTALLED:  # symtuner.all_reduce warns by itself
        _say.once(f"{why}, so XLA runs all collectives of programs with that process")
    return why


def again(speak: bool = True) -> None:
    """Begin a new round, in which all processes say again whether they run symtuner. Each process
    does so when it next asks about the others. But if this process counted as one that does not run
    symtuner, it may never ask, so it answers now."""
    global _round, _words
    _renew()
    out = [q for q in _QUESTIONS if _words.get(_my_key(q), "").startswith("-")]
    _round, _words = _round + 1, {}
    if out and speak:
        say(*out)

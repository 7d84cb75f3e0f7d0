# SPDX-License-Identifier: Apache-2.0
"""Which processes run symtuner? A process that does not run it would never answer the others when
they open a group, and these would wait for minutes. So they ask here first.

Each process says that it runs symtuner, or why it cannot, when it lowers its first program. Others
may say of it that it does not. Only the first word about a process counts, and it holds until
symtuner.retry(). So all processes get the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _processes, _say
from ._library import SymtunerError, load

_round = 0  # how many times symtuner.retry() was called; each round has words of its own
_words: dict[int, str] = {}  # process -> "+", or "-" and why it does not run symtuner
_asked = False  # SYMTUNER_JAX is set, and the other processes can know it
_called = False  # the program itself called symtuner.install()


def _state() -> Any:
    from jax._src import distributed  # jax.process_index() would start JAX's backends

    return distributed.global_state


def asked() -> None:
    """Note that SYMTUNER_JAX is set in this process. JAX calls this (_entry.py) before it starts
    its backends, and on GPUs this start ends only after all processes have begun it. So if a
    process has not noted it by then, SYMTUNER_JAX is not set there, or symtuner is not installed.
    """
    global _asked
    try:
        key = f"symtuner/asked/{_state().process_id}"
        _processes.first_to_say(_processes.coordinator(), key, "1")
        _asked = True
    except Exception:  # there is only one process
        pass


def called() -> None:
    """Note that the program itself called install(). Then other processes may call it later."""
    global _called
    _called = True


def say() -> None:
    """Tell the other processes that this one runs symtuner, or why it cannot. Raises no error: if
    the coordinator does not answer, missing() says so."""
    me = getattr(_state(), "process_id", 0)
    if me in _words or getattr(_state(), "client", None) is None:
        return
    try:
        load()
        word = "+"
    except Exception as e:  # JAX runs say() while it lowers a program, which must not fail
        word = f"-{e}"
    try:
        _words[me] = _set(me, word)
    except Exception:
        pass


def _key(process: int) -> str:
    return f"symtuner/runs/{_round}/{process}"


def _set(process: int, word: str) -> str:
    """Say ``word`` about a process, unless a word about it was said before. Returns the first word that
    was said."""
    client, key = _processes.coordinator(), _key(process)
    if _processes.first_to_say(client, key, word):
        return word
    return client.blocking_key_value_get(key, _processes.WAIT_S * 1000)


def _ask_about(process: int) -> str:
    client, seconds = _processes.coordinator(), _processes.WAIT_S
    has_asked = {key for key, _ in client.key_value_dir_get("symtuner/asked/")}
    if _asked and not _called and f"symtuner/asked/{process}" not in has_asked:
        return _set(process, "-SYMTUNER_JAX is not set there, or the package is not installed")
    try:
        return client.blocking_key_value_get(_key(process), seconds * 1000)
    except Exception:
        return _set(process, f"-it has lowered no program with symtuner within {seconds} s")


def missing(processes: Sequence[int]) -> str:
    """Return which of these processes does not run symtuner, and why, or "". Also say so, once, on
    stderr."""
    say()
    try:
        if not set(processes) <= _words.keys():
            heard = dict(_processes.coordinator().key_value_dir_get(f"symtuner/runs/{_round}/"))
            _words.update({p: heard[_key(p)] for p in processes if _key(p) in heard})
        for process in processes:
            if process not in _words:
                _words[process] = _ask_about(process)
            if _words[process].startswith("-"):
                why = f"process {process} does not run symtuner ({_words[process][1:]})"
                if _asked or _called:  # symtuner.all_reduce warns by itself
                    _say.once(f"{why}, so XLA runs all collectives of programs with that process")
                return why
    except SymtunerError as e:
        return str(e)
    except Exception as e:  # jaxlib's own error type differs between releases
        return f"the coordinator of jax.distributed does not answer: {e}"
    return ""


def again() -> None:
    """Let all processes say again whether they run symtuner."""
    global _round
    _round += 1
    _words.clear()

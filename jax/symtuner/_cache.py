# SPDX-License-Identifier: Apache-2.0
"""JAX's persistent compile cache, while install() is in force.

JAX computes the key of an entry before XLA partitions the program and _hlo.py inserts our calls. So
we add words to each key: that install() is in force, and for which devices the program is, since
our calls name devices. When a program comes from the cache, this process did not compile it and so
did not open its groups. We open them before the program runs.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
import re
from typing import Any

import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

import jax

from . import _groups, _lowering, _say
from ._library import COLLS, SymtunerError, load

MARK = {"symtuner": "off"}  # what disabled() writes into JAX's metadata
_CALL = re.compile(rf'custom_call_target="symtuner_(?:{"|".join(COLLS)})(_xla)?\w*"[^\n]*')
# MLIR writes more than 100 numbers as the bytes of an array, in hexadecimal digits
_GROUPS = re.compile(r'groups = (?:dense<"0x([\dA-F]+)"|(?:dense<\[?|array<i64: )([-\d, ]+))')
_RANKS = re.compile(r"ranks = (\d+)")
_saved: dict[str, Any] = {}
_kept_out: set[str] = set()
strict = False  # True: install(strict=True) is in force; read no program compiled without it


def off() -> Any:
    """Return a context that puts MARK on the operations traced in it, and into the keys of JAX's
    caches."""
    return set_xla_metadata(**MARK)


def is_off(metadata: Any) -> bool:
    """Was an operation with this metadata traced within off()?"""
    return MARK.items() <= dict(metadata or ()).items()


def is_shared() -> bool:
    """May JAX compile a program in one process and send the result to the others? If so, the others
    do not open the groups of collectives that XLA's partitioner makes, and this process must not
    wait for them."""
    return bool(getattr(jax.config, "jax_share_binary_between_hosts", False))


@functools.cache
def _build() -> str:
    """Identify this build of symtuner. Another build may put other calls into a program."""
    files = [*sorted(pathlib.Path(__file__).parent.glob("*.py")), pathlib.Path(load().path)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _in_key() -> str:
    from jax._src import xla_metadata_lib

    before = _saved["custom_hook"]()
    if is_off(xla_metadata_lib.current_xla_metadata()):
        return before
    devices = next((d.flat for d in _lowering._local("devices") if hasattr(d, "flat")), ())
    ids = ",".join(str(d.id) for d in devices)
    try:
        settings = f"{load().settings()}; build {_build()}"
    except (SymtunerError, OSError):
        settings = "no library"
    more = "; shared" * is_shared() + "; strict" * strict
    return f"{before} symtuner: {settings}; devices {ids}{more}"


def rows_in(attributes: str) -> list[list[int]]:
    """Return the device ids of the groups of one of our calls. ``attributes`` are those of the
    call, as XLA prints them. Other text may stand before and after them."""
    ids, ranks = _GROUPS.search(attributes), _RANKS.search(attributes)
    if ids is None or ranks is None:
        raise SymtunerError("a program has a call of symtuner without groups")
    if ids[1]:
        flat = np.frombuffer(bytes.fromhex(ids[1]), dtype="<i8").tolist()
    else:
        flat = [int(i) for i in ids[2].split(",")]
    n = int(ranks[1])
    return [flat[i : i + n] for i in range(0, len(flat), n)]


def groups_in(text: str) -> list[tuple[bool, list[list[int]]]]:
    """Find our calls in the text of a compiled program. Return for each kind of call whether it
    uses XLA's communicator, and the device ids of its groups."""
    found = []
    for call in _CALL.finditer(text):
        entry = (call[1] is not None, rows_in(call[0]))
        if entry not in found:
            found.append(entry)
    return found


def _open_groups_of(executable: Any) -> None:
    texts = [module.to_string() for module in executable.hlo_modules()]
    found = sum(map(groups_in, texts), [])
    devices = {d.id: d for d in jax.devices("cuda")} if found else {}
    # open the groups in the same order as _hlo.py does in processes that compile the program
    for xla, rows in sorted(found, key=lambda call: (len(call[1][0]), call[1])):
        _groups.open_rows([[devices[i] for i in row] for row in rows], xla)


def _read(*args: Any, **more: Any) -> Any:
    """Read an entry of the cache. If the groups of its program cannot be opened, report that there
    is no entry, so that XLA compiles the program."""
    executable, seconds = _saved["get_executable_and_time"](*args, **more)
    if executable is not None:
        try:
            _open_groups_of(executable)
        except Exception as e:
            _say.once(f"a program of the compile cache cannot run, so XLA compiles it again: {e}")
            return None, None
    return executable, seconds


def keep_out(program: str) -> None:
    """Let JAX write no entry for programs of this name. Call this if a call of the program is left
    to XLA because its groups could not be opened this time. At a later start, a process that reads
    such an entry would not open the groups. A process without the entry would try to open them, and
    would wait in vain for the processes that read it."""
    _kept_out.add(program)


def let_in() -> None:
    """Let JAX write entries for all programs again."""
    _kept_out.clear()


def _write(key: str, program: str, *args: Any, **more: Any) -> None:
    if program not in _kept_out:
        _saved["put_executable_and_time"](key, program, *args, **more)


def _unpickle(self: Any, pid: Any) -> Any:
    """Load a part of a program that jax.experimental.serialize_executable wrote to a file."""
    loaded = _saved["persistent_load"](self, pid)
    if pid[0] == "exec":
        _open_groups_of(loaded)
    return loaded


def _guard_files() -> None:
    try:
        from jax.experimental.serialize_executable import _JaxPjrtUnpickler

        _saved["persistent_load"] = _JaxPjrtUnpickler.persistent_load
        _JaxPjrtUnpickler.persistent_load = _unpickle
    # this release of JAX lacks these names. With it, a user must call symtuner.open_group() before
    # loading a program with our calls from a file
    except (ImportError, AttributeError):
        pass


def guard() -> None:
    """Replace functions of JAX's cache by our own. If this release of JAX lacks those functions,
    turn its cache off."""
    from jax._src import cache_key, compilation_cache

    if _saved:
        return
    try:
        _saved["custom_hook"] = cache_key.custom_hook
        for name in ("get_executable_and_time", "put_executable_and_time"):
            _saved[name] = getattr(compilation_cache, name)
    except AttributeError as e:
        _saved.clear()
        jax.config.update("jax_enable_compilation_cache", False)
        _say.once(f"JAX's persistent compile cache is turned off: jax {jax.__version__} has {e}")
        return
    cache_key.custom_hook = _in_key
    compilation_cache.get_executable_and_time = _read
    compilation_cache.put_executable_and_time = _write
    _guard_files()


def release() -> None:
    from jax._src import cache_key, compilation_cache

    if _saved:
        cache_key.custom_hook = _saved.pop("custom_hook")
        for name in ("get_executable_and_time", "put_executable_and_time"):
            setattr(compilation_cache, name, _saved.pop(name))
        let_in()
    if "persistent_load" in _saved:
        from jax.experimental.serialize_executable import _JaxPjrtUnpickler

        _JaxPjrtUnpickler.persistent_load = _saved.pop("persistent_load")

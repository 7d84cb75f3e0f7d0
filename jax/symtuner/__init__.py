# SPDX-License-Identifier: Apache-2.0
"""symtuner: an all-reduce for GPUs that reach each other's memory, usable inside jax.jit.

    symtuner.install()                       # psum, pmean, pmax, pmin of unchanged programs
    y = symtuner.all_reduce(x, "i")          # or write the call yourself, within jax.shard_map
    symtuner.check()                         # does it work on this machine with this jaxlib?

The package loads libsymtuner_ar.so and libsymtuner_ffi.so from the folder that SYMTUNER_LIB_DIR
names. Without SYMTUNER_LIB_DIR it looks in lib/ of its own folder. If the package is part of a
source tree, it then looks in build/ of this source tree.

Importing symtuner does not import jax: a wheel starts the command symtuner through this package
(_command.py), and that command must work on machines without jax.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._all_reduce import all_reduce
    from ._check import Report, check
    from ._groups import close, describe, groups, open_group, retry
    from ._install import disabled, install, uninstall
    from ._library import SymtunerError
    from ._report import report

__version__ = "0.2.0"
__all__ = [
    "Report",
    "SymtunerError",
    "all_reduce",
    "check",
    "close",
    "describe",
    "disabled",
    "groups",
    "install",
    "open_group",
    "report",
    "retry",
    "uninstall",
]

_MODULE = {
    "Report": "_check",
    "SymtunerError": "_library",
    "all_reduce": "_all_reduce",
    "check": "_check",
    "close": "_groups",
    "describe": "_groups",
    "disabled": "_install",
    "groups": "_groups",
    "install": "_install",
    "open_group": "_groups",
    "report": "_report",
    "retry": "_groups",
    "uninstall": "_install",
}


def _without_jax(what: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """If the missing module is part of jax, return an error whose text says how to install jax.
    Otherwise return ``error``. ``what`` is the name in this package that needs jax."""
    if (error.name or "").partition(".")[0] not in ("jax", "jaxlib"):
        return error
    return ModuleNotFoundError(
        f"symtuner.{what} needs jax, which {sys.executable} does not have ({error}): pip install "
        "jax. For PyTorch use symtuner run and symtuner doctor, which need no jax",
        name=error.name,
    )


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module("." + _MODULE[name], __name__)
    except ModuleNotFoundError as e:
        raise _without_jax(name, e) from None
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE])

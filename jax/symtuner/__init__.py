# SPDX-License-Identifier: Apache-2.0
"""symtuner: an all-reduce for GPUs that reach each other's memory, usable inside jax.jit.

    y = symtuner.all_reduce(x, "i")          # within jax.shard_map, like jax.lax.psum
    symtuner.check()                         # does it work on this machine with this jaxlib?

The package contains no binary. It loads libsymtuner_ar.so and libsymtuner_ffi.so from the folder
named by SYMTUNER_LIB_DIR, else from its own folder, else from build/ of the source tree that it is
part of.
"""

from ._all_reduce import all_reduce
from ._check import Report, check
from ._groups import close, describe, groups, open_group, retry
from ._library import SymtunerError

__version__ = "0.1.0"
__all__ = [
    "Report",
    "SymtunerError",
    "all_reduce",
    "check",
    "close",
    "describe",
    "groups",
    "open_group",
    "retry",
]

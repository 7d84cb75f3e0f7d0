# SPDX-License-Identifier: Apache-2.0
"""max and min of floats. The result is NaN wherever one rank has a NaN, as with XLA.

Our kernels, like NCCL's, drop a NaN if the other operand is a number. So we turn floats into
integers that have the same order, and in which a NaN wins over every number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from jax import lax

# For each float type, the width in bits of the integers that stand for its numbers. NCCL has no
# 16-bit integers, so 16-bit floats become 32-bit integers.
TYPES = {"float16": 32, "bfloat16": 32, "float32": 32, "float64": 64}

_between_p = Primitive("symtuner_between_devices")
_between_p.def_abstract_eval(lambda x, *, emit: x)
mlir.register_lowering(_between_p, lambda ctx, x, *, emit: emit(ctx, x))


def _flip(bits: Any) -> Any:
    """Turn the bits of floats into integers that have the same order, or turn such integers back
    into the bits of the floats: the function is its own inverse."""
    return jnp.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def lower(ctx: Any, x: Any, op: str, emit: Callable[[Any, Any], Any]) -> Any:
    """Lower ``op``, "max" or "min". ``emit`` lowers the same operation on integers."""
    dtype = ctx.avals_in[0].dtype
    width = TYPES[str(dtype)]
    real, integer = np.dtype(f"float{width}"), np.dtype(f"int{width}")
    last = getattr(np.iinfo(integer), op)  # stands for NaN; no number becomes this integer

    def through_integers(v: Any) -> Any:
        v = v.astype(real)
        key = _flip(lax.bitcast_convert_type(v, integer))
        key = jnp.where(jnp.isnan(v), integer.type(last), key)
        key = _between_p.bind(key, emit=emit)
        back = lax.bitcast_convert_type(_flip(key), real)
        return jnp.where(key == last, real.type(np.nan), back).astype(dtype)

    return mlir.lower_fun(through_integers, multiple_results=False)(ctx, x)

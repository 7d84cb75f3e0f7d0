# SPDX-License-Identifier: Apache-2.0
"""all_reduce: jax.lax's collective, with another lowering on GPUs.

The call is traced as the jax.lax collective that it replaces; of that trace only the reduction
itself is exchanged for a primitive of our own. So types, varying axes, constants, bools and vmapped
axis names are jax.lax's business in every release, and what is left here is the lowering.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from . import _xla
from ._groups import open_for, spans_processes
from ._library import SymtunerError, load

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}  # NCCL's numbers
_LINEAR = ("sum", "avg")
_DTYPES = frozenset(
    "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16 "
    "float8_e4m3fn float8_e5m2 complex64 complex128".split()
)
_REDUCTIONS = ("psum", "psum2", "psum_invariant", "pmax", "pmin")


@functools.cache
def _warn(why: str) -> None:
    warnings.warn(f"symtuner.all_reduce uses jax.lax instead: {why}", stacklevel=4)


# ---- jax.lax's way -------------------------------------------------------------------------------
def _lax_prod(x: Any, axes: tuple[str, ...]) -> Any:
    """There is no lax.pprod. The sum of one rank's product has the type that a psum has: the same
    on all ranks."""
    product = lax.all_gather(x, axes).prod(axis=0, dtype=x.dtype)
    return lax.psum(jnp.where(lax.axis_index(axes) == 0, product, jnp.zeros_like(product)), axes)


def _lax_all_reduce(x: Any, axes: tuple[str, ...], op: str) -> Any:
    by = {"sum": lax.psum, "avg": lax.pmean, "max": lax.pmax, "min": lax.pmin, "prod": _lax_prod}
    return by[op](x, axes)


# ---- the primitive -------------------------------------------------------------------------------
# inner, inner_params: the jax.lax primitive that stands in its place, with its parameters
all_reduce_p = Primitive("symtuner_all_reduce")


def _params_of(inner_params: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return dict(inner_params)


@all_reduce_p.def_effectful_abstract_eval
def _abstract(x: Any, *, op: str, axes: tuple[str, ...], inner: Any, inner_params: Any) -> Any:
    return inner.abstract_eval(x, **_params_of(inner_params))


def _jvp(primals: Any, tangents: Any, *, op: str, **params: Any) -> Any:
    (x,), (t,) = primals, tangents  # never a zero tangent: then JAX does not ask
    out = all_reduce_p.bind(x, op=op, **params)
    if op not in _LINEAR:
        raise NotImplementedError(
            f"symtuner.all_reduce(op={op!r}) has no derivative; sum and avg have"
        )
    return out, all_reduce_p.bind(t, op=op, **params)


def _transpose(
    ct: Any, x: Any, *, op: str, axes: tuple[str, ...], inner: Any, inner_params: Any
) -> Any:
    if type(ct) is ad.Zero:
        return (ad.Zero(x.aval),)
    if inner.name == "psum":  # its transpose is another sum
        return (all_reduce_p.bind(ct, op=op, axes=axes, inner=inner, inner_params=inner_params),)
    if op == "avg":
        ct = ct / _size_of(axes)
    return ad.primitive_transposes[inner](ct, x, **_params_of(inner_params))


def _batch(args: Any, dims: Any, **params: Any) -> Any:
    return all_reduce_p.bind(*args, **params), dims[0]


ad.primitive_jvps[all_reduce_p] = _jvp
ad.primitive_transposes[all_reduce_p] = _transpose
batching.primitive_batchers[all_reduce_p] = _batch


# ---- lowering ------------------------------------------------------------------------------------
def _rows(mesh: Any, axes: tuple[str, ...], devices: Any) -> list[list[Any]]:
    """The entries of ``devices``, one for each device of the mesh, group by group in the order of
    ranks."""
    order = [mesh.axis_names.index(a) for a in axes]
    rest = [i for i in range(devices.ndim) if i not in order]
    ranks = int(np.prod([devices.shape[i] for i in order]))
    return devices.transpose(rest + order).reshape(-1, ranks).tolist()


def _open_groups(ctx: Any, axes: tuple[str, ...]) -> tuple[dict[str, Any], bool]:
    """Open the groups of this process; the attributes that tell the handler about all of them, and
    whether any group spans processes."""
    mesh = getattr(ctx.module_context.axis_context, "mesh", None)
    if mesh is None or not hasattr(mesh, "devices"):
        raise SymtunerError(
            "the devices are not known while the program is lowered; give shard_map a "
            "jax.sharding.Mesh, or use jax.set_mesh"
        )
    try:
        rows = _rows(mesh, axes, mesh.devices)
    except ValueError:
        raise SymtunerError(
            "the mesh has no devices yet; give shard_map a jax.sharding.Mesh, or use jax.set_mesh"
        ) from None
    said = {
        "ranks": np.int32(len(rows[0])),
        "groups": np.array([[d.id for d in row] for row in rows], dtype=np.int64).reshape(-1),
    }
    across = any(spans_processes(row) for row in rows)
    if rows[0][0].platform != "gpu":  # the program is lowered for a machine elsewhere
        return said, across
    # asked on every process, whatever rows it has: all must lower the same program
    xla = all(spans_processes(row) for row in rows) and _xla.use()
    for row in rows:
        open_for(row, xla)
    if xla:  # XLA counts in places, and psum is lowered with these
        places = np.arange(mesh.devices.size).reshape(mesh.devices.shape)
        said["flat"] = np.array(_rows(mesh, axes, places), dtype=np.int64).reshape(-1)
    return said, across


def _lower_lax(ctx: Any, x: Any, *, op: str, axes: tuple[str, ...], **_: Any) -> Any:
    def reference(v: Any) -> Any:
        return _lax_all_reduce(v, axes, op)

    return mlir.lower_fun(reference, multiple_results=False)(ctx, x)


def _lower_cuda(ctx: Any, x: Any, *, op: str, axes: tuple[str, ...], **params: Any) -> Any:
    try:  # groups first: a process without the library says so to those that wait for it there
        said, across = _open_groups(ctx, axes)
        library = load()
    except SymtunerError as e:
        _warn(str(e))
        return _lower_lax(ctx, x, op=op, axes=axes)
    aval = ctx.avals_in[0]
    target = library.target(aval.size * aval.dtype.itemsize, across)
    return jax.ffi.ffi_lowering(target)(ctx, x, op=np.int32(OPS[op]), **said)


def _lower_other(ctx: Any, x: Any, **params: Any) -> Any:
    _warn(f"the program is for {', '.join(ctx.module_context.platforms)}, not for CUDA")
    return _lower_lax(ctx, x, **params)


mlir.register_lowering(all_reduce_p, _lower_other)
mlir.register_lowering(all_reduce_p, _lower_cuda, platform="cuda")


# ---- the function --------------------------------------------------------------------------------
def _size_of(axes: tuple[str, ...]) -> int:
    return lax.psum(1, axes)


def _why_not(leaf: Any, axes: tuple[str, ...], op: str) -> str | None:
    mesh = jax.sharding.get_abstract_mesh()
    if not set(axes) <= set(mesh.axis_names if mesh is not None else ()):
        return f"axis {axes!r} is not an axis of jax.shard_map's mesh"
    if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        return f"{leaf.dtype} is no type of numbers"
    name = np.dtype(leaf.dtype).name
    if name not in _DTYPES:
        return f"NCCL has no data type {name}"
    if name.startswith("complex") and op not in _LINEAR:
        return f"{name} has no {op}"
    return None


def _replace(leaf: Any, axes: tuple[str, ...], op: str) -> Any:
    """Run jax.lax's trace of the call with our primitive in place of its reduction."""
    like = {"max": lax.pmax, "min": lax.pmin}.get(op, lax.psum)
    closed = jax.make_jaxpr(lambda v: like(v, axes))(leaf)
    env = dict(zip(closed.jaxpr.invars, [leaf]))
    env.update(zip(closed.jaxpr.constvars, closed.consts))

    def read(v: Any) -> Any:
        return v.val if hasattr(v, "val") else env[v]

    for eqn in closed.jaxpr.eqns:
        args = [read(v) for v in eqn.invars]
        if eqn.primitive.name in _REDUCTIONS:
            params = tuple(sorted(eqn.params.items()))
            outs = [
                all_reduce_p.bind(
                    args[0], op=op, axes=axes, inner=eqn.primitive, inner_params=params
                )
            ]
        else:
            outs = eqn.primitive.bind(*args, **eqn.params)
            outs = outs if eqn.primitive.multiple_results else [outs]
        env.update(zip(eqn.outvars, outs))
    return read(closed.jaxpr.outvars[0])


def _one(leaf: Any, axes: tuple[str, ...], op: str) -> Any:
    if not isinstance(leaf, jax.core.Tracer):
        return _lax_all_reduce(leaf, axes, op)  # a constant: no communication
    if leaf.dtype == np.bool_ and op in ("sum", "avg", "prod"):
        leaf = leaf.astype(np.int32)  # as psum
    why = _why_not(leaf, axes, op)
    if why is not None:
        _warn(why)
        return _lax_all_reduce(leaf, axes, op)
    if op == "avg" and not np.issubdtype(leaf.dtype, np.inexact) and leaf.dtype.kind in "iu":
        return _replace(leaf, axes, "sum") / _size_of(axes)  # as pmean
    return _replace(leaf, axes, op)


def all_reduce(x: Any, axis_name: str | Sequence[str], op: str = "sum") -> Any:
    """Reduce each leaf of ``x`` over the mesh axis (or axes) ``axis_name``, within
    ``jax.shard_map``.

    ``op`` is "sum" (lax.psum), "avg" (lax.pmean), "max", "min" or "prod". float32 is rounded
    once, however many devices there are; smaller floats are added in float32 and rounded to their
    type once. Every result is the same on every device, bit by bit. Derivatives and vmap are those
    of the jax.lax function. Where the kernels cannot run, the jax.lax function runs instead and one
    warning says why.
    """
    if op not in OPS:
        raise ValueError(f"op={op!r} is unknown; write one of {', '.join(OPS)}")
    axes = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    return jax.tree_util.tree_map(lambda leaf: _one(leaf, axes, op), x)

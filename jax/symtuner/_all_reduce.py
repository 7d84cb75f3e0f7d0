# SPDX-License-Identifier: Apache-2.0
"""all_reduce: psum, pmean, pmax and pmin of jax.lax, and a product, run by our kernels on GPUs.

We trace the jax.lax function that the call replaces (psum for op="sum"). In that trace we put a
primitive of our own in place of the reduction. So types, varying axes, constants, bools and vmapped
axis names are handled by the jax.lax of the installed release. Only the lowering is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import jax
from jax import lax

from . import _buckets, _lowering, _presence, _say, _xla
from ._groups import open_rows, spans_processes
from ._library import COLLS, SymtunerError, idle, load
from ._lowering import Groups

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}  # numbers of ncclRedOp_t
_LINEAR = ("sum", "avg")
_DTYPES = frozenset(
    "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16 "
    "float8_e4m3fn float8_e5m2 complex64 complex128".split()
)
_REDUCTIONS = ("psum", "psum2", "psum_invariant", "unreduced_psum", "pmax", "pmin")
Axes = tuple[Any, ...]  # as in jax.lax.psum: names of axes, and numbers of the array's own axes


# ---- by jax.lax ----------------------------------------------------------------------------------
def _lax_prod(x: Any, axes: Axes, *, axis_index_groups: Groups) -> Any:
    """Return the product over the ranks, for which jax.lax has no function. Each rank computes the
    product of the gathered values, but JAX does not know that these products are equal. So only the
    first rank of a group puts its product into a last psum, and the others put in zeros: JAX knows
    that the result of a psum is the same on all ranks."""
    firsts = [0] if axis_index_groups is None else [group[0] for group in axis_index_groups]
    product = lax.all_gather(x, axes, axis_index_groups=axis_index_groups)
    product = product.prod(axis=0, dtype=x.dtype)
    is_first = jnp.isin(lax.axis_index(axes), jnp.array(firsts))
    only = jnp.where(is_first, product, jnp.zeros_like(product))
    return lax.psum(only, axes, axis_index_groups=axis_index_groups)


def _lax_all_reduce(x: Any, axes: Axes, op: str, groups: Groups) -> Any:
    by = {"sum": lax.psum, "avg": lax.pmean, "max": lax.pmax, "min": lax.pmin, "prod": _lax_prod}
    return by[op](x, axes, axis_index_groups=groups)


# ---- the primitive -------------------------------------------------------------------------------
# Our primitive's parameter "inner" is the jax.lax primitive that it replaces. Its parameter
# "inner_params" has the parameters of that jax.lax primitive.
all_reduce_p = Primitive("symtuner_all_reduce")
_lowering.NEEDS_DEVICES.add(all_reduce_p)


def _params_of(inner_params: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return dict(inner_params)


@all_reduce_p.def_effectful_abstract_eval
def _abstract(x: Any, *, inner: Any, inner_params: Any, **_: Any) -> Any:
    return inner.abstract_eval(x, **_params_of(inner_params))


def _jvp(primals: Any, tangents: Any, *, op: str, **params: Any) -> Any:
    (x,), (t,) = primals, tangents  # JAX does not call this for a zero tangent
    out = all_reduce_p.bind(x, op=op, **params)
    if op not in _LINEAR:
        raise NotImplementedError(
            f"symtuner.all_reduce(op={op!r}) has no derivative; only sum and avg have one"
        )
    return out, all_reduce_p.bind(t, op=op, **params)


def _transpose(ct: Any, x: Any, **params: Any) -> Any:
    if type(ct) is ad.Zero:
        return (ad.Zero(x.aval),)
    inner = params["inner"]
    if inner.name == "psum":  # the transpose of a sum is another sum
        return (all_reduce_p.bind(ct, **params),)
    if params["op"] == "avg":
        ct = ct / _size_of(params["axes"], params["groups"])
    return ad.primitive_transposes[inner](ct, x, **_params_of(params["inner_params"]))


def _batch(args: Any, dims: Any, **params: Any) -> Any:
    return all_reduce_p.bind(*args, **params), dims[0]


ad.primitive_jvps[all_reduce_p] = _jvp
ad.primitive_transposes[all_reduce_p] = _transpose
batching.primitive_batchers[all_reduce_p] = _batch


# ---- lowering ------------------------------------------------------------------------------------
def _open_groups(
    ctx: Any, axes: tuple[str, ...], groups: Groups, by_name: bool
) -> tuple[dict[str, Any], bool]:
    """Open the groups that have a device of this process. Returns the attributes of the custom call
    that describe all groups, and whether any group spans processes."""
    try:
        rows, places = _lowering.rows(ctx, axes, groups)
    except (AttributeError, TypeError, ValueError) as e:  # JAX's internals differ in this release
        raise SymtunerError(f"the devices of the groups cannot be found out: {e!r}") from e
    said = {
        "ranks": np.int32(len(rows[0])),
        "groups": np.array([[d.id for d in row] for row in rows], dtype=np.int64).reshape(-1),
    }
    across = any(spans_processes(row) for row in rows)
    if rows[0][0].platform != "gpu":  # jax.export lowers for the GPUs of another machine
        return said, across
    # call use() on every process, also on one without a device of these groups, because all
    # processes must lower the same program
    xla = all(spans_processes(row) for row in rows) and _xla.use()
    open_rows(rows, xla, by_name)
    if xla:  # XLA's communicators name a device by its position in the program's list
        said["flat"] = np.array(places, dtype=np.int64)
    return said, across


def _lower_lax(ctx: Any, x: Any, *, op: str, axes: Axes, groups: Groups, **_: Any) -> Any:
    def reference(v: Any) -> Any:
        return _lax_all_reduce(v, axes, op, groups)

    return mlir.lower_fun(reference, multiple_results=False)(ctx, x)


def custom_call(
    ctx: Any,
    x: Any,
    op: str,
    axes: Axes,
    groups: Groups,
    coll: str = "all_reduce",
    by_name: bool = False,
    **layouts: Any,
) -> tuple[Any, str]:
    """Lower one collective to our custom call. ``by_name``: the program calls all_reduce().
    ``layouts`` go to jax.ffi.ffi_lowering. Returns the result and the name of the call's target.
    Raises SymtunerError if the groups cannot be opened or the library cannot be loaded."""
    # call _open_groups() before load(). Both raise an error if there is no library. But only
    # _open_groups() tells the other processes, which would otherwise wait for this one
    said, across = _open_groups(ctx, axes, groups, by_name)
    aval = ctx.avals_in[0]
    size = aval.size * aval.dtype.itemsize
    target = load().target(size, across, "flat" in said, _lowering.compiler_options(), coll)
    if coll != "all_reduce":
        said["coll"] = np.int32(list(COLLS).index(coll))
    lower = jax.ffi.ffi_lowering(target, **layouts)
    return lower(ctx, x, op=np.int32(OPS[op]), **said), target


def _lower_cuda(ctx: Any, x: Any, *, op: str, axes: Axes, groups: Groups, **_: Any) -> Any:
    where = _say.line_of(ctx)
    try:
        if why := idle():
            _presence.say()
            raise SymtunerError(why)
        out, target = custom_call(ctx, x, op, axes, groups, by_name=True)
    except SymtunerError as e:
        _say.falls_back(str(e), where)
        return _lower_lax(ctx, x, op=op, axes=axes, groups=groups)
    if getattr(ctx.module_context.lowering_parameters, "for_export", False):
        _say.exported(target, where)
    return out


def _lower_other(ctx: Any, x: Any, **params: Any) -> Any:
    platforms = ", ".join(ctx.module_context.platforms)
    _say.falls_back(f"the program is for {platforms}, not for CUDA", _say.line_of(ctx))
    return _lower_lax(ctx, x, **params)


mlir.register_lowering(all_reduce_p, _lower_other)
mlir.register_lowering(all_reduce_p, _lower_cuda, platform="cuda")


# ---- the function --------------------------------------------------------------------------------
def _size_of(axes: Axes, groups: Groups = None) -> int:
    return lax.psum(1, axes, axis_index_groups=groups)


def _why_not(leaf: Any, axes: Axes, op: str, groups: Groups) -> str | None:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        return f"{leaf.dtype} is not a type of numbers"
    name = np.dtype(leaf.dtype).name
    if name not in _DTYPES:
        return f"NCCL has no data type {name}"
    if name.startswith("complex") and op not in _LINEAR:
        return f"{name} has no {op}"
    if groups is not None and sorted(i for g in groups for i in g) != list(range(_size_of(axes))):
        return "axis_index_groups does not have each index of the axis once"
    if groups is not None and len({len(group) for group in groups}) > 1:
        return "the groups of axis_index_groups have different sizes"
    return None


def _replace(leaf: Any, axes: Axes, op: str, groups: Groups) -> Any:
    """Trace the jax.lax collective and run the trace with our primitive in place of its
    reduction."""
    like = {"max": lax.pmax, "min": lax.pmin}.get(op, lax.psum)
    closed = jax.make_jaxpr(lambda v: like(v, axes, axis_index_groups=groups))(leaf)
    env = dict(zip(closed.jaxpr.invars, [leaf]))
    env.update(zip(closed.jaxpr.constvars, closed.consts))
    names = [eqn.primitive.name for eqn in closed.jaxpr.eqns]

    def read(v: Any) -> Any:
        return v.val if hasattr(v, "val") else env[v]

    if op not in _LINEAR and "unreduced_psum" in names:
        raise ValueError(f"unreduced values are to be added up; op={op!r} does not")
    if names and not set(names) & set(_REDUCTIONS):
        _say.falls_back(f"this jax reduces by {', '.join(names)}, which is not known here")
        return _lax_all_reduce(leaf, axes, op, groups)
    for eqn in closed.jaxpr.eqns:
        args = [read(v) for v in eqn.invars]
        if eqn.primitive.name in _REDUCTIONS:
            params = tuple(sorted(eqn.params.items()))
            more = {"inner": eqn.primitive, "inner_params": params}
            outs = [all_reduce_p.bind(args[0], op=op, axes=axes, groups=groups, **more)]
        else:
            outs = eqn.primitive.bind(*args, **eqn.params)
            outs = outs if eqn.primitive.multiple_results else [outs]
        env.update(zip(eqn.outvars, outs))
    return read(closed.jaxpr.outvars[0])


def _within(leaf: Any, axes: Axes, op: str) -> Any:
    """Reduce over the axes that need no other device: those of the array itself and those of
    jax.vmap. For an average this only adds up, and the caller divides."""
    own = tuple(a for a in axes if isinstance(a, int))
    vmapped = tuple(a for a in axes if not isinstance(a, int))
    by = {"sum": jnp.sum, "avg": jnp.sum, "max": jnp.max, "min": jnp.min, "prod": jnp.prod}
    if own:
        leaf = by[op](leaf, axis=own).astype(leaf.dtype)
    if vmapped:
        leaf = _lax_all_reduce(leaf, vmapped, "sum" if op == "avg" else op, None)
    return leaf


def _one(leaf: Any, axes: Axes, op: str, groups: Groups) -> Any:
    mesh = jax.sharding.get_abstract_mesh()
    between = tuple(a for a in axes if a in (mesh.axis_names if mesh is not None else ()))
    within = tuple(a for a in axes if a not in between)
    asks_lax = within and (groups is not None or (op == "avg" and not between))
    if not isinstance(leaf, jax.core.Tracer) or asks_lax:
        return _lax_all_reduce(leaf, axes, op, groups)  # no Tracer: a constant, which stays local
    if leaf.dtype == np.bool_ and op in ("sum", "avg", "prod"):
        leaf = leaf.astype(np.int32)  # lax.psum also converts bools
    if within:
        leaf = _within(leaf, within, op)
    if not between:
        return leaf
    why = _why_not(leaf, between, op, groups)
    if why is not None:
        _say.falls_back(why)
    integers = not np.issubdtype(leaf.dtype, np.inexact) and leaf.dtype.kind in "iu"
    reduce = _replace if why is None else _lax_all_reduce
    if op == "avg" and (within or (integers and why is None)):
        # divide the sum by the number of terms, as lax.pmean does
        return reduce(leaf, between, "sum", groups) / _size_of(axes, groups)
    return reduce(leaf, between, op, groups)


def _may_join(leaf: Any, axes: Axes, op: str, groups: Groups) -> bool:
    """May the leaf be reshaped and share a call with others? It may if our kernels reduce it, if
    all axes are axes of the mesh, and if XLA does not partition the program over other axes.

    If SYMTUNER_MODE is not steer, this process does not need our kernels. If it is the only
    process, it then joins no leaves. If there are other processes, it joins leaves all the same:
    the others may use our kernels, and all processes must trace the same program."""
    mesh = jax.sharding.get_abstract_mesh()
    if not isinstance(leaf, jax.core.Tracer) or leaf.dtype == np.bool_:
        return False
    if idle() and not _presence.has_others():
        return False
    if set(mesh.axis_names) != set(getattr(mesh, "manual_axes", ())) or not set(axes) <= set(
        mesh.axis_names
    ):
        return False
    return _why_not(leaf, axes, op, groups) is None


def all_reduce(
    x: Any,
    axis_name: Any,
    op: str = "sum",
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Any:
    """Reduce each leaf of ``x`` over ``axis_name`` (or several, as a tuple), within
    ``jax.shard_map``.

    ``op`` is "sum" (lax.psum), "avg" (lax.pmean), "max", "min" or "prod". Axes and
    ``axis_index_groups`` are those of the jax.lax function. Our kernels reduce over axes of the
    mesh, and jax.lax reduces over all other axes. A sum of float32 is rounded once, however many
    devices there are. Smaller floats are added in float32, and the sum is rounded to their type
    once. Every result has the same bits on every device. Derivatives and vmap behave as for the
    jax.lax function. Small leaves of one type share calls, which changes no bit of the results.
    Where our kernels cannot run, the jax.lax function runs instead, and one warning says why.
    """
    if op not in OPS:
        raise ValueError(f"op={op!r} is unknown; write one of {', '.join(OPS)}")
    axes = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    groups = None
    if axis_index_groups is not None:
        groups = tuple(tuple(int(i) for i in group) for group in axis_index_groups)
    leaves, tree = jax.tree_util.tree_flatten(x)
    done = _buckets.reduce_all(
        leaves,
        lambda leaf: _one(leaf, axes, op, groups),
        lambda leaf: _may_join(leaf, axes, op, groups),
    )
    return jax.tree_util.tree_unflatten(tree, done)

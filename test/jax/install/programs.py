# SPDX-License-Identifier: Apache-2.0
"""Random programs with collectives of jax.lax, and functions that say what a lowered program
consists of."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

# each row: the shape of a mesh, its axes, and groups of indices of its first axis to choose from
_SHAPES = (
    ((4,), ("i",), ([[0, 1], [2, 3]], [[0, 3], [2, 1]], [[3, 1, 0, 2]])),
    ((2,), ("i",), ([[1, 0]],)),
    ((3,), ("i",), ([[2, 0, 1]],)),
    ((2, 2), ("i", "j"), ([[0, 1]],)),
)
_FLOATS = ("float32", "float64", "bfloat16", "float16")
ROUNDED = _FLOATS + ("complex64",)
_TYPES = _FLOATS + ("int32", "int64", "uint32", "int8", "int16", "complex64", "bool")
CUT = ("all_gather", "psum_scatter")
KEPT = ("i16", "i1")  # NCCL lacks these types, so XLA's all-reduce stays


# The tolerance by type. Devices may add up in any order; on the CPU, XLA's devices add in the order
# in which they come. Only whole numbers have the same sums in any order, as long as the type holds
# them.
_ROUNDS = {"float64": 1e-13, "float32": 1e-5, "bfloat16": 0.06, "float16": 0.01, "complex64": 1e-5}


def same(a, b, tolerance=0.0, least=0.0):
    """Are these equal up to rounding? A difference of ``least`` is always allowed."""
    a, b = np.asarray(a), np.asarray(b)
    wide = a.astype(np.complex128), b.astype(np.complex128)
    return a.dtype == b.dtype and np.allclose(*wide, rtol=tolerance, atol=least, equal_nan=True)


class Program:
    """A random program. The same number always gives the same program."""

    def __init__(self, number):
        self.number = number
        self.rng = np.random.default_rng(number)
        fit = [mesh for mesh in _SHAPES if np.prod(mesh[0]) <= len(jax.devices())]
        shape, names, groups = self.one(fit)
        devices = np.array(jax.devices()[: int(np.prod(shape))])
        if self.rng.random() < 0.4:
            devices = self.rng.permutation(devices)
        self.mesh = Mesh(devices.reshape(shape), names)
        self.names, self.vma = names, bool(self.rng.random() < 0.5)
        self.pmap = len(names) == 1 and self.rng.random() < 0.15
        self.type = str(self.one(_TYPES))
        self.groups = None
        if not self.vma and self.rng.random() < 0.3:
            self.groups = self.one(groups)
        self.exact = self.rng.random() < 0.5  # whole numbers, whose sums are exact
        self.cut_axes = self._axes()  # the axes of all reduce-scatters and all-gathers
        # for these collectives: whether they are tiled, their dimension, and the rank whose part is
        # special
        self.tiled, self.cut, self.place = self.rng.integers(0, (2, 3, 12)).tolist()
        self.plan = []
        for _ in range(self.rng.integers(1, 4)):
            reduction, around = self.one(self._reductions()), self.one(self._around())
            axes = self.cut_axes if reduction in CUT else self._axes()
            self.plan.append((reduction, around, axes))
        self.shape = tuple(int(n) for n in self.rng.integers(1, 5, self.rng.integers(1, 3)))
        self.grad = self.type in _FLOATS and self._is_linear() and self.rng.random() < 0.6

    def one(self, among):
        return among[self.rng.integers(len(among))]

    def _reductions(self):
        return {
            "complex64": ("psum", "pmean", *CUT),
            "bool": ("pmax", "pmin", "psum", "all_gather"),
        }.get(self.type, ("psum", "psum", "pmean", "pmax", "pmin", *CUT, *CUT))

    def _around(self):
        return ("plain", "plain", "scan", "remat", "cond", "vmap", "while", "jit")

    def _axes(self):
        if self.groups is not None:
            return self.names[0]
        return self.one([*self.names, tuple(self.names), tuple(reversed(self.names))])

    def _is_linear(self):
        return all(reduction in ("psum", "pmean", *CUT) for reduction, _, _ in self.plan)

    def tolerance(self):
        exact = self.exact and self.type not in ("bfloat16", "float16")
        return 0.0 if exact else _ROUNDS.get(self.type, 0.0)

    def in_order(self):
        """Are the ranks of all reduce-scatters and all-gathers in the order of the devices' ids?"""
        axes = self.cut_axes if isinstance(self.cut_axes, tuple) else (self.cut_axes,)
        ids = np.array([d.id for d in self.mesh.devices.flat]).reshape(self.mesh.devices.shape)
        last = [self.names.index(a) for a in axes]
        rows = ids.transpose([i for i in range(ids.ndim) if i not in last] + last)
        rows = rows.reshape(-1, self._ranks(None))
        rows = [row[group] for row in rows for group in self.groups or [slice(None)]]
        return all((np.diff(row) > 0).all() for row in rows)

    def _ranks(self, groups):
        axes = self.cut_axes if isinstance(self.cut_axes, tuple) else (self.cut_axes,)
        return len(groups[0]) if groups else int(np.prod([self.mesh.shape[a] for a in axes]))

    def _gather(self, v, more):
        """Gather, and take one rank's part, so that a wrong order gives a wrong value."""
        tiled, place = self.tiled and v.ndim > 0, self.place % self._ranks(self.groups)
        at = self.cut % (v.ndim + (not tiled))
        all_parts = lax.all_gather(v, self.cut_axes, axis=at, tiled=bool(tiled), **more)
        if not tiled:
            return lax.index_in_dim(all_parts, place, at, keepdims=False)
        n = v.shape[at]
        return lax.slice_in_dim(all_parts, place * n, (place + 1) * n, axis=at)

    def _scatter(self, v, more):
        """Sum up parts, of which one is twice as large, so that a wrong order gives a wrong
        value."""
        tiled, ranks = self.tiled and v.ndim > 0, self._ranks(self.groups)
        at = self.cut % (v.ndim + (not tiled))
        parts = [v + v if r == self.place % ranks else v for r in range(ranks)]
        x = jnp.concatenate(parts, at) if tiled else jnp.stack(parts, at)
        return lax.psum_scatter(
            x, self.cut_axes, scatter_dimension=at, tiled=bool(tiled), **more
        )

    def _reduce(self, reduction, axes, v):
        more = {} if self.groups is None else {"axis_index_groups": self.groups}
        if reduction in CUT:
            return self._gather(v, more) if reduction == "all_gather" else self._scatter(v, more)
        out = getattr(lax, reduction)(v, axes, **more)
        return _vary(out, axes) if self.vma and not self.pmap else out

    def _step(self, reduction, around, axes, flag, v):
        def f(u):
            twice = u if u.dtype.kind == "b" or reduction in CUT else u + u
            if not self.exact and self.type in ROUNDED:
                twice = jnp.sin(twice)
            return self._reduce(reduction, axes, twice).astype(u.dtype)

        if around == "scan":
            return lax.scan(lambda c, _: (f(c), None), v, None, length=2)[0]
        if around == "while":
            return lax.fori_loop(0, 2, lambda _, c: f(c), v)
        if around == "remat":
            return jax.checkpoint(f)(v)
        if around == "jit":
            return jax.jit(f)(v) if self.vma else f(f(v))
        if around == "vmap":
            return jax.vmap(f)(v)
        if around == "cond":
            return lax.cond(flag > 0, f, lambda u: u, v)
        return f(v)

    def _body(self, flag, v):
        for reduction, around, axes in self.plan:
            if self.grad and around == "while":
                around = "scan"  # a scan has a derivative, a while loop has none
            if reduction == "psum_scatter" and around == "vmap":
                around = "plain"  # with vmap, jax 0.10.2 loses the batch dimension
            v = self._step(reduction, around, axes, flag, v)
        return v

    def function(self):
        """Return a function that can be jitted, and its arguments."""
        body = self._body
        if self.grad:

            def body(flag, v):
                loss = lambda u: self._body(flag, u).astype(jnp.float32).sum()
                return jax.grad(loss)(v)

        each = (self.mesh.devices.size, *self.shape)
        if self.exact or self.type not in ROUNDED:
            x = self.rng.integers(0, 3, each)
        else:
            x = self.rng.uniform(-1, 1, each)
        x = np.asarray(x).astype(jnp.dtype(self.type))
        if self.pmap:
            if self.mesh.devices.size != len(jax.devices()):
                devices = list(self.mesh.devices.flat)
            else:
                devices = None
                self.mesh = Mesh(np.array(jax.devices()), self.names)
            f = jax.pmap(body, axis_name=self.names[0], in_axes=(None, 0), devices=devices)
            return f, (np.int32(1), x)
        spec = P(self.names)

        def local(flag, v):
            return body(flag, v[0])[None]

        f = jax.shard_map(
            local, mesh=self.mesh, in_specs=(P(), spec), out_specs=spec, check_vma=self.vma
        )
        return jax.jit(f), (np.int32(1), x)


def _vary(v, axes):
    """Give ``v`` the type of values that vary over the axes, as the values before a sum do. A sum
    is the same on all devices, and JAX's type says so."""
    axes = axes if isinstance(axes, tuple) else (axes,)
    cast = getattr(lax, "pcast", None)
    return cast(v, axes, to="varying") if cast else lax.pvary(v, axes)


def operations(lowered):
    """Yield all operations of a lowered program."""

    def within(operation):
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    yield inner
                    yield from within(inner.operation)

    return within(lowered.compiler_ir("stablehlo").operation)


def reductions(f, args):
    """Lower for CUDA. Return XLA's collectives, sorted, such as "all_reduce f32", and the number of
    our calls."""
    f = f if hasattr(f, "trace") else jax.jit(f)  # what jax.pmap returns has trace()
    lowered = f.trace(*args).lower(lowering_platforms=("cuda",))
    left, ours = [], 0
    for op in operations(lowered):
        name = op.operation.name.removeprefix("stablehlo.")
        if name in ("all_reduce", "reduce_scatter", "all_gather"):
            left.append(f"{name} {op.operation.results[0].type.element_type}")
        elif name == "custom_call":
            ours += "symtuner_" in str(op.operation.attributes["call_target_name"])
    return sorted(left), ours

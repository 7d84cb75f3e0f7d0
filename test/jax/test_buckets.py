#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that small leaves of a pytree share calls of symtuner.all_reduce."""

import sys

import test_all_reduce as base  # must be first: it sets up jax
from test_all_reduce import LINE, SQUARE, for_cuda, smap

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

import symtuner
from symtuner import _buckets


def test_small_leaves_share_calls():
    """Small leaves of one type share one call, up to its length limit. Values and gradients are the
    same as with a call for each leaf."""
    rng = np.random.default_rng(0)
    sizes = [(3,), (2, 5), (), (7, 1), (1 << 14,), (1 << 16,), (0,), (4,)]
    whole = [rng.integers(-9, 9, (4, *s)) for s in sizes]
    tree = [x.astype(t) for t in ("float32", "int32") for x in whole] + [np.ones((4, 3), bool)]
    reduce = lambda how: lambda leaves: how([leaf[0] for leaf in leaves])
    each = lambda leaves: [symtuner.all_reduce(leaf, "i") for leaf in leaves]
    together = lambda leaves: symtuner.all_reduce(leaves, "i")
    for vma in (False, True):
        f, g = (smap(reduce(how), outs=P(), vma=vma) for how in (together, each))
        # each type has a call for its bucket, its long leaf and its empty leaf; the bools have one
        # call
        assert len(for_cuda(f, tree)) == 7 and len(for_cuda(g, tree)) == 17, for_cuda(f, tree)
        for a, b in zip(f(tree), g(tree), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        loss = lambda how: lambda v: sum((x * x).sum() for x in reduce(how)([v, v * 2, v * 3]))
        v = np.arange(8, dtype=np.float32).reshape(4, 2)
        got, want = (smap(jax.grad(loss(how)), vma=vma)(v) for how in (together, each))
        assert got.tobytes() == want.tobytes()
    pair = lambda a, b: symtuner.all_reduce([a, b], "i")
    # two leaves are too few for a bucket
    assert len(for_cuda(smap(pair, ins=P(), outs=P()), v, v)) == 2
    f = lambda leaves: jax.vmap(together)(leaves)
    assert len(for_cuda(smap(f), [np.ones((8, 2), np.float32)] * 3)) == 1
    most, _buckets.MOST = _buckets.MOST, 40
    try:
        assert len(for_cuda(smap(together), [np.ones(4, np.float32)] * 25)) == 3
    finally:
        _buckets.MOST = most


def test_leaves_that_vary_over_other_axes():
    """JAX knows that the sums of the first three leaves are the same on all devices. It must still
    know this if the leaves share a call."""
    one, both = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    f = smap(
        lambda a, b: symtuner.all_reduce([a, 2 * a, 3 * a, b, 2 * b, 3 * b], "i"),
        SQUARE,
        ins=(P("i"), P(("i", "j"))),
        outs=[P()] * 3 + [P("j")] * 3,
        vma=True,
    )
    assert len(for_cuda(f, one, both)) == 2
    assert [float(x.sum()) for x in f(one, both)] == [6, 12, 18, 12, 24, 36]


def test_what_does_not_share_calls():
    """Constants, axes of the array or of vmap, and programs that XLA also partitions do not share
    calls."""
    x = np.ones((4, 4), np.float32)
    three = lambda f: lambda v: f([v, v + 1, v + 2])
    calls = lambda f, mesh=LINE, **more: len(for_cuda(smap(three(f), mesh, **more), x))
    assert calls(lambda t: symtuner.all_reduce(t, ("i", 0))) == 3
    both = lambda t: jax.vmap(lambda u: symtuner.all_reduce(u, ("i", "v")), axis_name="v")(t)
    assert calls(both) == 3
    assert calls(lambda t: symtuner.all_reduce([1.0, 2.0, 3.0, *t], "i")[3:]) == 1
    outer = dict(in_specs=P("i"), out_specs=P("i"), axis_names={"i"}, check_vma=False)
    partly = jax.shard_map(three(lambda t: symtuner.all_reduce(t, "i")), mesh=SQUARE, **outer)
    assert len(for_cuda(jax.jit(partly), x)) == 3


if __name__ == "__main__":
    sys.exit(base.main(globals()))

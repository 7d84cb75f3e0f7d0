# SPDX-License-Identifier: Apache-2.0
"""Put small leaves of a pytree into few calls. Leaves that share a call are a bucket.

Every call takes at least a few microseconds, however few bytes it has. XLA's combiner joins the
psums of several leaves, but it does not see our calls, so we join the leaves here. Our kernels
compute the same result for an element wherever it is in the data of a call. So a leaf has the same
result in a bucket as in a call of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

# Leaves of up to SMALL bytes share calls of up to MOST bytes. XLA copies the leaves to join them,
# and copies the result to split it. Fewer than LEAST leaves are not joined, because these copies
# take time. The three values were chosen without a measurement.
SMALL = 64 << 10
MOST = 1 << 20
LEAST = 3


def _kind(leaf: Any) -> tuple[str, str, str]:
    """Return the leaf's kind: its type, and the axes over which it varies, as JAX tracks them.
    Leaves of different kinds cannot be in one array."""
    aval = leaf.aval
    return str(leaf.dtype), repr(getattr(aval, "vma", None)), repr(getattr(aval, "mat", None))


def _fill(leaves: Sequence[Any], may_join: Callable[[Any], bool]) -> list[list[int]]:
    """Return the buckets, each a list of indices into ``leaves``. A leaf that joins no others has a
    bucket of its own."""
    full: list[list[int]] = []
    open_now: dict[Any, tuple[list[int], int]] = {}
    for place, leaf in enumerate(leaves):
        size = leaf.size * leaf.dtype.itemsize if may_join(leaf) else 0
        if not 0 < size <= SMALL:
            full.append([place])
            continue
        bucket, held = open_now.get(_kind(leaf), ([], MOST))
        if held + size > MOST:
            bucket, held = [], 0
            full.append(bucket)
        bucket.append(place)
        open_now[_kind(leaf)] = bucket, held + size
    return full


def reduce_all(
    leaves: Sequence[Any], reduce: Callable[[Any], Any], may_join: Callable[[Any], bool]
) -> list[Any]:
    """Return ``reduce(leaf)`` of each leaf, with few calls of ``reduce``. ``reduce`` must compute
    each element from the same element of its argument. ``may_join(leaf)`` returns whether a leaf
    may be reshaped and share a call."""
    out: list[Any] = [None] * len(leaves)
    for bucket in _fill(leaves, may_join):
        if len(bucket) < LEAST:
            for place in bucket:
                out[place] = reduce(leaves[place])
            continue
        whole, at = reduce(jnp.concatenate([leaves[i].reshape(-1) for i in bucket])), 0
        for place in bucket:
            leaf = leaves[place]
            out[place] = whole[at : at + leaf.size].reshape(leaf.shape)
            at += leaf.size
    return out

# SPDX-License-Identifier: Apache-2.0
"""Where a program will run, found out while JAX lowers it: the devices of each group.

JAX gives a lowering rule less than it knows. What it keeps to itself is looked for in the frames of
its own functions on the stack; a release in which it has another name there gives no answer, and
then jax.lax runs, as it does where there is nothing to be found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._library import SymtunerError

Groups = tuple[tuple[int, ...], ...] | None  # axis_index_groups of jax.lax.psum


def _local(name: str) -> Iterator[Any]:
    """The local variables of that name, innermost function first."""
    frame = sys._getframe(1)
    while frame is not None:
        if name in frame.f_code.co_varnames:
            yield frame.f_locals.get(name)
        frame = frame.f_back


def _mesh_of(ctx: Any) -> Any:
    module = getattr(ctx, "module_context", None)
    return getattr(getattr(module, "axis_context", None), "mesh", None)


def _devices_of(mesh: Any) -> Any:
    """The mesh's array of devices; None: it is abstract, or none at all."""
    try:
        return mesh.devices
    except (AttributeError, ValueError):
        return None


def _mesh_and_devices(ctx: Any) -> tuple[Any, Any]:
    """A shard_map without a mesh of its own is lowered with an abstract one; the jax.shard_map
    around it, which is being lowered as well, knows the devices. Devices of the arguments are no
    answer: JAX uses what it has lowered once for other devices, too, when the mesh is abstract.
    """
    mesh = _mesh_of(ctx)
    if (devices := _devices_of(mesh)) is not None:
        return mesh, devices
    for outer in _local("ctx"):
        around = _mesh_of(outer)
        devices = _devices_of(around)
        if devices is not None and mesh is not None and around.axis_names == mesh.axis_names:
            return around, devices
    raise SymtunerError(
        "the devices are not known while the program is lowered; give jax.shard_map a "
        "jax.sharding.Mesh, or use jax.set_mesh"
    )


def rows(ctx: Any, axes: tuple[str, ...], groups: Groups) -> tuple[list[list[Any]], list[int]]:
    """The devices of each group, and all groups' places in the program's list of devices, one
    after the other.

    The order of ranks is that of the devices' ids: groups over the same devices are one group,
    whatever the order of the axes or of the mesh, with the same bits in every sum.
    """
    mesh, devices = _mesh_and_devices(ctx)
    order = [mesh.axis_names.index(a) for a in axes]
    rest = [i for i in range(devices.ndim) if i not in order]
    ranks = int(np.prod([devices.shape[i] for i in order]))
    places = np.arange(devices.size).reshape(devices.shape)
    made = places.transpose(rest + order).reshape(-1, ranks).tolist()
    if groups is not None:
        made = [[row[i] for i in group] for row in made for group in groups]
    flat = devices.reshape(-1).tolist()
    made = [sorted(row, key=lambda p: flat[p].id) for row in made]
    made.sort(key=lambda row: [flat[p].id for p in row])
    return [[flat[p] for p in row] for row in made], [p for row in made for p in row]


def compiler_options() -> dict[str, Any]:
    """What jax.jit was told besides XLA_FLAGS. Not all of it can be seen: JAX lowers a function
    once for all of its jits, and Lowered.compile() takes options when it is too late."""
    found: dict[str, Any] = {}
    for options in _local("compiler_options_kvs"):
        found.update(options or ())
    return found

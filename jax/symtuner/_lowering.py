# SPDX-License-Identifier: Apache-2.0
"""Find the devices of each group while JAX lowers a program.

JAX does not pass all that we need to a lowering rule. We look for the rest among the local
variables of JAX's functions on the stack. If a release of JAX gives these variables other names, or
if the devices are not known yet, jax.lax runs instead.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from ._library import SymtunerError

Groups = tuple[tuple[int, ...], ...] | None  # axis_index_groups of jax.lax.psum


def _locals(*names: str) -> Iterator[tuple[Any, ...]]:
    """For each function on the stack that has local variables of all these names, yield their
    values, innermost function first."""
    frame = sys._getframe(1)
    while frame is not None:
        if set(names) <= set(frame.f_code.co_varnames):
            yield tuple(frame.f_locals.get(name) for name in names)
        frame = frame.f_back


def _local(name: str) -> Iterator[Any]:
    """Yield the values of all local variables ``name`` on the stack, innermost function first."""
    return (value for (value,) in _locals(name))


# The primitives that we lower. JAX's own lowerings name no devices, so JAX lowers a function once
# for all meshes of one shape. Our lowerings name devices, so a function that contains one of these
# primitives must be lowered once for each list of devices.
NEEDS_DEVICES: set[Any] = set()


def _has_any(jaxpr: Any, primitives: set[Any]) -> bool:
    from jax._src import core

    todo, seen = [jaxpr], set()
    while todo:
        jaxpr = todo.pop()
        if id(jaxpr) in seen:  # a function that is called twice
            continue
        seen.add(id(jaxpr))
        if any(eqn.primitive in primitives for eqn in jaxpr.eqns):
            return True
        todo.extend(core.subjaxprs(jaxpr))
    return False


def _is_possible() -> bool:
    """Can the function that is lowered now be lowered for its own list of devices? JAX raises an
    error if the list is not known, or if the function has several meshes."""
    names = "device_assignment", "unique_in_shardings", "unique_out_shardings"
    for devices, *found in _locals(*names, "unique_intermediate_shardings"):
        shardings = [s[0] if isinstance(s, tuple) else s for known in found for s in known]
        meshes = {s.mesh.abstract_mesh for s in shardings if hasattr(s, "mesh")}
        return devices is not None and len(meshes) <= 1
    return False


def _ask_for_devices() -> None:
    """JAX asks one of its functions whether a traced function must be lowered for its own devices.
    Replace that function by ours. Ours does not call the old one, for two reasons: the old one
    caches its answers, and it calls itself by its global name, which is now the name of ours."""
    from jax._src import dispatch

    names = "prim_requires_devices_during_lowering", "jaxpr_has_prim_requiring_devices"
    if not all(hasattr(dispatch, name) for name in names):
        return  # this release lacks it; _mesh_and_devices() then finds the devices less often
    theirs = dispatch.prim_requires_devices_during_lowering

    def needs_devices(jaxpr: Any) -> bool:
        return _has_any(jaxpr, theirs) or (_has_any(jaxpr, NEEDS_DEVICES) and _is_possible())

    dispatch.jaxpr_has_prim_requiring_devices = needs_devices


_ask_for_devices()


def _mesh_of(ctx: Any) -> Any:
    module = getattr(ctx, "module_context", None)
    return getattr(getattr(module, "axis_context", None), "mesh", None)


def _devices_of(mesh: Any) -> Any:
    """Return the mesh's array of devices, or None if the mesh is abstract or there is no mesh."""
    try:
        return mesh.devices
    except (AttributeError, ValueError):
        return None


def _given_devices(mesh: Any) -> Any:
    """Return the devices for which JAX lowers the function, as an array of the mesh's shape, or
    None if JAX lowers it for all devices."""
    for (ctx,) in _locals("ctx"):
        context = getattr(getattr(ctx, "module_context", ctx), "axis_context", None)
        devices = getattr(context, "device_assignment", None)
        if devices is not None and len(devices) == mesh.size:
            shape = tuple(dict(mesh.shape).values())
            return np.array(devices, dtype=object).reshape(shape)
    return None


def _is_in_mesh() -> bool:
    """Is jax.set_mesh() in force? If it is, a shard_map without a mesh of its own gets the mesh
    with which JAX first traced the function. The mesh that is in force now may have other
    devices."""
    from jax._src import mesh  # jax.sharding.get_mesh() refuses to answer within jit

    get = getattr(mesh, "get_concrete_mesh", None)
    return get is not None and not getattr(get(), "empty", True)


def _mesh_and_devices(ctx: Any) -> tuple[Any, Any]:
    """Return the mesh and its devices.

    A shard_map without a mesh of its own is lowered with an abstract mesh, which has no devices, or
    with an older mesh of the same shape. We use the devices for which JAX lowers the function, or
    those of a jax.shard_map around it, which is still being lowered. We cannot use the devices of
    the arguments: with an abstract mesh JAX may use the same lowering for other devices, too.
    """
    mesh = _mesh_of(ctx)
    if mesh is not None and (devices := _given_devices(mesh)) is not None:
        return mesh, devices
    for outer in () if _is_in_mesh() else _local("ctx"):
        around = _mesh_of(outer)
        devices = _devices_of(around)
        if devices is not None and mesh is not None and around.axis_names == mesh.axis_names:
            return around, devices
    raise SymtunerError(
        "the devices are not known while the program is lowered; give jax.shard_map a "
        "jax.sharding.Mesh, or use jax.set_mesh"
    )


def _places(
    mesh: Any, devices: Any, axes: tuple[str, ...], groups: Groups
) -> list[list[int]]:
    """Return, for each group, the positions of its devices in the flattened mesh, in the order of
    ``axes``, or of ``groups`` if that is not None."""
    order = [mesh.axis_names.index(a) for a in axes]
    rest = [i for i in range(devices.ndim) if i not in order]
    ranks = int(np.prod([devices.shape[i] for i in order]))
    places = np.arange(devices.size).reshape(devices.shape)
    made = places.transpose(rest + order).reshape(-1, ranks).tolist()
    return made if groups is None else [[row[i] for i in group] for row in made for group in groups]


def listed(ctx: Any, axes: tuple[str, ...], groups: Groups) -> list[list[Any]]:
    """Return the devices of each group, in the order of the axes or of axis_index_groups."""
    mesh, devices = _mesh_and_devices(ctx)
    flat = devices.reshape(-1).tolist()
    return [[flat[p] for p in row] for row in _places(mesh, devices, axes, groups)]


def rows(ctx: Any, axes: tuple[str, ...], groups: Groups) -> tuple[list[list[Any]], list[int]]:
    """Return two lists. The first has the devices of each group. The second has, for all these
    devices, group after group, their positions in the program's list of devices.

    Ranks are in the order of the devices' ids. So two calls over the same devices use the same
    group and give the same bits, whatever the order of the axes or of the mesh.
    """
    mesh, devices = _mesh_and_devices(ctx)
    flat = devices.reshape(-1).tolist()
    made = _places(mesh, devices, axes, groups)
    made = [sorted(row, key=lambda p: flat[p].id) for row in made]
    made.sort(key=lambda row: [flat[p].id for p in row])
    return [[flat[p] for p in row] for row in made], [p for row in made for p in row]


def compiler_options() -> dict[str, Any]:
    """Return the compiler options that were passed to jax.jit; XLA_FLAGS is not among them. We
    cannot see all options: JAX lowers a function once for several jits with different options,
    and Lowered.compile() takes options after the lowering."""
    found: dict[str, Any] = {}
    for options in _local("compiler_options_kvs"):
        found.update(options or ())
    return found


# ---- sums that XLA moves out of a loop -----------------------------------------------------------
# operations that XLA allows between an all-reduce and the addition
_SAME = ("convert_element_type", "reshape", "transpose", "copy")


def _loop(outer: list[Any]) -> tuple[int, int] | None:
    """Return the numbers of constants and of carried values of the loop whose body is being
    lowered, or None if no loop's body is. ``outer``: the equations around the body, innermost
    first. JAX lowers a scan as a while loop that calls the scan's body."""
    names = [eqn.primitive.name for eqn in outer]
    if names[:3] == ["closed_call", "while", "scan"]:
        return outer[2].params["num_consts"], outer[2].params["num_carry"]
    if names[:1] == ["while"]:
        return outer[0].params["body_nconsts"], len(outer[0].params["body_jaxpr"].out_avals)
    return None


def leaves_loop(dtype: Any) -> bool:
    """Does the loop just add the sum that is lowered now to a value that it carries along, as when
    gradients are accumulated? Then XLA can move its own sum out of the loop, but not our call. XLA
    does not move sums of complex numbers or of float8."""
    if dtype.kind not in "iuf" and dtype != jnp.bfloat16:
        return False
    found = [(e, j) for e, j in _locals("eqn", "jaxpr") if e is not None and hasattr(j, "eqns")]
    if not found:
        return False
    (eqn, jaxpr), *outer = found
    loop = _loop([e for e, _ in outer])
    if loop is None or not any(e is eqn for e in jaxpr.eqns):
        return False
    uses: dict[Any, list[Any]] = {}
    for user in [*jaxpr.eqns, None]:
        for var in user.invars if user is not None else jaxpr.outvars:
            if not hasattr(var, "val"):  # not a literal
                uses.setdefault(var, []).append(user)
    (var,) = eqn.outvars
    while len(users := uses.get(var, ())) == 1 and users[0] is not None:
        user = users[0]
        if user.primitive.name in _SAME:
            (var,) = user.outvars
            continue
        others = [v for v in user.invars if v is not var]
        if user.primitive.name not in ("add", "add_any") or len(others) != 1:
            return False
        (carried,), (total,), (constants, count) = others, user.outvars, loop
        carries = list(jaxpr.invars)[constants : constants + count]
        places = [i for i, v in enumerate(carries) if v is carried]
        return (
            len(places) == 1
            and len(uses[carried]) == 1
            and uses.get(total) == [None]
            and jaxpr.outvars[places[0]] is total
        )
    return False

# SPDX-License-Identifier: Apache-2.0
"""install(): psum, pmean, pmax and pmin reach our kernels, without a change to the program; so do
psum_scatter and all_gather if SYMTUNER_ONLY names them.

JAX traces each of these functions to a primitive. For programs on CUDA we register a lowering rule
for these primitives, which JAX uses instead of its own. Where our rule does not understand all of a
call, it runs JAX's rule. The backward pass consists of the same primitives, so our rule lowers it,
too. For programs on other platforms, a second rule reports that XLA runs the call.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
from jax.interpreters import mlir

from . import _all_reduce, _cache, _floats, _lowering, _presence, _report, _say
from ._library import COLLS, MODE, MODES, STRICT, SymtunerError, idle, load, only, word

# JAX's primitives, by their names in jax._src.lax.parallel: (collective, operator). The operator of
# an all-gather means nothing. A release of JAX may lack some of the primitives. Those with
# "invariant" in their names come from shard_map(check_vma=True), and from its backward pass.
PRIMITIVES = {
    "psum_p": ("all_reduce", "sum"),
    "psum_invariant_p": ("all_reduce", "sum"),
    "unreduced_psum_p": ("all_reduce", "sum"),
    "pmax_p": ("all_reduce", "max"),
    "pmin_p": ("all_reduce", "min"),
    "reduce_scatter_p": ("reduce_scatter", "sum"),
    "unreduced_reduce_scatter_p": ("reduce_scatter", "sum"),
    "all_gather_p": ("all_gather", "sum"),
    "all_gather_invariant_p": ("all_gather", "sum"),
    "all_gather_reduced_p": ("all_gather", "sum"),
}
_DIMENSION = {"reduce_scatter": "scatter_dimension", "all_gather": "all_gather_dimension"}
_PARAMETERS = {
    "all_reduce": {"axes", "axis_index_groups"},
    **{
        coll: {name, "axis_name", "axis_index_groups", "axis_size", "tiled"}
        for coll, name in _DIMENSION.items()
    },
}
_PLATFORM = "cuda"

_lock = threading.RLock()
_installed = False
_own_rules: dict[Any, Any] = {}  # primitive -> JAX's own rule, while we are installed
_strict = False
_off = False  # install() was called, but SYMTUNER_MODE is off
_only: frozenset[str] = frozenset()
_listening = False
# program, line and column of a call. The two sets below also have each call with column 0, because
# a compiled program may not say the column
_Place = tuple[str, _say.Line | None, int]
_judged: set[_Place] = set()  # where a rule left a call to XLA for good
_passed: set[_Place] = set()  # where a rule left a call to _hlo.py


# ---- one call ------------------------------------------------------------------------------------
class _Left(Exception):
    """Raised if the rule leaves the call to XLA. ``fine``: XLA should run it, so strict mode raises
    no error. ``later``: _hlo.py, which sees the compiled program, may still replace the call."""

    def __init__(self, why: str, fine: bool = False, later: bool = False) -> None:
        super().__init__(why)
        self.fine, self.later = fine, later


def _refuse_context(ctx: Any) -> None:
    eqn = ctx.jaxpr_eqn_ctx
    if eqn is not None and _cache.is_off(eqn.xla_metadata):
        raise _Left("symtuner.disabled()", fine=True)
    if eqn is not None and eqn.compute_type is not None:
        raise _Left(f"compute_on({eqn.compute_type!r}) places it")
    if getattr(ctx.module_context.lowering_parameters, "for_export", False):
        raise _Left("jax.export refuses custom calls", fine=True)


def _refuse_axes(ctx: Any, axes: tuple[Any, ...], groups: Any) -> None:
    if any(isinstance(axis, int) for axis in axes):
        raise _Left("it reduces axes of the array, too", later=True)
    context = ctx.module_context.axis_context
    mesh = getattr(context, "mesh", None)
    if mesh is None:
        raise _Left("its axes are not those of a mesh", later=True)
    sizes = dict(mesh.shape)
    auto = [a for a in sizes if a not in context.manual_axes and sizes[a] > 1]
    if context.manual_axes and auto:
        # XLA's partitioner would gather the operand of a custom call from all devices of these axes
        why = f"XLA partitions the program over {', '.join(map(str, auto))}"
        raise _Left(why, later=True)
    ranks = 1
    for axis in axes:
        ranks *= sizes[axis]
    if ranks == 1:
        raise _Left("one device", fine=True)
    if groups is None:
        return
    if sorted(i for group in groups for i in group) != list(range(ranks)):
        raise _Left("axis_index_groups does not have each index of the axis once")
    if len({len(group) for group in groups}) > 1:
        raise _Left("the groups of axis_index_groups have different sizes")
    if len(groups[0]) == 1:
        raise _Left("one device in each group", fine=True)


def _refuse_type(aval: Any, op: str) -> None:
    if aval.size == 0:
        raise _Left("the array is empty", fine=True)
    name = str(aval.dtype)
    if name not in _all_reduce._DTYPES:
        raise _Left(f"NCCL has no data type {name}")
    if op != "sum" and aval.dtype.kind not in "iu" and name not in _floats.TYPES:
        raise _Left(f"no {op} of {name} that keeps a NaN")


def _refuse_devices(rows: list[list[Any]]) -> None:
    """Refuse devices of another machine. JAX can lower a program for a machine of which it has only
    a description."""
    if not {d for row in rows for d in row} <= set(jax.devices(rows[0][0].platform)):
        raise _Left("it is lowered for devices of another machine")


def _program(ctx: Any) -> str:
    try:
        return ctx.module_context.module.operation.attributes["sym_name"].value
    except (AttributeError, KeyError):
        return "a program"


def _what(name: str, aval: Any, axes: tuple[Any, ...], groups: Any) -> str:
    within = f" in groups of {len(groups[0])}" if groups else ""
    shape = ",".join(map(str, aval.shape))
    return f"{name} {aval.dtype}[{shape}] over {','.join(map(str, axes))}{within}"


def _refuse_order(rows: list[list[Any]], made: list[list[Any]]) -> None:
    """Refuse a call whose ranks are not in the order of their devices' ids, which is the order of
    our groups. The order matters in a reduce-scatter and an all-gather, because it determines which
    part of the longer array belongs to which rank."""
    if sorted(made, key=lambda row: [d.id for d in row]) != rows:
        raise _Left("its ranks are not in the order of the devices' ids")


def _layouts(coll: str, ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Return layouts of operand and result in which each rank's part is contiguous: the collective
    cuts the outermost dimension. XLA chooses the same layouts for its own collectives."""
    cut = params[_DIMENSION[coll]]

    def layout(aval: Any, is_longer: bool) -> list[int]:
        order = list(range(aval.ndim))
        if is_longer or params["tiled"]:
            order.insert(0, order.pop(cut))
        return order[::-1]

    operand = layout(ctx.avals_in[0], coll == "reduce_scatter")
    result = layout(ctx.avals_out[0], coll == "all_gather")
    return {"operand_layouts": [operand], "result_layouts": [result]}


def _axes_of(params: dict[str, Any]) -> tuple[Any, ...]:
    axes = params.get("axes", params.get("axis_name", ()))
    return tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)


def _refuse(ctx: Any, coll: str, op: str, params: dict[str, Any]) -> None:
    if coll not in _only:
        raise _Left(f"SYMTUNER_ONLY does not name {COLLS[coll]}", fine=True)
    _refuse_context(ctx)
    _refuse_axes(ctx, _axes_of(params), params.get("axis_index_groups"))
    _refuse_type(ctx.avals_in[0], op)


def _replace(ctx: Any, x: Any, coll: str, op: str, params: dict[str, Any]) -> Any:
    axes, groups = _axes_of(params), params.get("axis_index_groups")
    aval = ctx.avals_in[0]
    _refuse(ctx, coll, op, params)
    try:
        rows, _ = _lowering.rows(ctx, axes, groups)
    except SymtunerError as e:
        raise _Left(str(e), later=True) from None
    _refuse_devices(rows)
    if (coll, op) == ("all_reduce", "sum") and _lowering.leaves_loop(aval.dtype):
        raise _Left("XLA may move it out of its loop", fine=True)
    if coll != "all_reduce":
        _refuse_order(rows, _lowering.listed(ctx, axes, groups))
    if why := idle():
        raise _Left(why)
    if (coll, op) == ("all_reduce", "sum") and aval.size * aval.dtype.itemsize > load().long:
        raise _Left("XLA may run it beside matrix products", fine=True, later=True)
    if coll != "all_reduce":
        layouts = _layouts(coll, ctx, params)
        return _all_reduce.custom_call(ctx, x, op, axes, groups, coll, **layouts)[0]

    def emit(ctx: Any, x: Any) -> Any:
        return _all_reduce.custom_call(ctx, x, op, axes, groups)[0]

    if op == "sum" or aval.dtype.kind in "iu":
        return emit(ctx, x)
    return _floats.lower(ctx, x, op, emit)


def _forbid(what: str, why: str) -> None:
    if _strict:
        raise SymtunerError(f"{what}, and strict forbids to leave it to XLA: {why}")


def _rule(name: str, coll: str, op: str, own: Any) -> Any:
    def rule(ctx: Any, *args: Any, **params: Any) -> Any:
        axes, groups = _axes_of(params), params.get("axis_index_groups")
        if all(isinstance(axis, int) for axis in axes):
            return own(ctx, *args, **params)  # reduces only axes of the array
        (where, column), fine, later = _say.place_of(ctx), False, False
        program = _program(ctx)
        places = {(program, where, column), (program, where, 0)}
        try:
            if set(params) - _PARAMETERS[coll] or len(args) != 1:
                why = f"this jax gives {name} parameters that are not known here"
                raise _Left(why, later=True)
            out, why = _replace(ctx, args[0], coll, op, params), ""
        except _Left as e:
            why, fine, later = str(e), e.fine, e.later
        except SymtunerError as e:
            why = str(e)
        except Exception as e:  # JAX's internals differ in this release
            why, later = f"{type(e).__name__}: {e}", True
        if later and _edits():
            _passed.update(places)
            return own(ctx, *args, **params)
        _report.say(program, _what(name, ctx.avals_in[0], axes, groups), not why, why, where)
        if not why:
            return out
        _judged.update(places)
        if not fine:
            _forbid(f"{where[0]}:{where[1]}: {name} cannot be replaced here", why)
        return own(ctx, *args, **params)

    return rule


def _rule_elsewhere(name: str, coll: str, op: str, own: Any) -> Any:
    """Return the rule for programs that are not for CUDA: JAX's own rule, which also reports that
    XLA runs the call. A program for CUDA and another platform is reported by _rule()."""

    def rule(ctx: Any, *args: Any, **params: Any) -> Any:
        axes, groups = _axes_of(params), params.get("axis_index_groups")
        platforms = ctx.module_context.platforms
        if _PLATFORM in platforms or all(isinstance(axis, int) for axis in axes):
            return own(ctx, *args, **params)
        where, fine = _say.line_of(ctx), False
        why = f"the program is for {', '.join(platforms)}, not for CUDA"
        try:
            _refuse(ctx, coll, op, params)
        except Exception as e:  # also an error of JAX's internals, if they differ in this release
            if getattr(e, "fine", False):
                why, fine = str(e), True
        what = _what(name, ctx.avals_in[0], axes, groups)
        _report.say(_program(ctx), what, False, why, where)
        if not fine:
            _forbid(f"{where[0]}:{where[1]}: {name} cannot be replaced here", why)
            _say.once(f"{why}, so XLA runs its collectives")
        return own(ctx, *args, **params)

    return rule


# ---- programs that XLA partitions ----------------------------------------------------------------
# The transformation of partitioned programs (_hlo.py) can be registered only after JAX's backends
# have started. We must not start them: jax.distributed.initialize() must come before they start,
# and may come after install(). JAX reports each program between lowering and compiling it. So we
# register when JAX reports the first program.

# _hlo.py and jax/hlo/ give reasons why a collective is left to XLA. A reason that begins like one
# of these is no fault, so strict mode raises no error for it (as for _Left.fine)
_FINE = (
    "symtuner.disabled() ",
    "SYMTUNER_ONLY does not name ",
    "XLA may ",
    "each of its groups has one device",
)
_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_hlo: Any = None  # the module _hlo.py; None: not imported yet; False: not needed without GPUs
_registered = False


def _has_gpus() -> bool:
    """Does JAX have GPUs? They need not be its default platform: JAX_PLATFORMS may be cpu,cuda."""
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:  # JAX has no such platform
        return False


def _on_event(event: str, *_: Any, **__: Any) -> None:
    if event != _LOWERED:
        return
    if _off:
        _presence.say()
    elif _hlo is None:
        _edits()


def _edits() -> bool:
    """Does _hlo.py edit the programs that are compiled from now on? The first call registers it."""
    global _hlo, _registered
    with _lock:
        if _hlo is None and _installed:
            _hlo = _registered = False
            if _has_gpus() and importlib.util.find_spec("symtuner._hlo") is not None:
                _hlo = importlib.import_module("symtuner._hlo")
                _registered = bool(_hlo.install(_of_compiled))
                _presence.say()
            elif not _has_gpus():
                found = jax.default_backend()
                why = f"JAX has no CUDA devices here, only {found}, so XLA runs all collectives"
                _report.empty_because(why)
        return bool(_hlo) and _registered


def _of_compiled(
    program: str, what: str, replaced: bool, why: str, where: _say.Line | None, column: int
) -> None:
    """Record what _hlo.py says about a collective of a compiled program. If our rule left the
    collective to XLA, the report has it already, so do not record it again. But several collectives
    can come from one line, as in a loop over several axes. If our rule left one of them to _hlo.py,
    we cannot tell which one this is, so record it."""
    if not replaced and (program, where, column) in _judged - _passed:
        return
    _report.say(program, what, replaced, why, where)
    if _registered and not replaced and not why.startswith(_FINE):
        place = f"{where[0]}:{where[1]}: " if where else ""
        _forbid(f"{place}{what or 'a collective'} cannot be replaced here", why)


def _listen() -> None:
    global _listening
    if not _listening:
        jax.monitoring.register_event_duration_secs_listener(_on_event)
        _listening = True


# ---- the functions -------------------------------------------------------------------------------
def _rules_of_jax() -> dict[str, tuple[Any, Any]]:
    """Return the primitives of PRIMITIVES that this JAX has, by name, with JAX's own rules."""
    try:
        from jax._src.interpreters.mlir import _lowerings
        from jax._src.lax import parallel  # jax.lax lacks some of these primitives

        found = {n: getattr(parallel, n) for n in PRIMITIVES if hasattr(parallel, n)}
        return {name: (p, _lowerings[p].rule) for name, p in found.items()}
    except (ImportError, AttributeError, KeyError) as e:
        raise SymtunerError(
            f"jax {jax.__version__} keeps its own rules where symtuner does not find them ({e!r}), "
            "so nothing is replaced; use symtuner.all_reduce"
        ) from e


def _uncached() -> set[Any]:
    """Return JAX's set of primitives whose lowerings it does not cache. install() adds our
    primitives to it. If JAX cached them, it would lower two sums of arrays of one shape only once.
    Then we could not replace one of them and leave the other, which is in a loop, to XLA."""
    from jax._src.interpreters import mlir as own

    return getattr(own, "_uncacheable_primitives", set())


def install(*, strict: bool | None = None) -> None:
    """From now on psum, pmean, pmax and pmin run on our kernels, in every program that JAX lowers
    for CUDA. So do the all-reduces that XLA's partitioner makes. SYMTUNER_ONLY can add psum_scatter
    and all_gather. Where our kernels cannot run a call, XLA runs it, and report() says why. With
    ``strict`` there is an error instead, which names the line of the call, unless XLA should run
    the call (docs/reference/jax-calls.md); if ``strict`` is not given, SYMTUNER_JAX_STRICT decides.

    Every process of a program must call this at the same place. Programs that JAX lowered before
    this call are lowered again when they run next. Programs that ``jit(f).lower().compile()``
    returned before this call stay as they are.
    """
    _presence.called()
    _install(strict)


def _install(strict: bool | None) -> None:
    global _installed, _strict, _off, _only
    with _lock:
        mode = word(MODE, MODES, "steer")
        _only = only()
        _strict = word(STRICT, ("0", "1"), "0") == "1" if strict is None else strict
        _cache.strict = _strict = _strict and mode == "steer"
        if _installed:
            return
        _listen()
        _off = mode == "off"
        if _off:
            _report.forget()
            _report.say("", "", False, idle())
            return
        for name, (primitive, own) in _rules_of_jax().items():
            what = name.removesuffix("_p"), *PRIMITIVES[name], own
            mlir.register_lowering(primitive, _rule(*what), platform=_PLATFORM)
            mlir.register_lowering(primitive, _rule_elsewhere(*what))
            _own_rules[primitive] = own
            _lowering.NEEDS_DEVICES.add(primitive)
            if PRIMITIVES[name] == ("all_reduce", "sum"):
                _uncached().add(primitive)
        _installed = True
        if mode == "steer":  # in other modes XLA runs all calls
            _cache.guard()
        _forget_programs()
        _report.forget()
        _judged.clear()
        _passed.clear()


def uninstall() -> None:
    """Undo install(), for programs that JAX lowers from now on."""
    global _installed, _off, _hlo
    with _lock:
        _off = False
        if not _installed:
            return
        _installed = False
        for primitive, rule in _own_rules.items():
            mlir.register_lowering(primitive, rule, platform=_PLATFORM)
            mlir.register_lowering(primitive, rule)
            _lowering.NEEDS_DEVICES.discard(primitive)
            _uncached().discard(primitive)
        _own_rules.clear()
        _cache.release()
        if _hlo:
            _hlo.uninstall()
        _hlo = None
        _forget_programs()


def _forget_programs() -> None:
    """Let JAX lower all programs again. Before a backend has started, do nothing: there are no
    programs yet, and we must not start a backend."""
    from jax._src import xla_bridge

    if getattr(xla_bridge, "_backends", None):
        jax.clear_caches()


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Return a context in which XLA runs the collectives. A "with" statement of this context may
    enclose the collectives themselves, or the call of the jitted function."""
    with _cache.off():
        yield


def install_as_asked() -> None:
    """Do what SYMTUNER_JAX says. Print an error as one line; JAX would print a traceback."""
    try:
        asked = word("SYMTUNER_JAX", ("0", "1", "report"), "0")
        if asked != "0":
            _install(None)
            _presence.asked()
        if asked == "report":
            atexit.register(lambda: print(_report.report(), file=sys.stderr))
    except SymtunerError as e:
        _say.once(f"symtuner.install() did not succeed, so XLA reduces as always: {e}")

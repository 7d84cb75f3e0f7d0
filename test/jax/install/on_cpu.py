# SPDX-License-Identifier: Apache-2.0
"""install() for CPU devices. Our rules are registered for the CPU, and XLA runs our calls.

A stand-in reads our custom call with its groups, operator, layouts and collective. It replaces our
call by the collective of XLA that these describe. So a wrong group, operator, layout or collective
gives a wrong value.
"""

import os

import numpy as np
from jax._src.interpreters import mlir
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo as hlo

import symtuner
from symtuner import _all_reduce, _install

APPLY = {0: hlo.AddOp, 1: hlo.MulOp, 2: hlo.MaxOp, 3: hlo.MinOp}
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = range(3)


class Asked:
    """Sets SYMTUNER_ONLY to these collectives."""

    def __init__(self, *colls):
        self.words = ",".join(colls)

    def __enter__(self):
        self.saved = os.environ.pop("SYMTUNER_ONLY", None)
        os.environ["SYMTUNER_ONLY"] = self.words

    def __exit__(self, *_):
        del os.environ["SYMTUNER_ONLY"]
        if self.saved is not None:
            os.environ["SYMTUNER_ONLY"] = self.saved


ALL = ("allreduce", "reducescatter", "allgather")


class OnCpu:
    """Installs our rules for the CPU, and lowers each of our calls to XLA's collective. ``mesh`` is
    the mesh of the program that is lowered next. XLA's collectives name devices by their positions
    in this mesh, but our call names them by their ids."""

    mesh = None

    def __enter__(self):
        self.saved = _install._PLATFORM, _all_reduce.custom_call
        _install._PLATFORM, _all_reduce.custom_call = "cpu", self.stand_in
        self.ran = 0
        with Asked(*ALL):
            symtuner.install()
        return self

    def __exit__(self, *_):
        symtuner.uninstall()
        # uninstall() has registered JAX's own rules for the CPU. Later, only the rules for all
        # platforms must be in force
        for primitive, _ in _install._rules_of_jax().values():
            mlir._platform_specific_lowerings["cpu"].pop(primitive, None)
        _install._PLATFORM, _all_reduce.custom_call = self.saved

    def stand_in(self, *args, **layouts):
        out, target = self.saved[1](*args, **layouts)
        call = out[0].owner
        said = call.attributes["mhlo.backend_config"]
        ids = np.array(ir.DenseIntElementsAttr(said["groups"]))
        place = {d.id: i for i, d in enumerate(self.mesh.devices.flat)}
        rows = np.array([place[i] for i in ids]).reshape(-1, ir.IntegerAttr(said["ranks"]).value)
        coll = ir.IntegerAttr(said["coll"]).value if "coll" in said else ALL_REDUCE
        assert target.startswith("symtuner_" + ("all_reduce", "reduce_scatter", "all_gather")[coll])
        common = dict(
            replica_groups=ir.DenseIntElementsAttr.get(np.ascontiguousarray(rows, np.int64)),
            channel_handle=hlo.ChannelHandle.get(1, 1),
            use_global_device_ids=ir.BoolAttr.get(True),
        )
        op = APPLY[ir.IntegerAttr(said["op"]).value]
        if coll == ALL_REDUCE:
            result = reduction(hlo.AllReduceOp([call.results[0].type], call.operands, **common), op)
        else:
            result = in_memory(call, coll, common, op)
        call.erase()
        self.ran += 1
        return [result], target


def reduction(made, op):
    scalar = ir.RankedTensorType.get([], made.operands[0].type.element_type)
    block = made.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        hlo.return_([op(*block.arguments).result])
    return made.results[0]


def order(call, name):
    """Return the dimensions of the operand or result, from the slowest to the fastest in memory."""
    ((layout),) = ir.ArrayAttr(call.attributes[name])
    return [int(d) for d in ir.DenseIntElementsAttr(layout)][::-1]


def in_memory(call, coll, common, op):
    """Cut or join the array as its layout stores it in memory, as if it had one dimension."""
    (operand,), (result,) = call.operands, call.results
    element, rank = operand.type.element_type, len(result.type.shape)
    before = ir.DenseI64ArrayAttr.get(order(call, "operand_layouts"))
    slots = hlo.TransposeOp(operand, before).result
    kind = lambda *shape: ir.RankedTensorType.get(shape, element)
    slots = hlo.ReshapeOp(kind(int(np.prod(operand.type.shape, dtype=int))), slots).result
    after = kind(int(np.prod(result.type.shape, dtype=int)))
    first = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    if coll == ALL_GATHER:
        slots = hlo.AllGatherOp([after], [slots], all_gather_dim=first, **common).results[0]
    else:
        made = hlo.ReduceScatterOp(after, slots, scatter_dimension=first, **common)
        slots = reduction(made, op)
    at = order(call, "result_layouts")
    slots = hlo.ReshapeOp(kind(*[result.type.shape[d] for d in at]), slots).result
    back = [at.index(d) for d in range(rank)]
    return hlo.TransposeOp(slots, ir.DenseI64ArrayAttr.get(back)).result

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GSPMD programs in two processes, on fakes of CUDA and NCCL as in test_processes.py: both
processes replace an all-reduce, or neither does."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "processes"))
import test_processes as base  # noqa: E402

GROUPS = "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, "


def compile_program(devices, rank):
    """Edit a program with one all-reduce, as XLA would ask for in its compilation."""
    import jax
    import test_hlo

    from symtuner import _groups, _hlo

    _hlo.open_rows, jax.devices = _groups.open_rows, lambda *_: devices
    edited, rows = _hlo._edit("cuda", test_hlo.made([[10, 11]], more=GROUPS))
    print(b"symtuner_all_reduce" in (edited or b""), *rows[0][2:4], flush=True)


def compile_without_group(devices, rank):
    if rank == 1:
        base.set_env("FAKE_NCCL_FAIL", "1")
    compile_program(devices, rank)


base.LATE.update({"opens": compile_program, "fails": compile_without_group})
base.CASES = {
    "opens": ((0, 0), "True True \n"),
    "fails": ((0, 0), f"False False {base.NO_COMM}\n"),
}
base.EVERYWHERE = tuple(base.CASES)
base.__file__ = __file__  # the children run this file

if __name__ == "__main__":
    import test_hlo  # noqa: F401  exits with 77 where jax cannot do this

    if sys.argv[1:2] == ["--child"]:
        base.child(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        sys.exit(base.main())

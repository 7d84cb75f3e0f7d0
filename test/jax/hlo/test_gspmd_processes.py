#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests GSPMD programs in two processes, on fakes of CUDA and NCCL as in test_processes.py. Both
processes must replace an all-reduce, or neither may."""

import os
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "processes"))
import test_processes as base  # noqa: E402

GROUPS = "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, "


def compile_program(devices, rank):
    """Edit a program with one all-reduce, as in a compilation by XLA."""
    import jax
    import test_hlo

    from symtuner import _cache, _groups, _hlo

    _hlo.open_rows, jax.devices = _groups.open_rows, lambda *_: devices
    edited, rows = _hlo._edit("cuda", test_hlo.made([[10, 11]], more=GROUPS))
    may_pass = "error" in rows[0][3] or "does not run" in rows[0][3]
    assert _cache._kept_out == ({"made"} if may_pass else set()), _cache._kept_out
    print(b"symtuner_all_reduce" in (edited or b""), *rows[0][2:4], flush=True)


TWO = """HloModule two

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (p: f32[3]{0}) -> f32[3]{0} {
  %p = f32[3]{0} parameter(0)
  %q = f32[3]{0} all-reduce(%p), channel_id=1, replica_groups={{0,3},{1,2}}, \
use_global_device_ids=true, to_apply=%sum
  ROOT %r = f32[3]{0} all-reduce(%q), channel_id=2, replica_groups={{0,1},{2,3}}, \
use_global_device_ids=true, to_apply=%sum
}
""".replace("\\\n", "")


CACHED = "".join(
    f'%c = f32[3] custom-call(%p), custom_call_target="symtuner_all_reduce", backend_config='
    f"{{groups = dense<{ids}> : tensor<4xi64>, op = 0 : i32, ranks = 2 : i32}}\n"
    for ids in ([20, 21, 22, 23], [20, 23, 21, 22])
)


def read_or_compile(devices, rank):
    """Only rank 0 has the program in its compile cache, because JAX writes the cache in process 0.
    In the cached program the calls have another order than in the one that rank 1 compiles."""
    import jax
    import test_hlo

    import symtuner
    from symtuner import _cache, _groups, _hlo, _processes

    _processes.WAIT_S = 5
    _hlo.open_rows = _groups.open_rows
    devices = [base.Device(number % 2, 20 + number) for number in range(4)]
    jax.devices = lambda *_: devices
    if rank == 0:
        module = SimpleNamespace(to_string=lambda: CACHED)
        _cache._open_groups_of(SimpleNamespace(hlo_modules=lambda: [module]))
    else:
        proto = test_hlo.hlo.hlo_module_from_text(TWO).as_serialized_hlo_module_proto()
        _, rows = _hlo._edit("cuda", proto + test_hlo.assignment([[20, 21, 22, 23]]))
        assert all(row[2] for row in rows), rows
    print("opened", len(symtuner.groups()), flush=True)


def compile_for_all(devices, rank):
    """Rank 0 compiles, and JAX gives the result to rank 1. Rank 0 must not wait for rank 1."""
    import jax

    jax.config.update("jax_share_binary_between_hosts", True)
    if rank == 0:
        compile_program(devices, rank)


def compile_without_group(devices, rank):
    if rank == 1:
        base.set_env("FAKE_NCCL_FAIL", "1")
    compile_program(devices, rank)


def compile_without_library(devices, rank):
    """Rank 1 has no library. It tells rank 0 so when it lowers its first program, and rank 0 does
    not wait for it."""
    from symtuner import _install, _library

    if rank == 1:
        os.environ["SYMTUNER_LIB_DIR"] = os.path.dirname(__file__)
        _library._load.cache_clear()
    _install._has_gpus, _install._installed = lambda: True, True
    _install._on_event(_install._LOWERED)
    try:
        compile_program(devices, rank)
    except _library.SymtunerError as e:
        assert rank == 1 and "libsymtuner_ffi.so is not in" in str(e), e


def raise_denied(*_):
    raise PermissionError(13, "Permission denied")


def cannot_read(devices, rank):
    """Rank 1 cannot read the folder of the library. It tells rank 0 so, also after retry(). So rank
    0 does not wait for it. The programs of rank 1 run nevertheless."""
    import symtuner
    from symtuner import _install, _library, _presence, _processes

    _install._has_gpus, _install._installed = lambda: True, True
    if rank == 1:
        _presence.load = raise_denied
    _install._on_event(_install._LOWERED)
    for round in range(2):
        if rank == 0:
            print(_presence.missing([0, 1]), flush=True)
        _processes.coordinator().wait_at_barrier(f"asked/{round}", 30000)
        symtuner.retry()
    if rank == 1:
        _library._find = raise_denied
        _library._load.cache_clear()
        try:
            _library.load()
        except _library.SymtunerError as e:
            return print(e, flush=True)
        raise AssertionError("the library was read")


base.LATE.update(
    {
        "opens": compile_program,
        "fails": compile_without_group,
        "no library": compile_without_library,
        "cannot read": cannot_read,
        "cached": read_or_compile,
        "shared": compile_for_all,
    }
)
base.CASES = {
    "opens": ((0, 0), "True True \n"),
    "cached": ((0, 0), "opened 4\n"),
    "shared": ((0, 0), "False False jax_share_binary_between_hosts makes one process compile for"),
    "no library": (
        (0, 0),
        "False False process 1 does not run symtuner (libsymtuner_ffi.so is not in ",
    ),
    "cannot read": (
        (0, 0),
        "process 1 does not run symtuner ([Errno 13] Permission denied)\n" * 2,
    ),
    "fails": ((0, 0), f"False False {base.NO_COMM}\n"),
}
base.SAYS.add("no library")
base.EVERYWHERE = ("opens", "cached", "fails")
base.__file__ = __file__  # the child processes run this file

if __name__ == "__main__":
    import test_hlo  # noqa: F401  exits with 77 if this jax does not show us its programs

    if sys.argv[1:2] == ["--child"]:
        base.child(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        sys.exit(base.main())

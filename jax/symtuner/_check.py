# SPDX-License-Identifier: Apache-2.0
"""check(): run one psum and two all_reduce calls on this machine's GPUs and report how they ran.

The psum runs in a child process, with the caller's environment and with NCCL's log turned on. NCCL
reads its log settings only once, and in this process it may already have read them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

_PSUM_BYTES = 16 << 20  # more than 4 MiB, because XLA may run kernels of its own for smaller psums
_REDUCE_BYTES = (8 << 10, 16 << 20)

# (name, first release, last release, what is wrong and the cure): the rows of nccl/hazards.h that
# users of this package can meet; test/nccl/hazards.py compares the two tables
_KNOWN = (
    (
        "nccl-no-wait",
        (2, 28, 3),
        (2, 30, 6),
        "symmetric kernels do not wait for the kernel before them under programmatic dependent "
        "launch, so captured graphs that use it can give wrong results without an error (fixed in "
        "2.30.7): use NCCL 2.30.7, or keep programmatic dependent launch off around collectives",
    ),
    (
        "nccl-xla-pool",
        (2, 30, 7),
        (2, 30, 7),
        "registering two windows in XLA's one memory pool exhausts the address space (NCCL issue "
        "2331): leave "
        "XLA's symmetric flag off, or use another release",
    ),
)

XLA_COMM = {
    None: "unknown",
    True: "offered; processes use them with SYMTUNER_JAX_COMM=auto",
    False: "not offered by this jaxlib; processes make their own",
}


@dataclasses.dataclass
class Report:
    """The results of check(). A field that is None is unknown."""

    jax: str = ""
    platform: str = ""
    gpus: int = 0
    nccl: str | None = None
    known_bad: list[str] = dataclasses.field(default_factory=list)
    plugin: bool | None = None  # libsymtuner.so was loaded by NCCL
    windows: bool | None = None  # XLA registered psum's buffers
    symmetric: bool | None = None  # NCCL ran a symmetric kernel for psum
    symmetric_from: str | None = None  # "ledger" or "NCCL's log"
    psum_right: bool | None = None
    all_reduce_right: bool | None = None
    path: str | None = None  # how ranks reach each other, from groups(); None: jax.lax runs
    xla_comm: bool | None = None  # XLA offers its communicators to calls across processes
    zero_copy: bool | None = None  # the large call used all ranks' buffers directly
    alignment: int | None = None  # alignment of XLA's buffers, in bytes
    kernels: dict[int, str] = dataclasses.field(default_factory=dict)  # bytes of a call -> kernel
    command_buffers: bool = False  # XLA may record the small call into CUDA graphs
    ffi: str | None = None  # version of the runtime's FFI API
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        def word(v: Any) -> str:
            return {None: "unknown", True: "yes", False: "no"}.get(v) or str(v)

        rows = [
            ("jax", self.jax),
            ("devices", f"{self.gpus} x {self.platform}"),
            ("NCCL", word(self.nccl)),
            ("psum: right", word(self.psum_right)),
            ("psum: plugin loaded", word(self.plugin)),
            ("psum: buffers in windows", word(self.windows)),
            (
                "psum: symmetric kernel",
                word(self.symmetric) + (f" ({self.symmetric_from})" if self.symmetric_from else ""),
            ),
            ("all_reduce: right", word(self.all_reduce_right)),
            ("all_reduce: reaches peers by", self.path or "does not: jax.lax runs"),
            ("all_reduce: XLA's communicators", XLA_COMM[self.xla_comm]),
            ("all_reduce: zero copy", word(self.zero_copy)),
            (
                "all_reduce: buffers aligned to",
                f"{self.alignment} bytes" if self.alignment else "unknown",
            ),
            ("all_reduce: command buffers", word(self.command_buffers)),
            ("XLA FFI", word(self.ffi)),
        ]
        rows += [(f"kernel at {size >> 10} KiB", text) for size, text in self.kernels.items()]
        rows += [("known about this NCCL", text) for text in self.known_bad]
        rows += [("PROBLEM", text) for text in self.problems]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _nccl_version() -> tuple[int, int, int] | None:
    try:
        nccl, number = ctypes.CDLL("libnccl.so.2"), ctypes.c_int()
        nccl.ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return None
    n = number.value
    return n // 10000, n // 100 % 100, n % 100


def _run(reduce: Any, ranks: int, size: int) -> bool:
    """Run ``reduce`` on small integers, ``size`` bytes per rank. Returns whether the sums are
    right."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()[:ranks]), ("i",))
    host = np.arange(ranks * (size // 4), dtype=np.int64).reshape(ranks, -1) % 13
    x = jax.device_put(host.astype(np.float32).reshape(-1), NamedSharding(mesh, P("i")))
    f = jax.jit(
        jax.shard_map(
            lambda v: reduce(v * 1, "i"),
            mesh=mesh,
            in_specs=P("i"),
            out_specs=P("i"),
            check_vma=False,
        )
    )
    got = np.asarray(f(x)).reshape(ranks, -1)
    return bool((got == host.sum(0)).all()) and bool(jnp.isfinite(got).all())


def psum_child(ranks: int) -> int:
    """Run one psum, in the child process. Returns the exit status."""
    import jax

    return 0 if _run(jax.lax.psum, ranks, _PSUM_BYTES) else 1


def _look_at_psum(report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log, ledger = pathlib.Path(folder, "nccl"), pathlib.Path(folder, "ledger")
        env = dict(
            os.environ,
            NCCL_DEBUG="INFO",
            NCCL_DEBUG_SUBSYS="INIT,ENV,TUNING,REG",
            NCCL_DEBUG_FILE=str(log),
            SYMTUNER_LEDGER=str(ledger),
            XLA_PYTHON_CLIENT_MEM_FRACTION="0.05",
        )
        env["PYTHONPATH"] = f"{pathlib.Path(__file__).parent.parent}:{env.get('PYTHONPATH', '')}"
        try:
            child = subprocess.run(
                [sys.executable, "-m", "symtuner", "psum", str(report.gpus)],
                env=env,
                capture_output=True,
                text=True,
                timeout=180,
            )
        except subprocess.TimeoutExpired:
            report.problems.append("a psum in a child process did not end within 180 s")
            return
        text = log.read_text(errors="replace") if log.exists() else ""
        counts = ledger.read_text(errors="replace") if ledger.exists() else ""
    report.psum_right = child.returncode == 0
    if not report.psum_right:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        report.problems.append(f"psum failed in a child process: {last[:300]}")
    if not text:
        report.problems.append(
            "NCCL wrote no log: psum did not use it, or NCCL_DEBUG_FILE is overridden"
        )
        return
    report.plugin = "symtuner" in "".join(
        re.findall(r"(?:TUNER|PROFILER|ENV)/Plugin: .*|.*Using symtuner.*", text)
    )
    report.windows = bool(re.search(r"register comm .* buffer .* size|Symmetric VA size", text))
    report.symmetric, report.symmetric_from = "[Symmetric]" in text, "NCCL's log"
    ran = [int(n) for n in re.findall(r"^ran .* symmetric=(\d+)", counts, re.M)]
    if ran:
        report.symmetric, report.symmetric_from = sum(ran) > 0, "ledger"


def _look_at_all_reduce(report: Report) -> None:
    import warnings

    from . import _groups, _xla
    from ._all_reduce import all_reduce
    from ._library import RECORDABLE, SymtunerError, idle, load

    if why := idle():
        report.problems.append(f"{why}, so symtuner changes nothing")
        return
    try:
        report.command_buffers = load().target(_REDUCE_BYTES[0], False, False, {}) == RECORDABLE
    except SymtunerError as e:
        report.problems.append(str(e))
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            report.all_reduce_right = all(_run(all_reduce, report.gpus, n) for n in _REDUCE_BYTES)
        except Exception as e:
            report.all_reduce_right = False
            report.problems.append(f"all_reduce: {str(e)[:300]}")
    if report.all_reduce_right is False and not report.problems:
        report.problems.append("all_reduce gave a wrong sum")
    report.problems += [str(w.message) for w in said if "symtuner" in str(w.message)]
    report.xla_comm = not _xla.why_not()
    seats = _groups.groups()
    if not seats:
        return
    facts = dict(f.split("=", 1) for f in seats[0].split())
    report.path, report.ffi = facts["comm"], facts.get("ffi")
    report.zero_copy = int(facts["zero-copy"]) > 0
    report.alignment = int(facts["aligned"]) or None
    for size in _REDUCE_BYTES:
        plan = _groups.plan(size // 4, 7, 0)
        if plan:
            name, ctas, threads, *_ = plan.split(" ", 5)
            report.kernels[size] = f"{name}, {ctas} blocks of {threads} threads"


def check(verbose: bool = True) -> Report:
    """Run one psum and two all_reduce calls, jitted, on all GPUs of this process. Returns a report,
    and prints it if ``verbose``."""
    from . import _without_jax

    try:  # the root of the repository has a folder jax/, which "import jax" alone would accept
        import jax.numpy
    except ModuleNotFoundError as e:
        raise _without_jax("check()", e) from None

    devices = jax.local_devices()
    report = Report(
        jax=jax.__version__,
        gpus=len(devices),
        platform=getattr(devices[0], "device_kind", devices[0].platform),
    )
    if devices[0].platform != "gpu":
        report.problems.append(f"jax runs on {devices[0].platform}; all_reduce needs CUDA GPUs")
    elif len(devices) < 2:
        report.problems.append("one GPU in this process: nothing to reduce over")
    elif jax.process_count() > 1:
        report.problems.append(
            "check() looks at one process with several GPUs; this program has "
            f"{jax.process_count()} processes"
        )
    else:
        _look_at_all_reduce(report)
        _look_at_psum(report)
        version = _nccl_version()
        report.nccl = ".".join(map(str, version)) if version else None
        if version is not None:
            report.known_bad = [text for _, first, last, text in _KNOWN if first <= version <= last]
    if verbose:
        print(report)
    return report

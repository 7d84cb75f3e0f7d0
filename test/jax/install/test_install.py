#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests symtuner.install() without a GPU.

Four CPU devices stand for GPUs. Random programs are lowered for CUDA, with and without install(),
and the tests read what became of their collectives. Then the same programs run on the CPU;
on_cpu.py says how.
"""

import os
import subprocess
import sys
import tempfile
import textwrap

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import test_all_reduce as base  # must be first: it sets up jax
from on_cpu import ALL, Asked, OnCpu
from programs import KEPT, Program, reductions, same
from test_all_reduce import LINE, SQUARE, raises, smap

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import symtuner  # noqa: E402
from symtuner import _install, _lowering, _report  # noqa: E402

jax.config.update("jax_disable_most_optimizations", True)  # so that XLA compiles faster
PROGRAMS = int(os.environ.get("CK_PROGRAMS", "200"))


def test_random_programs():
    """With and without install(), 200 programs give the same values. All collectives of types that
    our kernels have are replaced, but reduce-scatters and all-gathers only if their ranks are in
    the order of the devices' ids."""
    want, before = {}, {}
    for n in range(PROGRAMS):
        f, args = Program(n).function()
        before[n], ours = reductions(f, args)
        assert ours == 0, n
        want[n] = f(*args)
    with Asked(*ALL):
        symtuner.install(strict=False)
    replaced = kept = 0
    try:
        for n in range(PROGRAMS):
            program = Program(n)
            f, args = program.function()
            left, ours = reductions(f, args)
            stays = [
                what
                for what in before[n]
                if what.split()[1] in KEPT or not (program.in_order() or "all_reduce" in what)
            ]
            assert left == stays and ours == len(before[n]) - len(stays), (n, before[n], left, ours)
            replaced, kept = replaced + ours, kept + len(left)
    finally:
        symtuner.uninstall()
    with OnCpu() as cpu:
        for n in range(PROGRAMS):
            program = Program(n)
            f, args = program.function()
            cpu.mesh = program.mesh
            got = f(*args)
            assert same(got, want[n], program.tolerance()), (n, vars(program), got, want[n])
        assert cpu.ran > PROGRAMS / 2, cpu.ran
    assert replaced > PROGRAMS and kept > PROGRAMS / 100, (replaced, kept)


def test_a_wrong_group_gives_a_wrong_value():
    """A wrong group gives a wrong value, so the test above would notice it."""
    f = lambda: smap(lambda v: lax.psum(v, "i"), SQUARE, P("i", "j"), P("i", "j"))
    x = jnp.arange(16.0).reshape(4, 4)
    want, rows = f()(x), _lowering.rows
    with OnCpu() as cpu:
        cpu.mesh = SQUARE
        assert same(f()(x), want) and cpu.ran == 1
        _lowering.rows = lambda ctx, axes, groups: rows(ctx, ("j",), groups)
        try:
            assert not same(f()(x), want) and cpu.ran == 2
        finally:
            _lowering.rows = rows


def test_every_dimension_that_is_cut():
    """Check every dimension of all-gathers and reduce-scatters, tiled or not, forward and
    backward."""
    x = np.arange(4 * 24.0).reshape(16, 3, 2)

    def program(coll, tiled, at, vma):
        def cut(v):
            if coll == "all_gather":
                return lax.all_gather(v, "i", axis=at, tiled=tiled)
            parts = [v * (r + 1) for r in range(4)]
            whole = jnp.concatenate(parts, at) if tiled else jnp.stack(parts, at)
            return lax.psum_scatter(whole, "i", scatter_dimension=at, tiled=tiled)

        def both(v):
            loss = lambda u: (cut(u) * jnp.arange(cut(u).size).reshape(cut(u).shape)).sum()
            return cut(v), jax.grad(loss)(v)

        return smap(both, vma=vma)

    for coll in ("all_gather", "psum_scatter"):
        for tiled in (True, False):
            for at in range(3 + (not tiled)):
                for vma in (False, True):
                    want = program(coll, tiled, at, vma)(x)
                    with OnCpu() as cpu:
                        cpu.mesh = LINE
                        got = program(coll, tiled, at, vma)(x)
                        assert cpu.ran == 2, (coll, tiled, at, vma, symtuner.report())
                    right = [same(a, b) for a, b in zip(got, want, strict=True)]
                    assert right == [True, True], (coll, tiled, at, vma)
    gather = getattr(jax._src.lax.parallel, "all_gather_invariant", None)
    if gather:
        f = lambda: smap(lambda v: gather(v, "i", axis=1, tiled=True), vma=True, outs=P())
        want = f()(x)
        with OnCpu() as cpu:
            cpu.mesh = LINE
            assert same(f()(x), want) and cpu.ran == 1


def test_max_keeps_what_is_no_number():
    """Our maximum keeps a NaN, as the maximum of XLA does. XLA's own all-reduce drops a NaN if NCCL
    or the CPU runs it."""
    specials = [1.5, -2.0, float("inf"), -float("inf"), float("nan"), 0.0, -1e-30, 3e38]
    for name in ("float32", "float64", "bfloat16", "float16"):
        x = np.array([specials, specials[::-1], [-1.0] * 8, [-1.0] * 8]).astype(jnp.dtype(name))
        for by in (lax.pmax, lax.pmin):
            f = lambda: smap(lambda v: by(v, "i"))
            want = np.maximum.reduce(x) if by is lax.pmax else np.minimum.reduce(x)
            with OnCpu() as cpu:
                cpu.mesh = LINE
                got = f()(x)
                assert same(got[0], want) and cpu.ran == 1, (name, by.__name__, got, want)
    assert reductions(smap(lambda v: lax.pmax(v, "i")), (np.ones(4, "complex64"),))[1] == 0


# ---- what is replaced, and what is said about it -------------------------------------------------
class Installed:
    def __init__(self, **how):
        self.how = how

    def __enter__(self):
        symtuner.install(**self.how)

    def __exit__(self, *_):
        symtuner.uninstall()


def fate(f, *args):
    """Return how many reductions of this program our kernels run, how many XLA runs, and the
    reasons that the report gives."""
    _report.forget()
    left, ours = reductions(f, args)
    return ours, len(left), [call.why for call in symtuner.report() if not call.replaced]


def test_where():
    x, two = np.ones(8, np.float32), np.ones((4, 2), np.float32)
    inner = dict(in_specs=P("j"), out_specs=P(), axis_names={"j"}, check_vma=False)
    outer = dict(in_specs=P("i"), out_specs=P("i"), axis_names={"i"}, check_vma=False)
    partly = jax.shard_map(lambda v: lax.psum(v, "i"), mesh=SQUARE, **outer)
    nested = jax.shard_map(
        lambda w: jax.shard_map(lambda u: lax.psum(u, "j"), **inner)(w), mesh=SQUARE, **outer
    )
    single = Mesh(np.array(jax.devices()).reshape(4, 1), ("i", "j"))
    loss = lambda w, v: (lax.psum(jnp.sin(v * w), "i") ** 2).sum()
    step = jax.shard_map(jax.grad(loss), mesh=LINE, in_specs=(P(), P("i")), out_specs=P())
    psum = lambda **more: lambda v: lax.psum(v, "i", **more)
    uneven = [[0, 1, 2], [3]]

    def half(v):
        with symtuner.disabled():
            first = lax.psum(v, "i")
        return first + lax.psum(2 * v, "i")

    with Installed():
        assert fate(smap(psum(), vma=True, outs=P()), x) == (1, 0, [])
        assert fate(smap(psum()), x) == (1, 0, [])
        assert fate(smap(lambda v: symtuner.all_reduce(v, "i")), x) == (1, 0, [])
        assert fate(jax.pmap(psum(), axis_name="i"), two) == (1, 0, [])
        # two sums are replaced: the psum of the loss, and one that JAX adds for the gradient of the
        # weight, because the weight is the same on all devices
        assert fate(jax.jit(step), np.float32(2), x) == (2, 0, [])
        ours, left, why = fate(jax.jit(nested), x)
        # jax 0.9.2 gives this reason
        assert (ours, left) == (1, 0) or why == ["XLA partitions the program over i"]
        assert fate(jax.jit(partly), x) == (0, 1, ["XLA partitions the program over j"])
        assert fate(smap(lambda v: lax.psum(v, "j"), single), x) == (0, 1, ["one device"])
        assert fate(smap(lambda v: lax.psum(v, ("i", 0))), two)[2] == [
            "it reduces axes of the array, too"
        ]
        why = "the groups of axis_index_groups have different sizes"
        assert fate(smap(psum(axis_index_groups=uneven)), x) == (0, 1, [why])
        alone = [[0], [1], [2], [3]]
        assert fate(smap(psum(axis_index_groups=alone)), x)[2] == ["one device in each group"]
        assert fate(smap(psum()), np.ones((4, 0), np.float32)) == (0, 1, ["the array is empty"])
        assert fate(smap(psum()), np.ones(4, np.int16))[2] == ["NCCL has no data type int16"]
        assert fate(smap(half), x) == (1, 1, ["symtuner.disabled()"])
        with symtuner.disabled():
            assert fate(smap(psum()), x) == (0, 1, ["symtuner.disabled()"])
    assert fate(smap(psum()), x) == (0, 1, [])


def loops():
    """Return loops with a psum, and whether each only adds the psum to a value that it carries
    along."""
    psum, zeros = (lambda v: lax.psum(v, "i")), jnp.zeros_like
    steps = jnp.arange(3, dtype=jnp.float32)

    def scan(add, **more):
        return lambda x: lax.scan(lambda c, n: (add(c, x * n), None), zeros(x), steps, **more)[0]

    def pair(x):  # the first value is counted, and the second is carried along
        step = lambda c, n: ((c[0] + 1, c[1] + psum(x * n)), c[0] * 2)
        return lax.scan(step, (0, zeros(x)), steps)[0][1]

    def gradients(x):
        loss = lambda w, n: {"l": (w["a"] * x * n).sum() + (w["b"] * n).sum()}["l"]
        w = {"a": x, "b": x * 2}
        step = lambda c, n: (jax.tree.map(jnp.add, c, psum(jax.grad(loss)(w, n))), None)
        total = lax.scan(step, jax.tree.map(zeros, w), steps)[0]
        return total["a"] + total["b"]

    def swap(x):
        step = lambda c, n: ((c[1] + psum(x * n), c[0]), None)
        return lax.scan(step, (zeros(x), zeros(x)), steps)[0][1]

    times = lambda x: lax.fori_loop(0, 3, lambda n, c: c + psum(x * n), zeros(x))
    last = lambda x: (x[0, 0] * 0 + 3).astype(jnp.int32)
    until = lambda x: lax.fori_loop(0, last(x), lambda n, c: c + psum(x * n), zeros(x))
    narrow = lambda v: psum(v.astype(jnp.bfloat16)).astype(v.dtype).T.reshape(v.shape)
    return {
        "scan": (True, scan(lambda c, v: c + psum(v))),
        "turned": (True, scan(lambda c, v: psum(v) + c)),
        "converted": (True, scan(lambda c, v: c + narrow(v))),
        "pair": (True, pair),
        "gradients": (True, gradients),
        "fori_loop": (True, times),
        "while": (True, until),
        "both": (True, lambda x: times(x) + psum(x)),
        "mean": (False, scan(lambda c, v: c + lax.pmean(v, "i"))),
        "used": (False, scan(lambda c, v: c + psum(v * c))),
        "subtracted": (False, scan(lambda c, v: c - psum(v))),
        "of the total": (False, scan(lambda c, v: psum(c + v))),
        "swapped": (False, swap),
        "no loop": (False, lambda x: x + psum(x)),
    }


def test_sums_that_leave_a_loop():
    """XLA moves its own sum out of a loop if each iteration just adds the sum to a value that the
    loop carries along. So our rule leaves such sums to XLA (_lowering.py)."""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    for name, (leaves, f) in loops().items():
        want = smap(f)(x)
        with OnCpu() as cpu:
            cpu.mesh = LINE
            assert same(smap(f)(x), want, 0.02), name
            whys = {call.why for call in symtuner.report()}
        assert ("XLA may move it out of its loop" in whys) == leaves, (name, whys)
        assert cpu.ran == (name == "both" or not leaves), (name, cpu.ran)
    with Installed(strict=True):
        assert fate(smap(loops()["scan"][1]), x)[1] == 1, "no error, since XLA's is cheaper"


def test_long_sums():
    """Only the editor of the compiled program sees whether XLA could run a long sum beside matrix
    products. Where there is no editor, XLA runs the sum."""
    why = "XLA may run it beside matrix products"
    psum, pmax = (smap(lambda v, f=f: f(v, "i")) for f in (lax.psum, lax.pmax))
    edge, longer = (np.ones((4, n), np.float32) for n in (3 << 20, (3 << 20) + 1))
    with Installed(strict=True):
        assert fate(psum, edge) == (1, 0, [])
        assert fate(psum, longer) == (0, 1, [why]), "no error, since XLA's may be faster"
        assert fate(psum, longer.astype(np.float16)) == (1, 0, [])
        assert fate(pmax, longer) == (1, 0, [])


def test_only_what_was_asked_for():
    """XLA runs all-gathers and reduce-scatters unless SYMTUNER_ONLY names them. It also runs them
    where the ranks are not in the order of the devices' ids."""
    x = np.ones((4, 4), np.float32)
    both = lambda v: lax.all_gather(lax.psum_scatter(v[0], "i"), "i")
    turned = Mesh(np.array(jax.devices())[[1, 0, 2, 3]], ("i",))
    why = "SYMTUNER_ONLY does not name "
    with Installed():
        assert fate(smap(both), x) == (0, 2, [why + "reducescatter", why + "allgather"])
    with Asked("allgather"), Installed():
        assert fate(smap(both), x) == (1, 1, [why + "reducescatter"])
        assert fate(smap(lambda v: lax.psum(v, "i")), x) == (0, 1, [why + "allreduce"])
    with Asked(*ALL), Installed(strict=True):
        assert fate(smap(both), x) == (2, 0, [])
        wrong = "its ranks are not in the order of the devices' ids"
        raises(symtuner.SymtunerError, wrong, fate, smap(both, turned), x)
        psum = smap(lambda v: lax.psum(v, "i"), turned)
        assert fate(psum, x) == (1, 0, [])
    with Asked("allreduce", "gather"):
        wrong = "'gather' is unknown; write some of allreduce,reducescatter,allgather"
        raises(symtuner.SymtunerError, wrong, symtuner.install)


def test_disabled_is_part_of_the_key_of_jit():
    f = smap(lambda v: lax.psum(v, "i"))
    with OnCpu() as cpu:
        cpu.mesh = LINE
        for _ in range(2):
            f(np.ones(4))
            with symtuner.disabled():
                f(np.ones(4))
        fates = [call.replaced for call in symtuner.report()]
        assert cpu.ran == 1 and fates == [True, False], fates


def test_programs_of_before_are_lowered_again():
    f = smap(lambda v: lax.psum(v, "i"))
    want = f(np.ones(4))
    with OnCpu() as cpu:
        cpu.mesh = LINE
        assert same(f(np.ones(4)), want) and cpu.ran == 1
    assert same(f(np.ones(4)), want) and cpu.ran == 1


def test_report():
    with Installed():
        at = sys._getframe().f_lineno
        f = smap(lambda v: lax.psum(v, "i") + lax.pmax(v > 0, "i"))
        reductions(f, (np.ones((4, 2), np.float32),))
        (done, left) = symtuner.report()
        assert done.where == left.where == (__file__, at + 1), done
        assert done.replaced and done.what == "psum float32[1,2] over i", done
        assert not left.replaced and left.why == "NCCL has no data type bool", left
        text = str(symtuner.report()).splitlines()
        assert "1 kinds of reduction replaced, 1 left to XLA" in text[0] and len(text) == 3, text
        assert text[2].endswith("left to XLA: NCCL has no data type bool"), text


def test_strict():
    x = np.ones(4, np.float32)
    with Installed(strict=True):
        psum = smap(lambda v: lax.psum(v, "i"))
        assert fate(psum, x) == (1, 0, [])
        bad = smap(lambda v: lax.psum(v, "i"))
        raises(symtuner.SymtunerError, "no data type int16", reductions, bad, (x.astype("i2"),))
        single = Mesh(np.array(jax.devices()).reshape(4, 1), ("i", "j"))
        # on an axis with one device there is nothing to reduce
        assert fate(smap(lambda v: lax.psum(v, "j"), single), x)[:2] == (0, 1)
        with symtuner.disabled():
            assert fate(smap(lambda v: lax.psum(v, "i")), x)[:2] == (0, 1)


def test_without_a_library():
    p = fresh(
        """
        symtuner.install()
        print(reductions(f, x), symtuner.report()[0].why)
        try:
            symtuner.uninstall(), symtuner.install(strict=True)
            reductions(f, x)
        except symtuner.SymtunerError as e:
            print(e)
        """,
        SYMTUNER_LIB_DIR="/nonexistent",
    )
    first, second = p.stdout.splitlines()
    assert first.startswith("(['all_reduce f32'], 0) libsymtuner_ffi.so is not in /nonexistent"), p
    assert "psum cannot be replaced here" in second and "<string>:" in second, p


def test_devices_of_another_machine():
    class Described:
        platform, id = "cpu", 0

    raises(_install._Left, "another machine", _install._refuse_devices, [[Described()]])


def test_jax_that_hides_its_rules():
    from jax._src.interpreters import mlir as internals

    rules, internals._lowerings = internals._lowerings, {}
    try:
        raises(symtuner.SymtunerError, "so nothing is replaced", symtuner.install)
    finally:
        internals._lowerings = rules
    assert not _install._installed


# ---- the persistent compile cache ----------------------------------------------------------------
def fresh(code, **env):
    script = """
        import sys
        sys.path.insert(0, 'test/jax/install')
        import jax, jax.numpy as jnp, numpy as np
        import symtuner
        from programs import reductions as count
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()), ('i',))
        g = lambda v: jax.lax.psum(v, 'i')
        f = jax.jit(jax.shard_map(g, mesh=mesh, in_specs=P('i'), out_specs=P(), check_vma=False))
        x = np.ones(4, np.float32)
        reductions = lambda f, *args: count(f, args)
        """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script) + textwrap.dedent(code)],
        env=dict(os.environ, **env),
        text=True,
        capture_output=True,
        timeout=300,
    )


def test_gpus_that_are_not_the_default_platform():
    """With JAX_PLATFORMS=cpu,cuda, programs for GPUs are changed, too."""
    script = """
        import jax, symtuner, sys, types
        given, before = [], jax.devices
        seen = types.SimpleNamespace(install=given.append)
        sys.modules["symtuner._hlo"] = seen
        seen.__spec__ = sys.modules["symtuner"].__spec__
        if sys.argv[1] == "gpus":
            jax.devices = lambda *platform: ["a GPU"] if platform == ("cuda",) else before()
        symtuner.install()
        jax.jit(lambda v: v + 1)(2)
        jax.jit(lambda v: v + 2)(2)
        print(jax.default_backend(), len(given))
        """
    for gpus, want in (("gpus", "cpu 1\n"), ("none", "cpu 0\n")):
        command = [sys.executable, "-c", textwrap.dedent(script), gpus]
        p = subprocess.run(command, text=True, capture_output=True, timeout=300)
        assert p.stdout == want, (gpus, p.stdout, p.stderr)


# ---- the entry point -----------------------------------------------------------------------------
def test_entry_point():
    """With SYMTUNER_JAX=1 and the package installed, the program need not import or call
    anything."""
    script = """
        import jax, numpy as np, sys
        jax.devices()
        print('symtuner._install' in sys.modules)
        if 'symtuner._install' in sys.modules:
            import symtuner
            symtuner.install(strict=True)  # changes nothing: it is installed
            mesh = jax.sharding.Mesh(np.array(jax.devices()), ('i',))
            f = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, 'i'), in_specs=jax.P('i'),
                mesh=mesh, out_specs=jax.P(), check_vma=False))
            f.trace(np.ones(4)).lower(lowering_platforms=('cuda',))
            print(symtuner.report()[0].replaced)
        """
    with open("pyproject.toml", encoding="utf-8") as f:
        said = f.read().split("[project.entry-points.jax_plugins]\n")[1].splitlines()[0]
    with tempfile.TemporaryDirectory() as folder:
        info = os.path.join(folder, "symtuner-0.2.0.dist-info")
        os.mkdir(info)
        with open(os.path.join(info, "METADATA"), "w", encoding="utf-8") as f:
            f.write("Metadata-Version: 2.1\nName: symtuner\nVersion: 0.2.0\n")
        with open(os.path.join(info, "entry_points.txt"), "w", encoding="utf-8") as f:
            f.write(f"[jax_plugins]\n{said.replace(chr(34), '')}\n")

        def run(**env):
            path = f"{folder}:{os.environ['PYTHONPATH']}"
            env = {**os.environ, "PYTHONPATH": path, **env}
            command = [sys.executable, "-c", textwrap.dedent(script)]
            p = subprocess.run(command, env=env, text=True, capture_output=True, timeout=300)
            assert p.returncode == 0, p.stderr
            return p.stdout.split(), p.stderr

        assert run() == (["False"], "") and run(SYMTUNER_JAX="0")[0] == ["False"]
        assert run(SYMTUNER_JAX="1") == (["True", "True"], "")
        assert run(SYMTUNER_JAX="1", SYMTUNER_MODE="off") == (["True", "False"], "")
        said = run(SYMTUNER_JAX="report")[1].splitlines()
        assert "replaced, 0 left" in said[0] and len(said) == 2, said
        words, said = run(SYMTUNER_JAX="yes")
        assert "SYMTUNER_JAX='yes' is unknown; write one of 0, 1, report" in said, said
        assert said.count("\n") == 1 and words == ["True", "True"], said


if __name__ == "__main__":
    sys.exit(base.main(globals()))

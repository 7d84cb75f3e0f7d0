#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests SYMTUNER_MODE and SYMTUNER_JAX_STRICT, without a GPU.

The modes off and observe change no program. Strict mode raises an error where XLA would run a call,
even if this is decided only after XLA has partitioned the program. on_cpu.py says how our programs
run on CPU devices.
"""

import contextlib
import ctypes
import io
import os
import sys
import warnings

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import test_all_reduce as base  # must be first: it sets up jax
from on_cpu import OnCpu
from programs import reductions, same
from test_all_reduce import LINE, SQUARE, for_cuda, raises, smap

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import symtuner  # noqa: E402
from symtuner import _cache, _hlo, _install, _library, _presence, _say  # noqa: E402

X = np.ones((4, 4), np.float32)


class Set:
    """Sets environment variables. None means unset."""

    def __init__(self, **env):
        self.env = env

    def __enter__(self):
        self.saved = {name: os.environ.get(name) for name in self.env}
        self.put(self.env)

    def __exit__(self, *_):
        self.put(self.saved)

    def put(self, env):
        for name, value in env.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def psum():
    return smap(lambda v: lax.psum(v, "i"))


def text_of(f, *args):
    return f.trace(*args).lower(lowering_platforms=("cuda",)).as_text()


# ---- off and observe -----------------------------------------------------------------------------
def test_off():
    """In mode off no rule is registered, so JAX lowers every program as it does without us."""
    want = text_of(psum(), X)
    for strict in (None, True):
        with Set(SYMTUNER_MODE="off", SYMTUNER_JAX_STRICT="1"):
            symtuner.install(strict=strict)
            try:
                assert not _install._installed and not _install._own_rules and not _cache._saved
                assert text_of(psum(), X) == want
                said = [(call.replaced, call.why) for call in symtuner.report()]
                assert said == [(False, "SYMTUNER_MODE is off")], said
            finally:
                symtuner.uninstall()
    symtuner.install()
    try:
        assert reductions(psum(), (X,)) == ([], 1), "off does not last"
    finally:
        symtuner.uninstall()


def test_off_tells_the_others():
    """After install(), when JAX lowers the first program, this process tells the others that it is
    off."""
    told, say = [], _presence.say
    _presence.say = lambda *_: told.append(1)
    try:
        with Set(SYMTUNER_MODE="off"):
            symtuner.install()
            assert not told, "JAX's backends may not have started"
            reductions(psum(), (X,))
            assert told
            symtuner.uninstall()
            told.clear()
            reductions(psum(), (X,))
            assert not told
    finally:
        _presence.say = say


def test_observe():
    """In mode observe, the report says which calls would be replaced, and why other calls would
    not. Programs do not change, strict raises no error, and the compile cache is that of programs
    without us."""
    both = lambda: smap(lambda v: lax.psum(v, "i") + lax.psum(v.astype("int16"), "i"))
    want = text_of(both(), X)
    with Set(SYMTUNER_MODE="observe"):
        with OnCpu() as cpu:
            cpu.mesh = LINE
            assert same(both()(X), X * 8) and cpu.ran == 0
            assert not _cache._saved
            whys = [(call.replaced, call.why) for call in symtuner.report()]
            assert whys == [
                (False, "SYMTUNER_MODE is observe"),
                (False, "NCCL has no data type int16"),
            ], whys
        symtuner.install(strict=True)
        try:
            assert text_of(both(), X) == want
        finally:
            symtuner.uninstall()


def test_by_name():
    """In the modes off and observe, symtuner.all_reduce lowers each leaf as jax.lax does."""
    leaves = [X[:, i] for i in range(4)]
    ours = lambda: smap(lambda v: symtuner.all_reduce(v, "i"), outs=P("i"))
    # compare only the number of all-reduces: JAX numbers their functions differently without us
    count = lambda f: text_of(f, leaves).count("stablehlo.all_reduce")
    assert count(ours()) == 0 and for_cuda(ours(), leaves)
    for mode, said in (("off", 0), ("observe", 4)):
        with Set(SYMTUNER_MODE=mode, SYMTUNER_JAX_STRICT="1"):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                _say._said.clear()
                f = smap(lambda v: [symtuner.all_reduce(u, "i") for u in v], outs=P("i"))
                assert count(f) == 4 and not for_cuda(f, leaves), mode
                assert same(f(leaves), X * 4)
                assert count(ours()) == 4, (mode, "leaves share no calls")
            texts = {str(w.message) for w in caught}
            assert bool(texts) == (mode == "observe"), texts
            assert all("jax.lax instead: " in text for text in texts), texts


def test_open_group():
    """A program from jax.export may have our calls, which only our kernels can run. So a group
    that the program opens itself is open even if SYMTUNER_MODE is off. An error becomes a line
    on stderr."""
    for mode in ("off", "observe"):
        _say._said.clear()
        with Set(SYMTUNER_MODE=mode), contextlib.redirect_stderr(io.StringIO()) as said:
            symtuner.open_group(jax.devices())
            assert len(symtuner.groups()) == len(jax.devices())
            symtuner.open_group(jax.devices()[:1])
            symtuner.close()
        lines = said.getvalue().splitlines()
        assert len(lines) == 2 and f"SYMTUNER_MODE is {mode}, but symtuner.open_group()" in lines[0]
        assert "there is one GPU in the group" in lines[1], lines


def test_unknown_mode():
    with Set(SYMTUNER_MODE="on"):
        wrong = "SYMTUNER_MODE='on' is unknown; write one of steer, observe, off"
        raises(symtuner.SymtunerError, wrong, symtuner.install)
        assert not for_cuda(smap(lambda v: symtuner.all_reduce(v, "i")), X)


# ---- strict ------------------------------------------------------------------------------------
class Compiled(OnCpu):
    """Also edits the programs that XLA compiles for the CPU, where a fake of our calls reduces."""

    mesh = SQUARE

    def __init__(self, strict):
        self.strict = strict
        fake = ctypes.CDLL(os.path.join(os.environ["SYMTUNER_LIB_DIR"], "libfake_reduce.so"))
        for target in _library.TARGETS:
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(fake.fake_reduce), platform="cpu")

    def __enter__(self):
        self.before = _hlo.install, _install._has_gpus
        _hlo.install = lambda say: self.before[0](say, "cpu")
        _install._has_gpus = lambda: True
        super().__enter__()
        symtuner.install(strict=self.strict)
        return self

    def __exit__(self, *_):
        super().__exit__()
        _hlo.install, _install._has_gpus = self.before


def rows(f, strict, x=X):
    """Return the name and reason of each row of the report, and the error of the program."""
    error = ""
    x = jax.device_put(x, NamedSharding(SQUARE, P("i", "j")))
    with Compiled(strict):
        try:
            np.asarray(f(x))
        except Exception as e:
            error = str(e)
        return [(c.what.partition(".")[0], c.why) for c in symtuner.report()], error


def partly(by):
    """Return a reduction over i in a program that XLA partitions over j."""
    f = jax.shard_map(
        lambda v: by(v, "i"), mesh=SQUARE, in_specs=P("i"), out_specs=P(), axis_names={"i"}
    )
    return jax.jit(f)


NAN = "the kernels' maximum and minimum of floats lose a NaN"


def test_partly_manual():
    """Our rule leaves the call to _hlo.py, which edits the partitioned program. So the report has
    one row for the call, and strict mode raises an error only if XLA runs the call in the end."""
    for strict in (False, True):
        said, error = rows(partly(lax.psum), strict)
        assert [why for _, why in said] == [""] and not error, (strict, said, error)
        said, error = rows(partly(lax.pmax), strict)
        assert [why for _, why in said] == [NAN], (strict, said)
        assert bool(error) == strict and (not strict or NAN in error), (strict, error)


def test_strict_and_the_partitioner():
    """In strict mode, all-reduces that the partitioner inserts are an error if XLA would run them,
    but not if nobody asked to replace them."""
    total, greatest = (jax.jit(lambda x: x.sum(0))), (jax.jit(lambda x: x.max(0)))
    gather = jax.jit(lambda x: x * 1, out_shardings=NamedSharding(SQUARE, P()))
    for strict in (False, True):
        assert rows(total, strict) == ([("all-reduce", "")], "")
        said, error = rows(greatest, strict)
        assert said == [("all-reduce", NAN)], said
        assert bool(error) == strict and (not strict or "strict forbids to" in error), error
        said, error = rows(gather, strict)
        assert said and not error, (strict, said, error)
        assert all(why == "SYMTUNER_ONLY does not name allgather" for _, why in said), said


def test_strict_by_variable():
    with Set(SYMTUNER_JAX_STRICT="1"):
        assert "strict forbids" in rows(jax.jit(lambda x: x.min(0)), None)[1]


def test_one_row():
    """If the rule leaves a call to XLA for good, the report does not name it again when XLA
    compiles the program."""
    f = smap(lambda v: lax.psum(v, "i"), SQUARE, P("i", "j"), P("i", "j"))
    assert rows(f, False, X.astype(np.int16)) == (
        [("psum int16[2,2] over i", "NCCL has no data type int16")], ""
    )


def test_several_on_one_line():
    """In strict mode an all-reduce on which XLA's partitioner decides must be found, even if our
    rule has judged another call in the same line, or at the same column. If the two calls have
    different columns, the report names each once."""
    gather = ("all_gather float32[2,4] over i", "SYMTUNER_ONLY does not name allgather")
    sums = lambda v, i: lax.all_gather(v, i).sum(0)
    for by, more in (
        (lambda v, i: lax.pmax(v, i) + lax.all_gather(v, i).sum(0), 0),
        (lambda v, i: lax.all_gather(v, i).sum(0) + lax.pmax(v, i), 0),
        (lambda v, i: sum(f(v, i) for f in (sums, lax.pmax)), 0),
        (lambda v, i: sum(getattr(lax, f)(v, i).sum(0) for f in ("pmax", "all_gather")), 1),
    ):
        f = lambda: jax.jit(jax.shard_map(
            lambda v: by(v, "i"), mesh=SQUARE, in_specs=P("i"), out_specs=P(), axis_names={"i"},
            check_vma=False,
        ))
        said, error = rows(f(), False)
        assert said[0] == gather and ("pmax", NAN) in said and not error, (said, error)
        assert [what for what, _ in said].count("all_gather") == more, said
        assert NAN in rows(f(), True)[1]
    old = _install._of_compiled
    _install._of_compiled = lambda *row: old(*row[:5], 0)  # as for a program without columns
    try:
        f = smap(lambda v: lax.psum(v, "i"), SQUARE, P("i", "j"), P("i", "j"))
        assert len(rows(f, False, X.astype(np.int16))[0]) == 1
    finally:
        _install._of_compiled = old


# ---- programs that are not for CUDA --------------------------------------------------------------
ELSEWHERE = "the program is for cpu, not for CUDA"


def on_cpu(f, x=X, strict=False):
    """Run a program on the CPU, with install(). Return the reasons of the report, the report's
    text, stderr, and the error of the program."""
    error = ""
    _say._said.clear()
    symtuner.install(strict=strict)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            np.asarray(f(x))
        except symtuner.SymtunerError as e:
            error = str(e)
        finally:
            found = symtuner.report()
            symtuner.uninstall()
    return [call.why for call in found], str(found), said.getvalue(), error


def test_program_for_the_cpu():
    """The report, one line on stderr and, in strict mode, an error say that a program is not for
    CUDA. It is no error where XLA should run the call."""
    whys, _, said, error = on_cpu(psum())
    assert whys == [ELSEWHERE] and not error, (whys, error)
    assert said == f"symtuner: {ELSEWHERE}, so XLA runs its collectives\n", said
    at = sys._getframe().f_lineno + 1
    f = smap(lambda v: lax.psum(v, "i"))
    error = on_cpu(f, strict=True)[3]
    assert error.startswith(f"{__file__}:{at}: psum cannot") and error.endswith(ELSEWHERE), error
    f = smap(lambda v: lax.psum(v.astype("int16"), "i"))
    assert on_cpu(f)[0] == [ELSEWHERE]
    f = smap(lambda v: lax.all_gather(v, "i"))
    fine = ["SYMTUNER_ONLY does not name allgather"]
    whys, _, said, error = on_cpu(f, strict=True)
    assert whys == fine and not said and not error, (whys, said, error)
    with symtuner.disabled():
        assert on_cpu(psum(), strict=True)[3] == ""


def test_program_for_the_cpu_and_cuda():
    """In a program for both, the rule for CUDA decides, and only it reports the call. (JAX cannot
    lower a psum for both with install(), so this is a pmax of integers.)"""
    x = X.astype(np.int32)
    symtuner.install(strict=True)
    try:
        traced = smap(lambda v: lax.pmax(v, "i")).trace(x)
        text = traced.lower(lowering_platforms=("cpu", "cuda")).as_text()
        assert [call.replaced for call in symtuner.report()] == [True], symtuner.report()
        assert text.count("custom_call @symtuner_all_reduce") == 1, text
        assert "stablehlo.all_reduce" in text
    finally:
        symtuner.uninstall()


def test_partitioned_program_for_the_cpu():
    """symtuner does not see what the partitioner adds to programs for the CPU. An empty report says
    so. The next install() forgets it, and after uninstall() JAX's own rules are in force."""
    x = jax.device_put(X, NamedSharding(SQUARE, P("i", "j")))
    whys, text, said, error = on_cpu(jax.jit(lambda x: x.sum(0)), x, strict=True)
    assert whys == [] and not said and not error, (whys, said, error)
    line = "JAX has no CUDA devices here, only cpu, so XLA runs all collectives"
    assert text.splitlines()[1:] == [line], text
    assert line not in on_cpu(psum())[1]
    assert np.asarray(psum()(X)).shape == X.shape
    assert symtuner.report()[0].why == ELSEWHERE and len(symtuner.report()) == 1
    symtuner.install()
    try:
        assert not symtuner.report().why_empty
    finally:
        symtuner.uninstall()


def test_cache_of_strict_programs():
    """Strict mode does not read programs from the cache that were compiled without strict mode."""
    keys = set()
    for strict in (False, True):
        symtuner.install(strict=strict)
        keys.add(_cache._in_key())
        symtuner.uninstall()
    assert len(keys) == 2, keys


if __name__ == "__main__":
    sys.exit(base.main(globals()))

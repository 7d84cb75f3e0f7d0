#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run jax's own tests of collectives with and without install(), and compare what passes.

    python test/jax/install/jax_tests.py --jax DIR [--every N] [--limit S] [--log FOLDER] [FILE ...]

DIR is a checkout of jax at the tag of the installed jax, such as jax-v0.10.2. Run make test-jax
first, which builds the fakes, and install absl-py. FILE is the name of a test file, such as
shard_map_test. With --every only each N-th test runs. A file may take S seconds. The output of the
tests goes to files in FOLDER. The tests run on 8 CPU devices. Our rules and the edit of compiled
programs are registered for the CPU, where a fake of our custom call reduces. The exit status is 1
if a test passes only without install(), or if our calls did not run.
"""

import argparse
import ctypes
import importlib
import os
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
FAKES = os.path.join(ROOT, "build", "jax-test", "lib")
FILES = ("shard_map_test", "pmap_test", "async_collectives_test", "pjit_test")
DEVICES = 8


# ---- one file, in a process of its own -----------------------------------------------------------
class Printer(unittest.TestResult):
    """Prints one line for each test, so that the parent has the lines even if the process hangs."""

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def say(self, test, fate):
        # print one string, since other threads may print meanwhile
        name, seconds = test.id().split()[0], time.monotonic() - self.began
        print(f"\n:: {name} {fate}\ntook {seconds:.1f} s\n", end="", flush=True)

    def addSuccess(self, test):
        self.say(test, "passed")

    def addSkip(self, test, reason):
        self.say(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.say(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        print(self.failures[-1][1][-3000:], flush=True)
        self.say(test, "failed")

    def addError(self, test, err):
        super().addError(test, err)
        print(self.errors[-1][1][-3000:], flush=True)
        self.say(test, "failed")


def install():
    """Call install() for CPU devices. Return a function that counts the calls that ran."""
    sys.path.insert(0, os.path.join(ROOT, "jax"))
    import symtuner
    from symtuner import _hlo, _install, _library

    import jax

    fake = ctypes.CDLL(os.path.join(FAKES, "libfake_reduce.so"))
    for target in _library.TARGETS:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(fake.fake_reduce), platform="cpu")
    into = _hlo.install
    _hlo.install = lambda say: into(say, "cpu")
    _install._has_gpus = lambda: True
    _install._PLATFORM = "cpu"
    symtuner.install()
    return lambda: fake.fake_reduce_calls()


def child(name, folder, installed, every):
    sys.path.insert(0, os.path.join(folder, "tests"))
    from absl import flags
    from jax._src import test_util

    module = importlib.import_module(name)
    flags.FLAGS([name])
    count = install() if installed else lambda: 0
    found = test_util.JaxTestLoader().loadTestsFromModule(module)
    tests = [test for case in found for test in case]
    unittest.TestSuite(tests[::every]).run(Printer())
    print(f"\n:: calls {count()}\n", end="", flush=True)
    os._exit(0)


# ---- all files -----------------------------------------------------------------------------------
def run(name, asked, installed, log):
    """Return what became of each test of the file, and how many calls of ours ran."""
    env = dict(
        os.environ,
        JAX_PLATFORMS="cpu",
        JAX_NUM_CPU_DEVICES=str(DEVICES),
        SYMTUNER_LIB_DIR=FAKES,
        SYMTUNER_ONLY="allreduce,reducescatter,allgather",
        NPROC="16",  # test/jax/run.sh explains this
        JAX_CPU_ENABLE_ASYNC_DISPATCH="0",
        JAX_DISABLE_MOST_OPTIMIZATIONS="1",  # so that XLA compiles faster
    )
    words = [sys.executable, __file__, "--child", name, "--jax", asked.jax]
    words += ["--every", str(asked.every)]
    with open(log, "w+", encoding="utf-8") as out:
        p = subprocess.Popen(
            words + ["--installed"] * installed, env=env, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            code = p.wait(asked.limit)
        except subprocess.TimeoutExpired:
            p.kill()
            code = "too late"
        out.seek(0)
        lines = [line[3:].rsplit(maxsplit=1) for line in out if line.startswith(":: ")]
    if code != 0:
        print(f"{name}: ended with {code}, see {log}")
    fates = {line[0]: line[1] for line in lines if line[0] != "calls"}
    return fates, next((int(line[1]) for line in lines if line[0] == "calls"), None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jax", required=True)
    parser.add_argument("--limit", type=int, default=1800)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--log", default=".")
    parser.add_argument("--child")
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("files", nargs="*", default=FILES)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child, asked.jax, asked.installed, asked.every)
    bad = 0
    for name in asked.files:
        logs = [os.path.join(asked.log, f"{name}.{how}.log") for how in ("without", "with")]
        want, _ = run(name, asked, False, logs[0])
        got, calls = run(name, asked, True, logs[1])
        lost = sorted(t for t, fate in want.items() if fate == "passed" and got.get(t) != "passed")
        ours = "?" if calls is None else calls
        passed = [sum(fate == "passed" for fate in fates.values()) for fates in (want, got)]
        print(f"{name}: {passed[0]} pass without install(), {passed[1]} with;", end=" ")
        print(f"our calls ran {ours} times", flush=True)
        for test in lost:
            print(f"    passes only without: {test} ({got.get(test, 'did not end')})", flush=True)
        bad += bool(lost) or not want or not calls
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Tests bench/beside.py: its arguments, and a whole run with fakes of torch, NCCL and our library,
which compute nothing. So a misspelt name is found before the first run on GPUs."""
import contextlib
import csv
import io
import os
import subprocess
import sys
import tempfile
import types

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = os.path.join(ROOT, "bench", "beside.py")
SAID = []    # what beside.py asked of symtuner's library


def refuse(status, says, *arguments):
    done = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True,
                          env={k: v for k, v in os.environ.items() if k != "WORLD_SIZE"})
    assert done.returncode == status and says in done.stdout + done.stderr, (arguments, done)


def test_arguments():
    here = ("--library", PROGRAM)
    refuse(0, "--with own,16,default,ours", "--help")
    refuse(2, '"zz" is none of N, own', "--with", "8,zz")
    refuse(2, '"0" is none of N, own', "--with", "0")
    refuse(2, '"ours:tma:" is none of N, own', "--with", "ours:tma:", *here)
    refuse(2, '"ours:tma::256" is none of N, own', "--with", "ours:tma::256", *here)
    refuse(2, "NCCL takes no kernel", "--with", "8:tma", *here)
    refuse(2, "name the library with --library", "--with", "16,staged")
    refuse(2, "there is no such file", "--with", "default", "--library", "/nowhere")
    refuse(2, "0: at least 1", "--rounds", "0")
    refuse(2, "1: at least 2", "--step", "1")
    refuse(2, '"gather" is none of allreduce', "--colls", "gather")
    refuse(2, '"x" is none of alone', "--what", "beside,x")
    refuse(77, "skipped: it needs", "--with", "8,general,ours:tma:8,staged:chunked,default", *here)


class Thing:
    """A tensor, a stream, an event or a graph; ``value`` is what it holds."""

    def __init__(self, value=0.0):
        self.value = value
        self.cuda_stream = 1

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: self

    def __getitem__(self, _):
        return self

    def __sub__(self, _):
        return self

    __truediv__ = __sub__

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def item(self):
        return self.value

    tolist = item

    def elapsed_time(self, _):
        return 2.0


def fake_torch():
    thing = lambda *_, **__: Thing()
    cuda = types.SimpleNamespace(Stream=thing, Event=thing, CUDAGraph=thing, graph=thing,
                                 stream=thing,
                                 current_stream=thing, synchronize=thing, set_device=thing,
                                 device_count=lambda: 2)
    torch = types.SimpleNamespace(
        cuda=cuda, as_tensor=thing, manual_seed=thing, randn=thing, empty_like=thing, mm=thing,
        tensor=lambda value, **_: Thing(value), bfloat16=0, uint8=0)
    dist = types.SimpleNamespace(init_process_group=thing, barrier=thing, broadcast=thing,
                                 all_reduce=thing, ReduceOp=types.SimpleNamespace(MAX=0))
    return torch, dist


class Library:
    """Stands for a library that ctypes has opened. Every function of it takes a list of argument
    types, and succeeds."""

    def __getattr__(self, name):
        def function(*arguments):
            if name == "symtuner_ar_create":
                SAID.append(os.environ["SYMTUNER_AR_BESIDE"])
            if name == "symtuner_ar_force":
                SAID.append(arguments[1:])
            if name == "symtuner_ar_query_coll":
                arguments[-1]._obj.kernel = b"chunked"
            if name == "ncclCommWindowRegister":
                arguments[3]._obj.value = 1
            return 0
        setattr(self, name, function)
        return function


def test_a_run():
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    os.environ.update(RANK="0", WORLD_SIZE="2", LOCAL_RANK="0")
    import beside
    ended = []
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "rows.csv")
        beside.torch, beside.dist = fake_torch()
        beside.load = Library
        beside.ctypes.CDLL = lambda _: Library()
        beside.ctypes.string_at = lambda *_: bytes(128)
        beside.os = types.SimpleNamespace(environ=os.environ, path=os.path, _exit=ended.append)
        sys.argv = ["beside.py", "--library", PROGRAM, "--with",
                    "own,16,general,ours,staged:tma:8:256,default",
                    "--rounds", "2", "--step", "64", "--out", out]
        with contextlib.redirect_stdout(io.StringIO()) as text:
            beside.main()
        rows = list(csv.DictReader(open(out)))
    assert ended == [0]
    assert "16: 16 CTAs, general: NCCL's own CTAs, ours: chunked/0/0" in text.getvalue()
    assert SAID == ["alone", "alone", (b"tma", 8, 256), "unknown"], SAID
    kinds = {(r["what"], r["coll"]) for r in rows}
    assert kinds == {(w, c) for w in ("alone", "beside", "comm", "behind")
                     for c in beside.COLLS}, kinds
    assert {r["contender"] for r in rows} == {"own", "16", "general", "ours", "staged:tma:8:256",
                                              "default", "A/A"}
    assert len(rows) == 2 * 7 * 3 * (4 + 6 + 6 + 3), len(rows)    # rounds, contenders, colls, sizes


if __name__ == "__main__":    # test_nodes.py imports this file for its fakes
    test_arguments()
    test_a_run()
    print("test_beside: all as expected")

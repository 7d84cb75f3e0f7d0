#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests bench/scoreboard without a GPU: its plan, its tables, its driver on workers with known
times, and what prepare.py does to a library."""

import atexit
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/scoreboard"))

import crew  # noqa: E402
import plan  # noqa: E402
import prepare  # noqa: E402
import table  # noqa: E402

WORK = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, WORK)
FAKE = str(ROOT / "test/bench/fake_worker.py")


def run(words, **env):
    return subprocess.run([sys.executable, str(ROOT / "bench/scoreboard/scoreboard.py"),
                           *words.split()],
                          capture_output=True, text=True, timeout=300, cwd=WORK, check=False,
                          env={**os.environ, **env})


def fails(call, why):
    try:
        call()
    except (SystemExit, ValueError) as error:
        assert why in str(error), error
    else:
        raise AssertionError(f"did not fail: {why}")


def test_plan():
    assert plan.sizes(1024, 8192, 2) == [1024, 2048, 4096, 8192]
    fails(lambda: plan.sizes(1024, 512, 2), "sizes begin at 256")
    names = [c.name for c in plan.CONTENDERS]
    assert len(set(names)) == len(names)
    assert {*plan.OURS.values(), *plan.AGAIN.values()} <= set(names)
    for n in (1, 2, 5):    # each contender runs once a round, and begins one of n rounds
        assert all(sorted(plan.turns(n, r)) == list(range(n)) for r in range(n))
        assert sorted(plan.turns(n, r)[0] for r in range(n)) == list(range(n))
    fails(lambda: plan.chosen("sglang/*,nonsense"), "--only nonsense: no such contender")
    assert {c.crew for c in plan.chosen("sglang/*")} == {"ours", "sglang"}
    assert not plan.CONTENDERS[-1].takes("allreduce", "bf16", 1024)
    assert plan.replays(0) == 1 and plan.replays(1e9) == 1 and plan.replays(10) == 20
    assert "prepare.py" in plan.needs("sglang", WORK / "none", None)[1]
    assert "make kernels" in plan.needs("ours", None, WORK / "none.so")[1]


def test_tables():
    def rows(who, *times):
        return [(2, "alone", "allreduce", "bf16", 1024, who, r, us) for r, us in enumerate(times)]

    # the rounds drift by a factor of 2, but the ratios within a round do not
    drift = rows(plan.OURS["alone"], 10, 20, 30) + rows("vllm", 10.1, 20.2, 30.3)
    line = table.tables(drift)[2, "alone", "allreduce", "bf16"][1024]
    assert line["us"] == 20 and abs(line["rival"][0] - 1 / 1.01) < 1e-9 and line["aa"] is None
    assert not table.behind(line)
    slow = rows(plan.OURS["alone"], 10, 10, 10) + rows("vllm", 9.9, 9.9, 9.9)
    assert table.behind(table.tables(slow)[2, "alone", "allreduce", "bf16"][1024])
    # two equal contenders differ by 2 %
    noisy = slow + rows(plan.AGAIN["alone"], 10.3, 9.8, 10.2)
    line = table.tables(noisy)[2, "alone", "allreduce", "bf16"][1024]
    assert abs(line["aa"] - 0.02) < 1e-9 and not table.behind(line)
    best = (slow + rows("sglang/default", 11, 11, 11) + rows("sglang/1shot_push", 9, 9, 9)
            + rows("staged", 1, 1, 1))
    line = table.tables(best)[2, "alone", "allreduce", "bf16"][1024]
    assert line["best"]["SGLang"][1] == "sglang/1shot_push"
    assert line["rival"][1] == "sglang/1shot_push"
    # staged is our own contender, so it is no rival
    assert set(line["best"]) == {"vLLM", "SGLang"}
    some = rows(plan.OURS["alone"], 1, 1) + [rows("vllm", 0, 2)[1]]    # the rival lost round 0
    assert table.tables(some)[2, "alone", "allreduce", "bf16"][1024]["rival"][0] == 0.5
    assert table.tables(rows("vllm", 1)) == {}
    assert table.read(table.text(best).splitlines()) == best
    fails(lambda: table.read(["round,us"]), "the first line is not")
    fails(lambda: table.read([table.HEAD, "2,alone,allreduce"]), "line 2 is not a row")
    # beside: ours is "default"
    beside = [(2, "beside", *row[2:]) for row in slow + rows("default", 9, 9, 9)]
    assert table.tables(beside)[2, "beside", "allreduce", "bf16"][1024]["us"] == 9
    words, lost = table.markdown(best)
    assert lost == 1 and "| 1 KiB | 10.00 |" in words and "**behind**" in words, words


def peers():
    folder = WORK / "peers"
    folder.mkdir(exist_ok=True)
    (folder / "about.json").write_text(json.dumps({"sglang": "1", "nccl": ["2.30.7"]}))
    (folder / "nccl-2.30.7.so.2.xz").write_text("")
    (WORK / "ours.so").write_text("")
    return f"--peers {folder} --library {WORK}/ours.so --worker {FAKE} --max 4096 --rounds 3"


def test_driver():
    log = WORK / "log"
    done = run(f"{peers()} --types bf16 --what alone,beside --out rows.csv", FAKE_LOG=str(log))
    assert done.returncode == 0, done
    for word in ("not here: MSCCL++", "not here: nccl-2.32.3: ", "not here: flashinfer: ",
                 "sglang: fake", "no torch/two_shot from 1024 bytes of bf16 on: too few tokens"):
        assert word in done.stdout, (word, done.stdout)
    rows = table.read((WORK / "rows.csv").read_text().splitlines())
    each = {(what, size, who) for _, what, _, _, size, who, _, _ in rows}
    assert len(rows) == 3 * len(each) and {what for what, _, _ in each} == {"alone", "beside"}
    times = {(row[5], row[4]): row[7] for row in rows if row[1] == "alone"}
    # the table gives the time of the slowest rank in the median sample
    assert abs(times[plan.OURS["alone"], 1024] - (2 + 1024 / 1e5 + 0.001)) < 0.01
    lines = table.tables(rows)[2, "alone", "allreduce", "bf16"]
    assert lines[1024]["rival"][1] == "sglang/1shot_push" and lines[1024]["aa"] == 0
    assert "ours is behind at 0 sizes" in done.stdout and (WORK / "rows.csv.md").exists()
    first = [line for line in log.read_text().splitlines()][:60]
    n = len(set(first))    # every contender must have its turn before any has a second one
    assert len(set(first[:n])) == n and first[n:2 * n] == first[1:n] + first[:1], first
    again = run("--from rows.csv")
    assert again.returncode == 0 and "ours is behind at 0 sizes" in again.stdout, again
    slower = run(f"{peers()} --types bf16 --out slow.csv", FAKE_OURS="1.5")
    assert slower.returncode == 0 and "ours is behind at 3 sizes" in slower.stdout, slower


def test_trouble():
    for trouble, why in (("end", "a process ended"), ("wrong", "WRONG: element 0"),
                         ("no", "ImportError")):
        done = run(f"{peers()} --types f32 --out trouble.csv", FAKE_TROUBLE=f"sglang:{trouble}")
        rows = table.read((WORK / "trouble.csv").read_text().splitlines())
        assert why in done.stdout and done.returncode == (trouble == "wrong"), (trouble, done)
        assert not any(r[5].startswith("sglang") for r in rows)
        assert any(r[5] == "nccl-box/general" for r in rows)
    done = run(f"{peers()} --types f32 --out trouble.csv", FAKE_TROUBLE="ours:end")
    assert done.returncode == 1 and "our own processes" in done.stdout, done
    done = run(f"{peers()} --only sglang/*", FAKE_TROUBLE="sglang:no")
    assert done.returncode == 77 and "no rival runs" in done.stdout, done
    done = run("--library none.so --peers none --only sglang/*")
    assert done.returncode == 77 and "not here: ours: no libsymtuner_ar.so" in done.stdout, done
    for words, why in (("--colls broadcast", "'broadcast' is none of"),
                       ("--ranks 1", "--ranks wants"), ("--from none.csv", "No such file")):
        done = run(words)
        assert done.returncode == 2 and why in done.stderr, done
    # without the fake worker, torch or a GPU is missing on this machine
    real = run(f"{peers()} --only torch/*".replace(f"--worker {FAKE}", ""))
    assert real.returncode == 77 and "not here: ours:" in real.stdout, real
    done = run(f"{peers()} --list")
    assert done.returncode == 0 and "flashinfer/pcie_64" in done.stdout
    assert "prepare.py --only flashinfer" in done.stdout


def test_silence():
    """If a rank does not answer in time, the driver ends all processes of its crew."""
    one = crew.Crew("sglang", FAKE, 2, {"FAKE_TROUBLE": "sglang:hang"}, 4096, 0)
    assert one.ready() == "fake"
    assert one.ask(do="prepare", slot=0, how="x", bytes=1024) == [{"ok": "x"}] * 2
    assert one.ask(seconds=1, do="alone", slot=0, samples=1) is None
    assert one.lost == "no answer for 1 s"
    assert all(process.returncode is not None for process in one.processes)
    assert one.ask(do="drop") is None


def test_prepare():
    def entry(kind, arch, code):
        head = (struct.pack("<HHIQ", kind, 0x101, 64, len(code)) + bytes(12)
                + struct.pack("<I", arch))
        return head.ljust(64, b"\0") + code

    parts = entry(2, 80, b"a" * 100) + entry(2, 90, b"b" * 60) + entry(1, 90, b"p" * 40)
    blob = b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, len(parts)) + parts
    library = bytearray(b"elf" * 7 + blob + b"tail" + blob)
    assert prepare.thin(library, [90]) == 2 * 140 and len(library) == 25 + 2 * len(blob)
    assert b"a" * 2 not in library and library.count(b"b" * 60) == 2 and b"p" * 2 not in library
    assert b"elf" * 7 in library and b"tail" in library
    # these bytes begin like a fat binary, but they are none
    assert prepare.thin(bytearray(b"\x50\xed\x55\xba" + b"\xff" * 40), [90]) == 0
    root = WORK / "root"
    root.mkdir()
    for module in prepare.MODULES:
        words = prepare.command(module, root, WORK, [90])
        assert "-gencode=arch=compute_90a,code=sm_90a" in words
        assert f"{WORK}/{module[0]}.so" in words
    text = (root / "sglang_f32_4.cu").read_text()
    assert ("TVM_FFI_DLL_EXPORT_TYPED_FUNC(all_reduce, (AllReduceKernel<fp32_t, 4, true>::run));"
            in text)


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
    print("scoreboard: the plan, the tables, the driver and prepare.py do what they should")

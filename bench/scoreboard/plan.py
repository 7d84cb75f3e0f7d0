# SPDX-License-Identifier: Apache-2.0
"""Who is measured, and at which sizes: tables and pure functions, without torch.

A contender is one way to run a collective: a project, and the project's name for this way. The
contenders of a crew run in the same processes, one per GPU. Each NCCL release needs a crew of its
own.
"""
import dataclasses
import fnmatch
import json
import os
import pathlib

COLLS = ("allreduce", "allgather", "reducescatter")
WIDTH = {"bf16": 2, "f32": 4}
ALL, REDUCE = COLLS, ("allreduce",)
GREATEST = 512 << 20


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str         # what rows and tables call it
    group: str        # the project; a table shows the best contender of each group
    crew: str
    how: str          # tells the worker which kernel to run
    colls: tuple = REDUCE
    types: tuple = ("bf16", "f32")
    most: int = GREATEST    # bytes of the largest call

    def takes(self, coll, kind, size):
        return coll in self.colls and kind in self.types and size <= self.most


def _nccl(release):
    ways = ["general", "own"] + [str(ctas) for ctas in (8, 16, 24, 32, 64)]
    return [Contender(f"nccl-{release}/{'general' if way == 'general' else 'sym-' + way}",
                      f"NCCL {release}", f"nccl-{release}", way, ALL) for way in ways]


# {what is measured: our contender, which is compared with all others}. "ours" knows that its calls
# run alone; nobody tells "default" what runs beside its calls. AGAIN names the same contenders a
# second time: two times of one contender show the noise (A/A).
OURS = {"alone": "ours", "beside": "default"}
AGAIN = {what: f"{name} A/A" for what, name in OURS.items()}
CONTENDERS = [
    *[Contender(name, "symtuner", "ours", OURS[what], ALL)
      for what in OURS for name in (OURS[what], AGAIN[what])],
    Contender("staged", "symtuner", "ours", "staged", ALL),
    *_nccl("box"), *_nccl("2.30.7"), *_nccl("2.32.3"),
    Contender("torch/one_shot", "torch", "torch", "one_shot", most=16 << 20),
    Contender("torch/two_shot", "torch", "torch", "two_shot"),
    Contender("torch/low_contention", "torch", "torch", "low_contention", COLLS[1:]),
    Contender("sglang/default", "SGLang", "sglang", "default", most=128 << 20),
    Contender("sglang/1shot_push", "SGLang", "sglang", "1shot_push", most=16 << 20),
    Contender("sglang/2shot_push", "SGLang", "sglang", "2shot_push", most=32 << 20),
    Contender("sglang/1shot_pull", "SGLang", "sglang", "1shot_pull", most=128 << 20),
    Contender("sglang/2shot_pull", "SGLang", "sglang", "2shot_pull"),
    Contender("vllm", "vLLM", "flashinfer", "vllm"),
    *[Contender(f"flashinfer/{how}", "FlashInfer", "flashinfer", how,
                most=4 << 20 if "one" in how else GREATEST)
      for how in ("trt_one:1024", "trt_one:4096", "trt_two:1024", "trt_two:4096")],
    *[Contender(f"flashinfer/pcie_{blocks}_{variant}", "FlashInfer", "flashinfer",
                f"pcie:{blocks}:{variant}", types=("bf16",), most=128 << 20)
      for blocks in (16, 128) for variant in (0, 1)],
    *[Contender(f"flashinfer/pcie_{blocks}", "FlashInfer", "flashinfer", f"pcie:{blocks}:",
                COLLS[1:], most=128 << 20) for blocks in (16, 64)],
]

# Projects that this program cannot measure. Each run prints this list, because the tables do not
# mention them.
NEVER = {
    "MSCCL++": "has no package on PyPI; ar_compare --peers measures it (bench/compare/peer.h)",
    "nccl-tests": "its kernels need its sources; ar_compare --peers measures them",
    "torch 2.15's symm_mem": "a wheel of 539 MB; the torch of the box runs instead",
    "vLLM 0.33's own build": "a wheel of 336 MB for torch 2.14; FlashInfer's copy of the kernel "
                             "runs instead",
}


def needs(crew, peers, library):
    """Return (environment variables of the crew, None), or (None, why the crew cannot run).

    ``peers`` is the folder that prepare.py made, ``library`` is libsymtuner_ar.so. Each may be
    None."""
    here = peers is not None
    if crew == "ours":
        if library is None or not pathlib.Path(library).exists():
            return None, f"no libsymtuner_ar.so at {library}; build it: make kernels"
        return {"SCOREBOARD_LIBRARY": os.path.abspath(library)}, None
    if crew in ("torch", "nccl-box"):
        return {}, None
    if not here or not (pathlib.Path(peers) / "about.json").exists():
        return None, (f"no peers at {peers}; make them: "
                      f"python3 bench/scoreboard/prepare.py --to {peers}")
    about = json.loads((pathlib.Path(peers) / "about.json").read_text())
    if crew.startswith("nccl-"):
        release = crew[5:]
        file = os.path.abspath(f"{peers}/nccl-{release}.so.2.xz")
        if not os.path.exists(file):
            return None, f"{peers} has no NCCL {release}; run prepare.py --only nccl"
        return {"SCOREBOARD_NCCL": file}, None
    if crew not in about:
        return None, f"{peers} has no {crew}; run prepare.py --only {crew}"
    return {"SCOREBOARD_PEERS": os.path.abspath(peers)}, None


def chosen(only):
    """Return the contenders that match one of the patterns of ``only``, and those of OURS and
    AGAIN."""
    patterns = only.split(",") if only else ["*"]
    known = [c for c in CONTENDERS
             if c.name in {*OURS.values(), *AGAIN.values()}
             or any(fnmatch.fnmatch(c.name, p) for p in patterns)]
    for pattern in patterns:
        if not any(fnmatch.fnmatch(c.name, pattern) for c in CONTENDERS):
            raise SystemExit(f"--only {pattern}: no such contender; there are "
                             + ", ".join(c.name for c in CONTENDERS))
    return known


def sizes(least, most, step):
    """Return ``least`` times every power of ``step``, up to ``most``."""
    if least < 256 or most < least or step < 2:
        raise SystemExit("sizes begin at 256 bytes or more and grow by a factor of 2 or more")
    out = []
    while least <= most:
        out.append(least)
        least *= step
    return out


def turns(n, rnd):
    """Return the order in which ``n`` contenders take their turns in a round. Each round begins
    with a different contender."""
    return [(i + rnd) % n for i in range(n)]


def calls(size):
    """Return how many calls a graph has. ``size``: bytes of a call."""
    return 4 if size > 128 << 20 else 8 if size > 32 << 20 else 20


def replays(us, budget_us=2000):
    """Return how many times a graph that takes ``us`` microseconds is replayed for one sample."""
    return max(1, min(20, int(budget_us / us))) if us > 0 else 1

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of a decoder in plain JAX, with XLA's all-reduces and with symtuner's.

RMSNorm, grouped attention with a cache, SwiGLU; bf16, random weights. Nothing in the model names
symtuner. Each program is compiled three times in one process:

  xla        as it is
  symtuner   the same source after symtuner.install()
  none       without reductions: its numbers are wrong, but neither of the others can be faster

The three ways run in turns. `xla` runs twice in each round, which shows by how much two runs of one
program differ (A/A). When a program has been measured, a line of JSON with its results is printed.
In each round xla's time is divided by symtuner's time; the gain of the program is the median of
these ratios. stderr says which phase runs, and how many seconds each took.

programs: decode (one token for each sequence of a batch), prefill (--seq tokens), train (forward
and backward), data (a data-parallel step, which reduces gradients), gspmd and gspmd_train (sharded
arrays, no collective in the source).

  jax_tp.py --ranks 2                       one process drives all GPUs
  jax_tp.py --ranks 2 --processes           one process per GPU
  jax_tp.py --cpu --layers 2 --hidden 64 --heads 4 --kv 2 --ffn 64 --seq 16    does it run at all?

Exit 1: an output is wrong, or symtuner replaced nothing on GPUs.
"""

import argparse
import contextlib
import functools
import gc
import json
import os
import socket
import statistics
import sys
import time

import turns

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "jax"))
PROGRAMS = ("decode", "prefill", "train", "data", "gspmd", "gspmd_train")
WAYS = ("xla", "symtuner", "none")
TURNS = ("xla", "symtuner", "none", "xla again")


def options():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--programs", default=",".join(PROGRAMS))
    p.add_argument("--batch", default="1,16,64", help="sizes of the batch in decode and gspmd")
    sizes = dict(layers=32, train_layers=8, hidden=4096, heads=32, kv=8, ffn=14336, seq=2048)
    for name, default in {**sizes, "ranks": 2, "rounds": 5, "steps": 32}.items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    p.add_argument("--processes", action="store_true", help="one process for each GPU")
    half = (
        "which half of install() acts: psum's lowering, or the edit of XLA's partitioned programs"
    )
    p.add_argument("--half", choices=["both", "lowering", "hlo"], default="both", help=half)
    p.add_argument("--cpu", action="store_true", help="on CPU devices: nothing is replaced there")
    p.add_argument("--out", help="write the lines to this file, too")
    p.add_argument("--rank", help=argparse.SUPPRESS)
    a = p.parse_args()
    unknown = [name for name in a.programs.split(",") if name not in PROGRAMS]
    if unknown:
        p.error(f"--programs: {unknown[0]!r} is unknown; write some of {', '.join(PROGRAMS)}")
    for name in ("heads", "kv", "ffn"):
        if getattr(a, name) % a.ranks:
            p.error(f"--{name} {getattr(a, name)} is not a multiple of --ranks {a.ranks}")
    if a.hidden % a.heads or a.heads % a.kv:
        p.error("--hidden must be a multiple of --heads, and --heads one of --kv")
    if not a.batch.replace(",", "").isdigit():
        p.error(f"--batch {a.batch!r}: write numbers with commas")
    if a.cpu and a.processes:
        p.error("--cpu runs in one process")
    return a


# ---- the model -----------------------------------------------------------------------------------
def norm(x, gain):
    import jax.numpy as jnp
    from jax import lax

    y = x.astype(jnp.float32)
    return (y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * gain


def layer(a, reduce, x, w, cache, pos):
    """Run one layer. x: [batch, tokens, hidden], the same on all ranks; cache: [2, batch, seq, kv
    heads, D], or None for attention among the tokens of x. The numbers of heads follow from the
    weights."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    d = a.hidden // a.heads
    tokens = x.shape[1]
    y = norm(x, w["norm1"])
    q, k, v = ((y @ w[n]).reshape(*x.shape[:2], w[n].shape[1] // d, d) for n in ("wq", "wk", "wv"))
    q = q.reshape(*x.shape[:2], k.shape[2], a.heads // a.kv, d)
    mask = jnp.tril(jnp.ones((tokens, tokens), bool))
    if cache is not None:
        cache = lax.dynamic_update_slice(cache, jnp.stack([k, v]), (0, 0, pos, 0, 0))
        (k, v), mask = cache, jnp.arange(a.seq) <= pos
    s = jnp.einsum("btkgd,bskd->bkgts", q, k, preferred_element_type=jnp.float32) * d**-0.5
    s = jax.nn.softmax(jnp.where(mask, s, -1e30), -1).astype(x.dtype)
    o = jnp.einsum("bkgts,bskd->btkgd", s, v).reshape(*x.shape[:2], w["wo"].shape[0])
    x = x + reduce(o @ w["wo"])
    y = norm(x, w["norm2"])
    return x + reduce((jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]), cache


def stack(a, reduce, ws, x, caches=None, pos=None):
    made = []
    for i, w in enumerate(ws):
        x, cache = layer(a, reduce, x, w, caches[i] if caches else None, pos)
        made.append(cache)
    return x, tuple(made)


def loss(a, reduce, ws, x):
    import jax.numpy as jnp

    y, _ = stack(a, reduce, ws, x)
    return (y.astype(jnp.float32) ** 2).mean()


# ---- the programs --------------------------------------------------------------------------------
class Bench:
    """Programs, weights and timings on the devices of a mesh with one axis."""

    def __init__(self, a):
        import jax
        import jax.numpy as jnp
        import numpy as np
        from jax.sharding import Mesh
        from jax.sharding import PartitionSpec as P

        self.a, self.jax, self.jnp, self.np, self.P = a, jax, jnp, np, P
        self.mesh = Mesh(np.array(jax.devices()[: a.ranks]), ("tp",))
        d, h = a.hidden // a.heads, a.hidden
        across, down = P(None, "tp"), P("tp", None)  # weights split by columns; by rows
        self.weights = {
            "norm1": ((h,), P()),
            "wq": ((h, h), across),
            "wk": ((h, a.kv * d), across),
            "wv": ((h, a.kv * d), across),
            "wo": ((h, h), down),
            "norm2": ((h,), P()),
            "gate": ((h, a.ffn), across),
            "up": ((h, a.ffn), across),
            "down": ((a.ffn, h), down),
        }
        self.cache_spec = P(None, None, None, "tp", None)
        self.makers, self.made = {}, {}  # what random() compiled; layers that several programs use

    @contextlib.contextmanager
    def phase(self, name):
        """Print on stderr which phase begins, and at its end how long it took."""
        begin, first = time.perf_counter(), self.jax.process_index() == 0
        if first:
            print(f"  {name} ... ", end="", file=sys.stderr, flush=True)
        yield
        if first:
            print(f"{time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)

    def on(self, spec):
        return self.jax.sharding.NamedSharding(self.mesh, spec)

    def random(self, key, shape, spec):
        """Return random numbers, made by one compiled program for each shape and placement."""
        scale = 0.02 if len(shape) > 1 else 0.0

        def make(k):
            noise = self.jax.random.normal(k, shape, self.jnp.bfloat16)
            return noise * scale + (not scale)

        k = self.jax.random.key(key)
        if (shape, spec) not in self.makers:
            made = self.jax.jit(make, out_shardings=self.on(spec)).lower(k).compile()
            self.makers[shape, spec] = made
        return self.makers[shape, spec](k)

    def layer_of(self, i, replicated):
        P = self.P
        if (i, replicated) not in self.made:
            self.made[i, replicated] = {
                name: self.random(100 * i + j, shape, P() if replicated else spec)
                for j, (name, (shape, spec)) in enumerate(self.weights.items())
            }
        return self.made[i, replicated]

    def layers(self, count, replicated):
        return tuple(self.layer_of(i, replicated) for i in range(count))

    def arguments(self, program, batch):
        """Return the weights, the input and the caches, each placed as ``program`` wants it."""
        a, P = self.a, self.P
        training = program in ("train", "data", "gspmd_train")
        decodes = program in ("decode", "gspmd")
        ws = self.layers(a.train_layers if training else a.layers, program == "data")
        shape = (batch, 1 if decodes else a.seq, a.hidden)
        x = self.random(9, shape, P("tp") if program == "data" else P())
        if not decodes:
            return ws, x, ()
        shape = (2, batch, a.seq, a.kv, a.hidden // a.heads)
        caches = tuple(self.random(7, shape, self.cache_spec) for _ in ws)
        return ws, x, caches

    def step(self, program, way):
        """Return the function that runs one step: it takes (weights, x, caches, pos), and returns
        these four for the next step."""
        a, jax, jnp, P = self.a, self.jax, self.jnp, self.P
        sharded = program.startswith("gspmd") and way != "none"

        def reduce(v):
            if way == "none":
                return v
            if sharded:
                return jax.lax.with_sharding_constraint(v, self.on(P()))
            return v if program == "data" else jax.lax.psum(v, "tp")

        def infer(ws, x, caches, pos):
            y, caches = stack(a, reduce, ws, x, caches or None, pos)
            return (
                ws,
                norm(y, jnp.ones(a.hidden, y.dtype)),
                caches if x.shape[1] == 1 else (),
                pos + 1,
            )

        def train(ws, x, caches, pos):
            grads = jax.grad(functools.partial(loss, a, reduce))(ws, x)
            new = jax.tree.map(lambda w, g: (w - 0.001 * g).astype(w.dtype), ws, grads)
            return new, x, caches, pos + 1

        f = train if program in ("train", "data", "gspmd_train") else infer
        if sharded:
            return f
        whole = program == "data"
        specs = {name: P() if whole else spec for name, (_, spec) in self.weights.items()}
        count = a.layers if f is infer else a.train_layers
        caches = (self.cache_spec,) * (a.layers if program in ("decode", "gspmd") else 0)
        places = ((specs,) * count, P("tp") if whole else P(), caches, P())
        return jax.shard_map(
            f, mesh=self.mesh, in_specs=places, out_specs=places, check_vma=way != "none"
        )

    def compile(self, program, way, args):
        """Compile one way of a program. Two ways must not be compiled at the same time: install()
        acts on the whole process, and XLA times GEMM kernels on the GPU to choose among them. XLA
        keeps its choice of GEMM kernels for the ways that are compiled later."""
        shardings = self.jax.tree.map(lambda v: v.sharding, args)
        f = self.jax.jit(self.step(program, way), donate_argnums=2, out_shardings=shardings)
        with self.phase(f"{way}: trace and lower"):
            lowered = f.lower(*args)
        with self.phase(f"{way}: compile"):
            return lowered.compile()

    def run(self, compiled, args, steps):
        """Run ``steps`` steps, each on the results of the step before. Return the seconds per step
        and the last results."""
        self.jax.block_until_ready(args)
        begin, (ws, x, caches, pos) = time.perf_counter(), args
        for _ in range(steps):
            ws, x, caches, pos = compiled(ws, x, caches, pos)
        self.jax.block_until_ready((ws, x))
        return (time.perf_counter() - begin) / steps, (ws, x, caches, pos)

    def value(self, results):
        ws, x, _, _ = results
        one = [v.addressable_shards[0].data for v in (x, ws[0]["wo"], ws[-1]["norm1"])]
        return [self.np.asarray(v.astype(self.jnp.float32)) for v in one]

    def differs(self, got, want):
        """Return the greatest difference of ``got`` from ``want``, divided by the greatest number
        in ``want``."""
        pairs = zip(self.value(got), want)
        return max(float(abs(g - w).max() / max(abs(w).max(), 1e-30)) for g, w in pairs)


def measure(bench, program, batch, say):
    """Compile and time one program. Returns whether all is right."""
    import symtuner
    from symtuner import _install

    a = bench.a
    with bench.phase("weights and input"):
        ws, x, caches = bench.jax.block_until_ready(bench.arguments(program, batch))
    pos = bench.jax.device_put(bench.jnp.int32(0), bench.on(bench.P()))
    runs = {way: bench.compile(program, way, (ws, x, caches, pos)) for way in ("xla", "none")}
    if a.half == "hlo":
        _install.PRIMITIVES = {}
    symtuner.install()
    if a.half == "lowering":
        _install._hlo = False
    runs["symtuner"] = bench.compile(program, "symtuner", (ws, x, caches, pos))
    report = symtuner.report()
    symtuner.uninstall()
    runs["xla again"] = runs["xla"]
    steps = min(a.steps, a.seq) if caches else max(1, a.steps // 8)

    want, differs = None, 0.0
    for way in WAYS:  # two runs: XLA records command buffers only in the second
        with bench.phase(f"{way}: first runs"):
            for _ in range(2):
                _, got = bench.run(runs[way], (ws, x, caches, pos), min(3, a.seq))
                caches = got[2]
        if way == "xla":
            want = bench.value(got)
        elif way == "symtuner":
            differs = bench.differs(got, want)
        del got
    times = {way: [] for way in TURNS}
    with bench.phase(f"{a.rounds} rounds of {len(TURNS)} times {steps} steps"):
        for turn in range(a.rounds):
            for way in TURNS if turn % 2 else TURNS[::-1]:
                seconds, got = bench.run(runs[way], (ws, x, caches, pos), steps)
                caches = got[2]
                del got
                times[way].append(seconds)

    tokens = x.shape[0] * x.shape[1]
    ratios = {
        way: sorted(b / s for b, s in zip(times["xla"], times[way]))
        for way in TURNS
        if way != "xla"
    }
    line = dict(
        program=program,
        batch=batch,
        **{f"{way} tokens/s": round(tokens / statistics.median(times[way]), 1) for way in WAYS},
        gain=round(statistics.median(ratios["symtuner"]), 4),
        gain_range=[round(ratios["symtuner"][0], 4), round(ratios["symtuner"][-1], 4)],
        aa_range=[round(ratios["xla again"][0], 4), round(ratios["xla again"][-1], 4)],
        floor=round(statistics.median(ratios["none"]), 4),
        replaced=sum(call.replaced for call in report),
        left=sorted({call.why for call in report if not call.replaced}),
        differs=differs,
        ranks=a.ranks,
        processes=bench.jax.process_count(),
        half=a.half,
        layers=a.layers if program in ("decode", "prefill", "gspmd") else a.train_layers,
        hidden=a.hidden,
        seq=a.seq,
        jax=bench.jax.__version__,
        device=bench.jax.devices()[0].device_kind,
        xla_flags=os.environ.get("XLA_FLAGS", ""),
    )
    say(json.dumps(line))
    on_gpus = bench.jax.devices()[0].platform == "gpu"
    right = differs < 0.05 and not (on_gpus and line["replaced"] == 0)  # false if differs is nan
    if not right:
        say(f"FAILED: {program}, batch {batch}: differs {differs}, replaced {line['replaced']}")
    return right


def work(a):
    if a.cpu:
        os.environ["JAX_PLATFORMS"] = "cpu"
        flag = f"--xla_force_host_platform_device_count={a.ranks}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    import jax

    if a.rank:
        rank, port = map(int, a.rank.split(":"))
        jax.distributed.initialize(f"127.0.0.1:{port}", a.ranks, rank)
    if len(jax.devices()) < a.ranks:
        sys.exit(f"jax_tp.py: --ranks {a.ranks}, but there are {len(jax.devices())} devices")
    out = open(a.out, "w", encoding="utf-8") if a.out and not jax.process_index() else None

    def say(text):
        if jax.process_index() == 0:
            print(text, flush=True)
        if out:
            print(text, file=out, flush=True)

    bench, right = Bench(a), True
    for program in a.programs.split(","):
        batches = a.batch.split(",") if program in ("decode", "gspmd") else ["1"]
        if program == "data":
            batches = [str(a.ranks)]  # one sequence for each rank
        for batch in map(int, batches):
            if not jax.process_index():
                print(f"{program}, batch {batch}", file=sys.stderr, flush=True)
            right &= measure(bench, program, batch, say)
            gc.collect()  # frees this program's compiled code and caches
    if a.rank:
        import symtuner

        symtuner.close()
        jax.distributed.shutdown()
    return 0 if right else 1


def main():
    a = options()
    if not a.processes or a.rank:
        return work(a)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(a.ranks)))).split(",")
    turns.exit_on_signals()
    children = []
    try:
        for r in range(a.ranks):
            turns.start(
                children,
                [sys.executable, *sys.argv, "--rank", f"{r}:{port}"],
                env=dict(os.environ, CUDA_VISIBLE_DEVICES=seen[r]),
            )
        return max(abs(child.wait()) for child in children)
    finally:
        for child in children:
            child.kill()
            child.wait()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time steps of PyTorch programs, and single all-reduces. bench/torch_steps.py runs this program.

    python3 -m torch.distributed.run --nproc_per_node 2 bench/torch_programs.py \\
        [--programs decode,calls]

decode   one token for each sequence of a batch, tensor parallel, shapes of Llama-8B: 32 layers with
         two all-reduces each, in a CUDA graph
ddp      forward and backward of 16 layers (hidden 2048, 1024 tokens) in DistributedDataParallel
fsdp     the same layers in fully_shard (FSDP2)
calls    all-reduces of bf16 by size: in a CUDA graph, and eagerly (host time included)

Each line of the output is JSON, with a time in us. The time of each sample is that of the slowest
rank; the time in a line is the median of the samples. "exposed" is the time of a step minus that of
the same step without communication, and "each" is decode's exposed time for each all-reduce.

Before this program times a step or a call, it checks the results of the step or call for fresh
random data. It adds up the sums itself, from what all_gather_into_tensor brings, or from numbers
that every rank draws. Before a check it fills the output and the memory around it with NaN, so that
old data cannot look right. There are two exceptions. An all-reduce works in place, so the program
fills only the memory around its buffer. Gradients of DDP and FSDP2 hold data of an earlier step
with another seed. Exit 1: a result is wrong.

--pretend prints invented times, without torch. The variable PRETEND scales the communication in
them.
"""
import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional as F
except ImportError:    # --help and --pretend work without torch
    torch = dist = nn = F = None

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"decode": (1, 16, 64, 256), "ddp": (2, 8), "fsdp": (2, 8),
         "calls": (8 * KIB, 64 * KIB, 512 * KIB, 4 * MIB, 32 * MIB, 256 * MIB)}
DECODE = {"layers": 32, "hidden": 4096, "ffn": 14336, "kv": 1024}
TRAIN = {"layers": 16, "hidden": 2048, "heads": 16, "tokens": 1024}
GUARD = 1024    # elements of NaN before and behind the buffer of an all-reduce


def gpus_needed(ranks):
    """Return how many GPUs ``ranks`` ranks need: one for all in the setting of
    test/gpu/one/one.sh."""
    return 1 if "ONE_GPU_FOLDER" in os.environ else ranks


def tell(**line):
    if RANK == 0:
        print(json.dumps(line), flush=True)


def tell_step(program, size, step, without, calls=0):
    for what, us in (("step", step), ("without", without), ("exposed", step - without)):
        tell(program=program, size=size, what=what, us=us)
    if calls:
        tell(program=program, size=size, what="each", us=(step - without) / calls)


def pretend(programs):
    factor, noise = float(os.environ.get("PRETEND", "1")), random.Random()
    tell(about={"torch": "none"})
    for program in programs:
        for size in SIZES[program]:
            us = 400 * factor * noise.uniform(0.995, 1.005)
            if program == "calls":
                tell(program=program, size=size, what="graph", us=us)
                tell(program=program, size=size, what="eager", us=us + 20)
            else:
                tell_step(program, size, 1000 + us, 1000,
                          2 * DECODE["layers"] * (program == "decode"))


# ---- measuring -----------------------------------------------------------------------------------
class Ranks:
    """What the ranks do together. ``control`` is a gloo group, which carries numbers without
    NCCL."""

    def __init__(self):
        self.control = dist.new_group(backend="gloo")
        self.one = torch.ones(1, device="cuda")
        self.seed = int(self.most(time.time_ns() % (1 << 40)))    # another seed in each run

    def most(self, value):
        t = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(t, dist.ReduceOp.MAX, group=self.control)
        return t.item()

    def fresh(self, rank=-1):
        """Return a generator of random numbers for rank ``rank``. If ``rank`` is -1, all ranks get
        the same generator. To get other numbers, the caller first increments ``seed``."""
        return torch.Generator("cuda").manual_seed(self.seed * 64 + rank + 1)

    def right(self, what, error, most):
        """End the program on all ranks if ``error`` is above ``most`` on any rank."""
        worst = self.most(error if error == error else float("inf"))
        if worst > most:
            tell(wrong=f"{what}: {worst:g}, allowed {most:g}")
            sys.stdout.flush()
            os._exit(1)

    def begin(self):
        """Let the ranks' GPUs begin at the same time with what comes next."""
        torch.cuda.synchronize()
        dist.barrier(group=self.control)
        dist.all_reduce(self.one)
        self.one.fill_(1)

    def gpu_us(self, run, repeat, samples, before=None, lead=True):
        """Time ``repeat`` runs by events. ``lead``: first do a run that is not timed, so that the
        host can launch the timed runs meanwhile."""
        times, (first, last) = [], (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(samples):
            if before:
                before()
            self.begin()
            if lead:
                run()
            first.record()
            for _ in range(repeat):
                run()
            last.record()
            torch.cuda.synchronize()
            times.append(self.most(first.elapsed_time(last) * 1e3 / repeat))
        return statistics.median(times)

    def host_us(self, run, repeat, samples, before):
        """Time ``repeat`` runs by the host's clock, from the launch of the first until the GPU has
        ended the last."""
        times = []
        for _ in range(samples):
            before()
            self.begin()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(repeat):
                run()
            torch.cuda.synchronize()
            times.append(self.most((time.perf_counter() - start) * 1e6 / repeat))
        return statistics.median(times)


def graph_of(run):
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = run()
    return graph, out


def gathered(part):
    """Return what all ranks have in ``part``, one after the other in the first dimension."""
    out = torch.full((RANKS * part.numel(),), float("nan"), device=part.device, dtype=part.dtype)
    dist.all_gather_into_tensor(out, part.flatten())
    return out.view(RANKS, *part.shape)


def apart(got, expected):
    return ((got.float() - expected.float()).norm() / expected.float().norm()).item()


# ---- single calls --------------------------------------------------------------------------------
def calls(ranks, size):
    """Check and time all-reduces in place. After the first call all ranks have the same numbers, so
    each further call multiplies them by RANKS. RANKS is a power of two, so bf16 holds the results
    exactly until they overflow. The timed runs begin with numbers near 2^-120 and end before
    2^120."""
    count, most = size // 2, 240 // (RANKS.bit_length() - 1)
    whole = torch.full((count + 2 * GUARD,), float("nan"), device="cuda", dtype=torch.bfloat16)
    x = whole[GUARD:-GUARD]

    def draw(rank):
        return torch.randint(-8, 9, (count,), generator=ranks.fresh(rank), device="cuda",
                             dtype=torch.int8).to(torch.bfloat16)

    def check(what, run, times):
        ranks.seed += 1
        x.copy_(draw(RANK))
        run()
        expected = draw(0).float()
        for r in range(1, RANKS):
            expected += draw(r)
        wrong = (x.float() != expected * float(RANKS) ** (times - 1)).sum()
        touched = (~whole[:GUARD].isnan()).sum() + (~whole[-GUARD:].isnan()).sum()
        ranks.right(f"all-reduce of {size} bytes, {what}: wrong elements",
                    (wrong + touched).item(), 0)

    def once():
        dist.all_reduce(x)

    in_graph = 20 if size <= 32 * MIB else 5
    check("eager", once, 1)
    graph, _ = graph_of(lambda: [once() for _ in range(in_graph)])
    check("graph", graph.replay, in_graph)
    start = draw(RANK) * 2.0 ** -120
    us = ranks.gpu_us(graph.replay, min(10, most // in_graph - 1), 9, before=lambda: x.copy_(start))
    tell(program="calls", size=size, what="graph", us=us / in_graph)
    del graph    # otherwise NCCL would wait for this graph when the communicator ends
    us = ranks.host_us(once, min(50, most) if size <= 32 * MIB else 5, 9,
                       before=lambda: x.copy_(start))
    tell(program="calls", size=size, what="eager", us=us)


# ---- a decode step -------------------------------------------------------------------------------
class Decoder:
    """A rank's share of the weights of each layer: those for query, key and value, for attention's
    output, and for both inputs and the output of the feed-forward part. A decode step reads all
    weights for a few rows; attention itself is left out."""

    def __init__(self, ranks):
        hidden, ffn = DECODE["hidden"], DECODE["ffn"]
        mine, random_numbers = hidden // RANKS, ranks.fresh(RANK)
        shapes = ((hidden, mine + 2 * DECODE["kv"] // RANKS), (mine, hidden),
                  (hidden, 2 * ffn // RANKS), (ffn // RANKS, hidden))
        self.mine, self.layers = mine, [
            [torch.randn(s, generator=random_numbers, device="cuda", dtype=torch.bfloat16)
             * s[0] ** -0.5 for s in shapes] for _ in range(DECODE["layers"])]

    def step(self, x, add_up):
        width = x.shape[-1:]
        for heads, out, up, down in self.layers:
            x = x + add_up((F.rms_norm(x, width) @ heads)[:, :self.mine] @ out)
            gate, value = (F.rms_norm(x, width) @ up).chunk(2, -1)
            x = x + add_up((F.silu(gate) * value) @ down)
        return x


def by_library(part):
    dist.all_reduce(part)
    return part


def by_hand(part):
    return gathered(part).float().sum(0).to(part.dtype)


def decode(ranks, batch, decoder):
    ranks.seed += 1
    x = torch.empty(batch, DECODE["hidden"], device="cuda", dtype=torch.bfloat16)
    numbers, us = ranks.fresh(), []
    for add_up in (by_library, lambda part: part):
        x.copy_(torch.randn(x.shape, generator=numbers, device="cuda"))
        decoder.step(x, add_up)    # so that CUDA's libraries are loaded before the capture
        graph, out = graph_of(lambda: decoder.step(x, add_up))
        if add_up is by_library:
            x.copy_(torch.randn(x.shape, generator=numbers, device="cuda"))
            out.fill_(float("nan"))
            graph.replay()
            ranks.right(f"decode, batch {batch}: error", apart(out, decoder.step(x, by_hand)), 0.02)
        us.append(ranks.gpu_us(graph.replay, 5, 9))
        del graph
    tell_step("decode", batch, *us, 2 * DECODE["layers"])


# ---- training steps ------------------------------------------------------------------------------
def blocks(seed):
    """Return the model, with the same weights on all ranks."""
    class Block(nn.Module):
        def __init__(self, hidden, heads):
            super().__init__()
            self.heads = heads
            self.before, self.between = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
            self.qkv, self.out, self.up, self.down = (
                nn.Linear(i * hidden, o * hidden, bias=False)
                for i, o in ((1, 3), (1, 1), (1, 4), (4, 1)))

        def forward(self, x):
            qkv = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1))
            q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.between(x))))

    torch.manual_seed(seed)
    with torch.device("cuda"):
        return nn.Sequential(*(Block(TRAIN["hidden"], TRAIN["heads"])
                               for _ in range(TRAIN["layers"]))).to(torch.bfloat16)


def gradients(model, x):
    model(x).float().square().mean().backward()
    return [p.grad for p in model.parameters()]


def timed_steps(ranks, model, x, alone=contextlib.nullcontext, keep=False):
    """Return the us of a step of the model. ``alone``: the context of a step. ``keep``: whether
    gradients keep their memory from step to step."""
    def step():
        with alone():
            gradients(model, x)
        model.zero_grad(set_to_none=not keep)
    for _ in range(3):
        step()
    return ranks.gpu_us(step, 2, 5, lead=False)


def train(ranks, batch, which):
    shape = (batch, TRAIN["tokens"], TRAIN["hidden"])
    model = blocks(ranks.seed % (1 << 31))
    xs = []
    for _ in range(2):    # xs[1] is for the step that is checked, xs[0] for a step before it
        ranks.seed += 1
        xs.append(torch.randn(shape, generator=ranks.fresh(RANK), device="cuda",
                              dtype=torch.bfloat16))
    x = xs[1]
    expected = [gathered(g).float().mean(0).to(g.dtype) for g in gradients(model, x)]
    model.zero_grad()
    if which == "ddp":
        model = nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()],
                                                    gradient_as_bucket_view=True)
    else:
        without = timed_steps(ranks, model, x)
        from torch.distributed.fsdp import fully_shard
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    gradients(model, xs[0])
    model.zero_grad(set_to_none=which == "fsdp")
    got = gradients(model, x)
    if which == "fsdp":
        got = [g.to_local() for g in got]
        expected = [e.chunk(RANKS)[RANK] for e in expected]
    ranks.right(f"{which}, batch {batch}: error", max(map(apart, got, expected)), 0.02)
    del expected, got
    model.zero_grad(set_to_none=which == "fsdp")
    step = timed_steps(ranks, model, x, keep=which == "ddp")
    if which == "ddp":
        without = timed_steps(ranks, model, x, alone=model.no_sync, keep=True)
    tell_step(which, batch, step, without)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join(SIZES))
    parser.add_argument("--pretend", action="store_true")
    given = parser.parse_args()
    programs = given.programs.split(",")
    if not set(programs) <= set(SIZES):
        parser.error(f"--programs {given.programs}: write some of {', '.join(SIZES)}")
    if given.pretend:
        return pretend(programs)
    if (torch is None or RANKS not in (2, 4, 8, 16)
            or torch.cuda.device_count() < gpus_needed(RANKS)):
        print("torch_programs.py: skipped: it needs torch, 2, 4, 8 or 16 ranks, and a GPU for each",
              file=sys.stderr)
        return 77
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    ranks = Ranks()
    tell(about={"torch": torch.__version__, "NCCL": ".".join(map(str, torch.cuda.nccl.version())),
                "CUDA": torch.version.cuda, "GPU": torch.cuda.get_device_name()})
    for program in programs:
        decoder = Decoder(ranks) if program == "decode" else None
        for size in SIZES[program]:
            if program == "calls":
                calls(ranks, size)
            elif program == "decode":
                decode(ranks, size, decoder)
            else:
                train(ranks, size, program)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    dist.barrier(group=ranks.control)
    sys.stdout.flush()
    os._exit(0)    # ncclCommFinalize can wait for graphs that still exist


if __name__ == "__main__":
    sys.exit(main())

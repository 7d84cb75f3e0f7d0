#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One process of a crew, on the GPU of its rank (crew.py has the questions that it answers).

    worker.py CREW MOST          MOST: bytes of the largest call

The environment has RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and SCOREBOARD_REPLY (a file
descriptor).

Every prepared call is checked before it is timed. Each rank sends whole numbers of its own, the
output is filled with NaN first, and every element of the output must be the exact result. One check
runs a single call. A second check runs the graph that will be timed, unless the call works in
place. NVLink multicast is never used.
"""
import json
import os
import sys
import time

reply = os.fdopen(int(os.environ.get("SCOREBOARD_REPLY", "3")), "w", buffering=1)
RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "2"))


def say(**answer):
    reply.write(json.dumps(answer) + "\n")


class Bench:
    """What all crews share: the GPU, the check, the graphs, the GEMMs."""

    def __init__(self, crew, most):
        import torch
        import torch.distributed as dist

        import peers
        self.torch, self.dist = torch, dist
        torch.cuda.set_device(RANK)
        dist.init_process_group("cpu:gloo,cuda:nccl", device_id=None)
        self.cpu = dist.new_group(backend="gloo")
        self.types = {"bf16": torch.bfloat16, "f32": torch.float32}
        self.stream = torch.cuda.Stream(priority=-1)
        self.slots, self.gemm = {}, None
        self.project = peers.make(crew, self, most)

    def barrier(self):
        self.torch.cuda.synchronize()
        self.dist.barrier(group=self.cpu)

    def numbers(self, rank, n, size, kind):
        """Return the numbers that ``rank`` sends. They are so small that sums over 16 ranks are
        exact in bf16, and none of them is 0."""
        torch = self.torch
        source = torch.Generator(device="cuda").manual_seed(1000003 * rank + size)
        drawn = torch.randint(1, 9, (n,), generator=source, device="cuda", dtype=torch.int8)
        return drawn.to(self.types[kind])

    def lengths(self, coll, kind, size):
        """Return how many elements a rank sends, and how many it receives. ``size``: bytes of the
        longer buffer."""
        whole = size // self.types[kind].itemsize
        return (whole // RANKS if coll == "allgather" else whole,
                whole // RANKS if coll == "reducescatter" else whole)

    def wanted(self, coll, kind, size):
        torch, n = self.torch, self.lengths(coll, kind, size)[0]
        if coll == "allgather":
            return torch.cat([self.numbers(rank, n, size, kind) for rank in range(RANKS)])
        total = torch.zeros(n, device="cuda", dtype=self.types[kind])
        for rank in range(RANKS):
            total += self.numbers(rank, n, size, kind)
        part = n // RANKS
        return total if coll == "allreduce" else total[RANK * part:(RANK + 1) * part]

    def checked(self, call, want, start, out=None):
        """Fill the output with NaN, ``start`` the call, and compare. Returns None, or what is
        wrong."""
        torch, out = self.torch, call.out if out is None else out
        call.send.copy_(self.numbers(RANK, call.send.numel(), call.size, call.kind))
        if out is not None:
            out.fill_(float("nan"))
        else:    # the project allocates its output, probably in the memory that this tensor frees
            torch.full((want.numel(),), float("nan"), device="cuda", dtype=want.dtype)
        self.barrier()
        with torch.cuda.stream(self.stream):
            out = start()
        self.barrier()
        if torch.equal(out.view(-1), want):
            return None
        wrong = (out.view(-1) != want).nonzero()[0].item()
        return f"WRONG: element {wrong} is {out.view(-1)[wrong].item()}, not {want[wrong].item()}"

    def prepare(self, slot, how, coll, kind, size, calls):
        torch = self.torch
        self.slots.pop(slot, None)
        call = self.project.plan(how, coll, kind, size)
        if isinstance(call, str):
            return {"no": call}
        call.size, call.kind = size, kind
        want = self.wanted(coll, kind, size)
        wrong = self.checked(call, want, call.run)
        if wrong:
            return {"no": wrong}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            for _ in range(calls):
                out = call.run()
        if call.captured:
            call.captured()
        if not call.in_place:
            wrong = self.checked(call, want, lambda: (graph.replay(), out)[1], out)
            if wrong:
                return {"no": wrong + ", in the graph"}
        self.slots[slot] = (graph, calls, call, out)
        self.barrier()
        return {"ok": call.about or how}

    def alone(self, slot, replays, samples):
        torch, (graph, calls, _, _) = self.torch, self.slots[slot]
        marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                 for _ in range(samples)]
        with torch.cuda.stream(self.stream):
            graph.replay()    # this replay is not timed; in it the ranks wait for each other
            for begin, end in marks:
                begin.record()
                for _ in range(replays):
                    graph.replay()
                end.record()
        torch.cuda.synchronize()
        return {"us": [begin.elapsed_time(end) * 1000 / (replays * calls) for begin, end in marks]}

    def beside(self, slot, replays, gemms):
        torch, graph = self.torch, self.slots[slot][0]
        if self.gemm is None:
            self.gemm = [torch.randn(8192, 8192, device="cuda").to(torch.bfloat16)
                         for _ in range(3)]
            self.other = torch.cuda.Stream()
            for _ in range(3):
                torch.mm(self.gemm[0], self.gemm[1], out=self.gemm[2])
        self.barrier()
        began = time.perf_counter()
        with torch.cuda.stream(self.stream):
            for _ in range(replays):
                graph.replay()
        with torch.cuda.stream(self.other):
            for _ in range(gemms):
                torch.mm(self.gemm[0], self.gemm[1], out=self.gemm[2])
        torch.cuda.synchronize()
        return {"us": (time.perf_counter() - began) * 1e6}

    def drop(self):
        self.slots.clear()
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()
        return {"ok": ""}

    def answer(self, question):
        what = question.pop("do")
        if what == "prepare":
            question["kind"], question["size"] = question.pop("type"), question.pop("bytes")
        try:
            return getattr(self, what)(**question)
        # scoreboard.py must get the reason, whatever it is
        except Exception as error:    # pylint: disable=broad-except
            if what != "prepare":
                raise
            return {"no": repr(error).replace("\n", " ")[:300]}


def main():
    os.environ.update(TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NCCL_NVLS_ENABLE="0")
    try:
        bench = Bench(sys.argv[1], int(sys.argv[2]))
    except (Exception, SystemExit) as error:    # pylint: disable=broad-except
        say(no=repr(error).replace("\n", " ")[:300])
        raise
    say(ok=bench.project.about)
    for line in sys.stdin:
        say(**bench.answer(json.loads(line)))
    os._exit(0)    # do not destroy the communicators: that takes long


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker of ar_compare that runs torch's all-reduces in symmetric memory. protocol.h lists the
commands. ar_compare starts one such process per GPU. Multicast (multimem) is never used.

argv: ranks rank port most_bytes
"""
import os
import sys

reply = os.fdopen(3, "w", buffering=1)
FLUSH = 128 << 20


def main():
    ranks, rank, port, most = (int(a) for a in sys.argv[1:5])
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), TORCH_SYMM_MEM_DISABLE_MULTICAST="1",
                      NCCL_NVLS_ENABLE="0")
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm_mem

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    group = dist.group.WORLD.group_name
    types = {"bf16": torch.bfloat16, "f32": torch.float32, "f16": torch.float16}
    arena = max(most, 256 << 20) + 4096
    whole = symm_mem.empty(arena, dtype=torch.uint8, device="cuda")
    symm_mem.rendezvous(whole, group)
    whole.zero_()
    flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    graphs = {}

    def one(what, at, size, kind):
        part = whole[at:at + size].view(types[kind])
        if what == "one_shot":
            return torch.ops.symm_mem.one_shot_all_reduce(part, "sum", group)
        return torch.ops.symm_mem.two_shot_all_reduce_(part, "sum", group)

    def prepare(slot, what, size, kind, op, cold, calls, shift):
        size, cold, calls = int(size), int(cold), int(calls)
        if int(shift) or op != "sum" or kind not in types or what not in ("one_shot", "two_shot"):
            return "no not offered by torch"
        if what == "one_shot" and size > 16 << 20:
            return "no one_shot is not for large messages"
        whole[:size].view(types[kind]).fill_(1)
        torch.cuda.synchronize()
        dist.barrier(device_ids=[rank])
        answer = one(what, 0, size, kind)
        torch.cuda.synchronize()
        if not bool((answer[:1024] == ranks).all()) or not bool((answer[-1024:] == ranks).all()):
            return "no WRONG SUM"
        dist.barrier(device_ids=[rank])
        whole.zero_()
        torch.cuda.synchronize()
        slots = max(1, (256 << 20) // size) if cold else 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(calls):
                one(what, i % slots * size, size, kind)
        graphs[slot] = (graph, what, kind, cold, calls)
        torch.cuda.synchronize()
        dist.barrier(device_ids=[rank])
        torch.cuda.synchronize()  # the GPU must be idle while other contenders run
        return "ok " + what

    def time_it(slot, launches, samples, warmup):
        launches, samples = int(launches), int(samples)
        graph, what, kind, cold, calls = graphs[slot]
        marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                 for _ in range(samples)]
        # graph.replay() runs on the current stream
        for _ in range(int(warmup)):
            graph.replay()
        for i, (begin, end) in enumerate(marks):
            if cold:
                flush.fill_(i)
                one(what, arena - 4096, 1024, kind)
            begin.record()
            for _ in range(launches):
                graph.replay()
            end.record()
        torch.cuda.synchronize()
        return "us " + " ".join(f"{a.elapsed_time(b) * 1000 / (launches * calls):.4f}"
                                for a, b in marks)

    stream = torch.cuda.Stream()
    reply.write("ready\n")
    with torch.cuda.stream(stream):
        for line in sys.stdin:
            words = line.split()
            if words[0] == "prepare":
                reply.write(prepare(*words[1:]) + "\n")
            elif words[0] == "time":
                reply.write(time_it(*words[1:]) + "\n")
            else:
                graphs.clear()
                torch.cuda.synchronize()
                reply.write("ok\n")


try:
    main()
except Exception as e:  # pylint: disable=broad-except; ar_compare must get the reason
    reply.write("no " + repr(e).replace("\n", " ")[:150] + "\n")
    raise
sys.stdout.flush()
os._exit(0)

# SPDX-License-Identifier: Apache-2.0
"""torch_steps.py - steps of PyTorch programs on two ranks, which may share a GPU.

usage: python3 -m torch.distributed.run --nproc_per_node 2 torch_steps.py

Prints a line "STEPS RANK NAME HASH" for each kind of step. With two ranks each sum has only one
rounding. So the hashes are the same from run to run, whoever runs the collectives.
"""
import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

RANK = int(os.environ["RANK"])
GPU = torch.device("cuda", RANK % torch.cuda.device_count())
BF16 = torch.bfloat16


def say(name, tensors):
    """Print a hash of the tensors' bytes."""
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
    sys.stdout.write("STEPS %d %s %s\n" % (RANK, name, h.hexdigest()[:16]))
    sys.stdout.flush()


def chain():
    """Make all-reduces whose results the next kernel uses at once."""
    torch.manual_seed(7)
    lengths = torch.Generator().manual_seed(5)
    data = torch.randn(1 << 21, device=GPU, dtype=BF16) * (RANK + 1)
    sums = []
    for i in range(200):
        y = data[:int(torch.randint(1, 1 << (10 + i % 11), (1,), generator=lengths))].clone()
        for _ in range(3):
            dist.all_reduce(y)
            y = y * 0.37 + 0.1
        sums.append(y.float().sum())
    say("chain", [torch.stack(sums)])


def tensor_parallel(batch):
    """Run a decode step with two products and one all-reduce per layer, in a CUDA graph."""
    hidden, ranks = 2048, dist.get_world_size()
    torch.manual_seed(100 + RANK)
    layers = [(torch.randn(hidden, hidden // ranks, device=GPU, dtype=BF16) * .02,
               torch.randn(hidden // ranks, hidden, device=GPU, dtype=BF16) * .02)
              for _ in range(8)]
    torch.manual_seed(3)
    x = torch.randn(batch, hidden, device=GPU, dtype=BF16)

    def step():
        y = x
        for a, b in layers:
            part = torch.relu(nn.functional.rms_norm(y, (hidden,)) @ a) @ b
            dist.all_reduce(part)
            y = y + part
        return y

    stream, sums = torch.cuda.Stream(), []
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            out = step()
        for _ in range(12):
            graph.replay()
            x.copy_(nn.functional.rms_norm(out, (hidden,)))
            sums.append(out.float().sum())
    torch.cuda.synchronize()
    say("tensor-parallel-%d" % batch, [out, torch.stack(sums)])
    del graph # ncclCommFinalize waits until no graph has NCCL's calls


class Block(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.up = nn.Linear(hidden, 4 * hidden, bias=False)
        self.down = nn.Linear(4 * hidden, hidden, bias=False)
        self.norm = nn.RMSNorm(hidden)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def blocks():
    torch.manual_seed(0)
    return nn.Sequential(*[Block(1024) for _ in range(6)]).to(GPU, BF16)


def train(model):
    """Make twelve training steps. In the middle, the freed memory goes back to the driver."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    torch.manual_seed(50 + RANK)
    for i in range(12):
        x = torch.randn(4, 512, 1024, device=GPU, dtype=BF16)
        model(x).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=i % 3 == 2)
        if i == 6:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()


def main():
    torch.cuda.set_device(GPU)
    dist.init_process_group("nccl", device_id=GPU)
    chain()
    for batch in (1, 64, 300):
        tensor_parallel(batch)
    model = nn.parallel.DistributedDataParallel(blocks(), device_ids=[GPU.index],
                                                gradient_as_bucket_view=True)
    train(model)
    say("ddp", list(model.parameters()))
    from torch.distributed.fsdp import fully_shard
    model = blocks()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    train(model)
    say("fsdp", [p.to_local() for p in model.parameters()])
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

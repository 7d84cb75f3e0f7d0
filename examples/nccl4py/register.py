#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Register memory with nccl4py: by register_buffer, and by register_window with each flag. Some
handles are closed by hand, the others when the communicator is destroyed. Every sum is checked, and
symtuner's ledger says what NCCL ran.

There is one process per GPU. The parent makes the unique id, which is plain bytes. The example also
registers memory as torch does: a pool of NCCL's memory is registered with the process group.
"""

import datetime
import os
import subprocess
import sys
import tempfile
import time


def rank_main(rank, gpus, unique):
    import torch

    import nccl.core as nccl
    import nccl.core.interop.torch as nccl_torch

    torch.cuda.set_device(rank)
    comm = nccl.Communicator.init(gpus, rank, nccl.UniqueId.from_bytes(bytes.fromhex(unique)))
    stream = torch.cuda.current_stream().cuda_stream
    cases = [("none", None), ("register_buffer", None)]
    cases += [
        ("register_window", getattr(nccl.WindowFlag, f))
        for f in ("DEFAULT", "COLL_SYMMETRIC", "STRICT_ORDERING")
    ]
    # (name, handle, tensor): handles that destroy() closes; until then the memory must live
    kept = []
    for what, flag in cases:
        for by_hand in (True, False):
            x = nccl_torch.empty(1 << 20, dtype=torch.float32, device=rank)
            x.copy_(torch.arange(x.numel(), device=x.device) % 7 + rank)
            torch.cuda.synchronize()
            name = f"{what}{'' if flag is None else ' ' + flag.name}"
            try:
                handle = (
                    comm.register_buffer(x)
                    if what == "register_buffer"
                    else comm.register_window(x, flag)
                    if what == "register_window"
                    else None
                )
            except Exception as e:
                # if this NCCL does not accept a flag, every rank must get an error
                print(f"rank {rank}: {name}: refused: {e}", flush=True)
                assert what == "register_window" and flag.name != "COLL_SYMMETRIC", name
                continue
            comm.allreduce(x, x, nccl.SUM, stream=stream)
            torch.cuda.synchronize()
            want = (
                torch.arange(x.numel(), device=x.device) % 7 * gpus + gpus * (gpus - 1) // 2
            ).float()
            assert torch.equal(x, want), f"rank {rank}: {name}: wrong sum"
            if handle is None:
                how = "not registered"
            elif by_hand:
                assert_open(handle, name)
                handle.close()
                assert_closed(handle, name, "close()")
                how = "closed by hand"
            else:
                kept.append((name, handle, x))
                how = "left to the communicator"
            if rank == 0:
                print(f"{name:32} {how:25} sum right", flush=True)
    for name, handle, _ in kept:
        assert_open(handle, name)
    comm.destroy()
    for name, handle, _ in kept:
        assert_closed(handle, name, "destroy()")
    if rank == 0:
        print(f"{len(kept)} handles were open until the communicator closed them", flush=True)
    print(f"rank {rank}: done", flush=True)


def assert_open(handle, name):
    assert handle.is_valid, f"{name}: the handle is not valid while it is registered"


def assert_closed(handle, name, by):
    assert not handle.is_valid, f"{name}: the handle is valid after {by}"
    try:
        number = handle.handle
    except RuntimeError:  # raised for a closed buffer
        number = 0
    # destroy() hides NCCL's errors, but a window that is still registered keeps its number
    assert number == 0, f"{name}: the window is still registered after {by}"


WRONG = 3  # exit status if a sum is wrong


class NotHere(Exception):
    """This torch, or the NCCL that it comes with, cannot register a pool."""


def torch_pool(rank, gpus, folder):
    """Register a pool of memory with the group, and reduce a tensor in it. Returns whether the sum
    is right."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=gpus,
        timeout=datetime.timedelta(seconds=40),
        device_id=device,  # makes the communicator now; the pool will be registered with it
    )
    backend = dist.group.WORLD._get_backend(device)
    for owner, name in ((backend, "register_mem_pool"), (torch.cuda, "MemPool")):
        if not hasattr(owner, name):
            raise NotHere(f"torch {torch.__version__} has no {name}")
    dist.all_reduce(torch.zeros(1, device=device))
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(1 << 20, dtype=torch.float32, device=device)
    try:
        backend.register_mem_pool(pool, symm=True)
        how = "symmetric window"
    except TypeError:  # older releases of torch have no argument symm
        backend.register_mem_pool(pool)
        how = "buffer"
    x.copy_(torch.arange(x.numel(), device=device) % 7 + rank)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    want = (torch.arange(x.numel(), device=device) % 7 * gpus + gpus * (gpus - 1) // 2).float()
    right = torch.equal(x, want)
    backend.deregister_mem_pool(pool)
    if rank == 0 or not right:
        print(f"torch register_mem_pool: {how}, sum {'right' if right else 'WRONG'}", flush=True)
    dist.destroy_process_group()
    return right


def torch_main(rank, gpus, folder):
    """Return the exit status: 0, WRONG, or 77 if there was no sum. For 77 also print the reason."""
    try:
        return 0 if torch_pool(rank, gpus, folder) else WRONG
    except Exception as e:
        why = (str(e).splitlines() or [""])[0]
        print(f"rank {rank}: {type(e).__name__}: {why[:200]}", flush=True)
        return 77


def torch_beside(gpus):
    """Run torch_pool() in processes of its own, so that it cannot disturb nccl4py's results."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"out.{r}") for r in range(gpus)]
        env = dict(os.environ, SYMTUNER_LEDGER=os.path.join(folder, "ledger"))
        children = []
        for r in range(gpus):
            words = [sys.executable, __file__, str(gpus), str(r), folder, "torch"]
            with open(paths[r], "w") as out:
                children.append(
                    subprocess.Popen(words, env=env, stdout=out, stderr=subprocess.STDOUT)
                )
        codes, deadline = [], time.time() + 60
        for c in children:
            try:
                codes.append(c.wait(max(deadline - time.time(), 0.1)))
            except subprocess.TimeoutExpired:
                c.kill()
                c.wait()
                codes.append("no end within 60 s")
        said = [open(path, errors="replace").read().splitlines() for path in paths]
        ran = read_ledger(env["SYMTUNER_LEDGER"])
    assert WRONG not in codes, f"torch register_mem_pool: {said}"
    if codes == [0] * gpus:
        told = [line for lines in said for line in lines if line.startswith("torch ")]
        print("\n".join(told + ran))
    else:
        print(f"torch register_mem_pool: not run: {codes}, {' '.join(said[0][-1:])}")


def read_ledger(path):
    """Return what NCCL ran, as the plugin counted it; all ranks count the same."""
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return sorted({line.strip() for line in f if line.startswith("ran coll=allreduce")})


def main():
    gpus = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    import nccl.core as nccl

    unique = bytes(nccl.get_unique_id()).hex() if hasattr(nccl, "get_unique_id") else ""
    with tempfile.TemporaryDirectory() as folder:
        ledger = os.path.join(folder, "ledger")
        env = dict(os.environ, SYMTUNER_LEDGER=ledger)
        children = [
            subprocess.Popen([sys.executable, __file__, str(gpus), str(r), unique], env=env)
            for r in range(gpus)
        ]
        try:
            codes = [c.wait(120) for c in children]
        finally:
            for c in children:
                c.kill()
        ran = read_ledger(ledger)
    print("\n".join(ran) or "ledger: none (the plugin is not loaded)")
    assert codes == [0] * gpus, f"exit codes {codes}"
    if "NCCL_ENV_PLUGIN" in os.environ:
        counts = [dict(w.split("=") for w in line.split()[1:]) for line in ran]
        assert sum(int(c["symmetric"]) for c in counts) > 0, "the ledger counts no symmetric kernel"
    torch_beside(gpus)
    print("ALL RIGHT")


if __name__ == "__main__":
    if len(sys.argv) == 5:
        sys.exit(torch_main(int(sys.argv[2]), int(sys.argv[1]), sys.argv[3]))
    elif len(sys.argv) == 4:
        rank_main(int(sys.argv[2]), int(sys.argv[1]), sys.argv[3])
    else:
        main()

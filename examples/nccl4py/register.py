#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nccl4py's registrations: register_buffer, register_window with each flag, closed by hand or with
the communicator; every sum is checked, and symtuner's ledger says what NCCL ran.

One process per GPU; the parent makes the unique id, which is plain bytes.
"""

import os
import subprocess
import sys
import tempfile


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
    kept = []  # closed by the communicator
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
                # a flag that this NCCL does not take must say so, on every rank
                print(f"rank {rank}: {name}: refused: {e}", flush=True)
                assert what == "register_window" and flag.name != "COLL_SYMMETRIC", name
                continue
            comm.allreduce(x, x, nccl.SUM, stream=stream)
            torch.cuda.synchronize()
            want = (
                torch.arange(x.numel(), device=x.device) % 7 * gpus + gpus * (gpus - 1) // 2
            ).float()
            assert torch.equal(x, want), f"rank {rank}: {name}: wrong sum"
            if handle is not None and by_hand:
                handle.close()
            elif handle is not None:
                kept.append((handle, x))
            if rank == 0:
                valid = getattr(handle, "is_valid", None)
                print(
                    f"{name:32} closed by {'hand' if by_hand else 'communicator':12} sum right"
                    f"{'' if handle is None or by_hand else f', handle valid: {valid}'}",
                    flush=True,
                )
    comm.destroy()
    print(f"rank {rank}: done", flush=True)


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
        codes = [c.wait(120) for c in children]
        lines = open(ledger).read().splitlines() if os.path.exists(ledger) else []
    ran = sorted({line for line in lines if line.startswith("ran coll=allreduce")})
    print("\n".join(ran) or "ledger: none (the plugin is not loaded)")
    assert codes == [0] * gpus, f"exit codes {codes}"
    if "NCCL_ENV_PLUGIN" in os.environ:
        counts = [dict(w.split("=") for w in line.split()[1:]) for line in ran]
        assert sum(int(c["symmetric"]) for c in counts) > 0, "the ledger counts no symmetric kernel"
    print("ALL RIGHT")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        rank_main(int(sys.argv[2]), int(sys.argv[1]), sys.argv[3])
    else:
        main()

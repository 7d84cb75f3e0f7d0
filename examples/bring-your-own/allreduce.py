#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Your own all-reduce inside jit, in a released jaxlib: symtuner.all_reduce.

    allreduce.py --gpus 2                one process drives all GPUs
    allreduce.py --gpus 2 --processes    one process per GPU

Each rank fills its part with its rank number, so the sum is 0 + 1 + ... everywhere.
"""

import argparse
import gc
import os
import socket
import subprocess
import sys
import warnings


def work(gpus, process=None):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh
    from jax.sharding import PartitionSpec as P

    import symtuner

    warnings.simplefilter("error", UserWarning)  # make it an error if symtuner calls lax.psum
    if process is not None:
        rank, port = map(int, process.split(":"))
        jax.distributed.initialize(f"127.0.0.1:{port}", gpus, rank)
    mesh = Mesh(np.array(jax.devices()[:gpus]), ("i",))
    n, expected = 1 << 20, gpus * (gpus - 1) / 2

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=(), out_specs=P("i"))
    def total():
        mine = jnp.full(n, lax.axis_index("i"), jnp.float32)
        return lax.pcast(symtuner.all_reduce(mine, "i"), "i", to="varying")

    ok = True
    for shard in total().addressable_shards:
        got = np.asarray(shard.data)
        right = bool((got == expected).all())
        ok &= right
        print(
            f"[rank {shard.device.id}/{gpus}] N={n} expected={expected} got[0]={got[0]} "
            f"got[-1]={got[-1]} "
            f"ALL_OK={right}",
            flush=True,
        )
    print(f"[rank {jax.process_index()}] {symtuner.groups()[0]}", flush=True)
    ways = [w for w in symtuner.describe().splitlines() if w.startswith("transport: ")]
    if not ways:  # symtuner's warning, printed before, says why
        print(f"FAILED: not this library's kernels: {symtuner.describe()}", flush=True)
        return 1
    print(f"[rank {jax.process_index()}] {ways[0]}", flush=True)
    return 0 if ok else 1


def end_together():
    """Shut down a job of several processes in this order: first the groups, then this process's
    client (it watches the coordinator), and last the coordinator. JAX would also do this at
    exit, but then the client may outlive the coordinator and log a warning."""
    import jax
    from jax.extend.backend import clear_backends

    import symtuner

    symtuner.close()
    clear_backends()
    gc.collect()  # reference cycles keep the client alive
    jax.distributed.shutdown()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--gpus", type=int, default=2)
    p.add_argument("--processes", action="store_true")
    p.add_argument("--process", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.process:
        code = work(args.gpus, args.process)
        end_together()
        return code
    if not args.processes:
        return work(args.gpus)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(args.gpus)))).split(",")
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "--gpus", str(args.gpus), "--process", f"{r}:{port}"],
            env=dict(os.environ, CUDA_VISIBLE_DEVICES=seen[r]),
        )
        for r in range(args.gpus)
    ]
    try:
        codes = [c.wait(120) for c in children]
    finally:
        for c in children:
            c.kill()
    print("exit codes", codes)
    return 0 if codes == [0] * args.gpus else 1


if __name__ == "__main__":
    sys.exit(main())

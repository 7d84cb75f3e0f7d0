#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual recipe's test matrix without XLA's sources: five ways to the peers, each three times.

    device              staged through memory of the library (the recipe: NCCL's device API)
    peer                plain peer pointers, kernels use XLA's buffers (the recipe: PeerAllReduce)
    symmetric-peer      NCCL windows of a communicator of our own, one process per GPU
    multicast, symmetric-multicast   not run: they need NVLink multicast

blocked: the host waits for each run. delayed: one rank's GPU is held back for about a second while
the others wait in the kernel. attributes: operands_memory_spaces on the call, as in openxla/xla PR
39742.
"""

import os
import subprocess
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = os.path.join(HERE, "..", "bring-your-own", "allreduce.py")


def cell(way, how, gpus):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.experimental.xla_metadata import set_xla_metadata
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    import symtuner

    warnings.simplefilter("error", UserWarning)
    mesh = Mesh(np.array(jax.devices()[:gpus]), ("i",))
    n = 4 << 20  # 16 MiB per rank: large enough for the zero-copy kernels

    def spin(v):
        """About a second of work, whose result does not change v."""
        m = lax.fori_loop(
            0, 1500, lambda i, m: (m @ m) * 1e-3, jnp.full((4096, 4096), 1e-3, jnp.bfloat16)
        )
        return v + jnp.where(jnp.isnan(m[0, 0].astype(jnp.float32)), 1, 0)

    def body(v):
        if how == "delayed":
            v = lax.cond(lax.axis_index("i") == gpus - 1, spin, lambda u: u, v)
        v = v * 1  # an argument of jit cannot be placed in collective memory, a value can
        if how == "attributes":
            with set_xla_metadata(operands_memory_spaces="{0:1}", results_memory_spaces="{0:1}"):
                return symtuner.all_reduce(v, "i")
        return symtuner.all_reduce(v, "i")

    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False))
    rng, took = np.random.default_rng(0), []
    for turn in range(3 if how != "delayed" else 2):
        host = rng.integers(0, 9, (gpus, n)).astype(np.float32)
        x = jax.device_put(host.reshape(-1), NamedSharding(mesh, P("i")))
        start = time.time()
        got = f(x).block_until_ready()
        took.append(time.time() - start)
        assert (np.asarray(got).reshape(gpus, -1) == host.sum(0)).all(), "wrong sum"
    facts = dict(w.split("=", 1) for w in symtuner.groups()[0].split())
    direct = int(facts["zero-copy"]) > 0
    assert direct == (way == "peer"), f"zero-copy calls: {facts['zero-copy']}"
    if how == "delayed":
        assert took[-1] > 0.2, f"the rank was not held back: {took[-1]:.3f} s"
    print(
        f"  {way:20} {how:10} ok, last run {took[-1] * 1e3:.1f} ms, "
        f"zero copy {'yes' if direct else 'no'}, "
        f"buffers aligned to {facts['aligned']}",
        flush=True,
    )


def main():
    gpus = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    if len(sys.argv) > 3:
        return cell(sys.argv[2], sys.argv[3], gpus)
    failed = 0
    for way in ("device", "peer"):
        for how in ("blocked", "delayed", "attributes"):
            env = dict(os.environ, SYMTUNER_JAX_ZERO_COPY="1" if way == "peer" else "0")
            p = subprocess.run(
                [sys.executable, __file__, str(gpus), way, how],
                env=env,
                capture_output=True,
                text=True,
                timeout=120,
            )
            if p.returncode != 0:
                failed += 1
                print(f"  {way:20} {how:10} FAILED\n{p.stderr[-800:]}")
            print(p.stdout, end="", flush=True)
    code = subprocess.run(
        [sys.executable, OWN, "--gpus", str(gpus), "--processes"],
        timeout=120,
        stdout=subprocess.DEVNULL,
    ).returncode
    failed += code != 0
    print(
        f"  {'symmetric-peer':20} {'blocked':10} {'ok' if code == 0 else 'FAILED'}, "
        "one process per GPU"
    )
    for way in ("multicast", "symmetric-multicast"):
        print(
            f"  {way:20} {'all':10} not run (77): "
            "NVLink multicast may not be used here (NCCL_NVLS_ENABLE=0)"
        )
    print(f"matrix: {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

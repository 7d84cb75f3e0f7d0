#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduces that reach the memory of other GPUs in five ways, each in three kinds of run. A cell
is one way in one kind of run. A known recipe tests the same cells, but needs XLA's sources; this
program does not.

The ways, and in brackets what that recipe uses:
    device              data is copied through memory of our library (NCCL's device API)
    peer                kernels read and write XLA's buffers through peer pointers (PeerAllReduce)
    symmetric-peer      NCCL windows of a communicator of our own, one process per GPU
    multicast, symmetric-multicast   not run: they need NVLink multicast

The kinds of run:
    blocked             the host waits for each run
    delayed             the last rank's GPU is busy for a second; the others wait in the kernel
    attributes          the call has operands_memory_spaces, as in openxla/xla PR 39742
"""

import gc
import os
import re
import socket
import subprocess
import sys
import time
import warnings

COLUMNS = ("blocked", "delayed", "attributes")
ROWS = {  # by way: "one" process, or one for "each" GPU; and what symtuner.groups() must say
    "device": ("one", {"comm": "peer-pointers", "zero-copy": False}),
    "peer": ("one", {"comm": "peer-pointers", "zero-copy": True}),
    "symmetric-peer": ("each", {"comm": "own-nccl"}),
}
STALL_S = 1.0


def stall(v, turns):
    """Keep the GPU busy with this many matrix products. Returns v."""
    import jax.numpy as jnp
    from jax import lax

    a = jnp.full((4096, 4096), 1e-3, jnp.bfloat16)
    m = lax.fori_loop(0, turns, lambda i, m: (m @ m) * 1e-3, a)
    return v + jnp.where(jnp.isnan(m[0, 0].astype(jnp.float32)), 1, 0)


def turns_for(seconds, device):
    """Return how many matrix products keep this GPU busy for this long."""
    import jax
    import jax.numpy as jnp

    f, trial = jax.jit(stall), 1000
    x, n = jax.device_put((jnp.float32(0), jnp.int32(trial)), device)
    f(x, n).block_until_ready()
    start = time.time()
    f(x, n).block_until_ready()
    return int(1.3 * seconds * trial / (time.time() - start))


def run(how, gpus):
    """Run the all-reduce of this cell a few times. Returns how long the last one took."""
    import jax
    import numpy as np
    from jax.experimental.xla_metadata import set_xla_metadata
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    import symtuner

    mesh = Mesh(np.array(jax.devices()[:gpus]), ("i",))
    place = NamedSharding(mesh, P("i"))
    n = 4 << 20  # 16 MiB per rank: large enough for the zero-copy kernels
    turns = np.zeros(gpus, np.int32)  # [rank]: matrix products before the all-reduce
    # every process must call turns_for(): XLA may let all processes tune its program together
    if how == "delayed":
        turns[-1] = turns_for(STALL_S, jax.local_devices()[-1])

    def put(host):
        return jax.make_array_from_callback(host.shape, place, lambda i: host[i])

    def body(v, turns):
        # compute v, because XLA can place computed values in collective memory, but no arguments
        v = stall(v, turns[0]) if how == "delayed" else v * 1
        if how == "attributes":
            with set_xla_metadata(operands_memory_spaces="{0:1}", results_memory_spaces="{0:1}"):
                return symtuner.all_reduce(v, "i")
        return symtuner.all_reduce(v, "i")

    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False))
    rng = np.random.default_rng(0)
    for _ in range(3):
        host = rng.integers(0, 9, (gpus, n)).astype(np.float32)
        x, held = put(host.reshape(-1)), put(turns)
        jax.block_until_ready((x, held))
        start = time.time()
        got = f(x, held).block_until_ready()
        took = time.time() - start
        for shard in got.addressable_shards:
            assert (np.asarray(shard.data) == host.sum(0)).all(), "wrong sum"
    return took


def cell(way, how, gpus, process=None):
    import symtuner

    warnings.simplefilter("error", UserWarning)  # make it an error if symtuner calls jax.lax
    if process is not None:
        import jax

        rank, port = map(int, process.split(":"))
        jax.distributed.initialize(f"127.0.0.1:{port}", gpus, rank)
    took = run(how, gpus)
    facts = dict(w.split("=", 1) for w in symtuner.groups()[0].split())
    for name, want in ROWS[way][1].items():
        got = int(facts[name]) > 0 if isinstance(want, bool) else facts[name]
        assert got == want, f"{name} is {facts[name]}: another path ran"
    transport = [w for w in symtuner.describe().splitlines() if w.startswith("transport: ")]
    assert transport and re.match(r"transport: (NVLink|PCIe) peer memory", transport[0]), (
        f"the kernels do not reach the peers' memory: {symtuner.describe()}"
    )
    if how == "delayed":
        assert took >= STALL_S, f"the rank was held back for {took:.3f} s only"
    if process is None or rank == 0:
        print(
            f"  {way:20} {how:10} ok, last run {took * 1e3:.1f} ms, {facts['comm']}, "
            f"zero copy {'no' if facts['zero-copy'] == '0' else 'yes'}, "
            f"buffers aligned to {facts['aligned']}",
            flush=True,
        )
    if process is not None:
        end_together()


def end_together():
    """Shut down a job of several processes in this order: first the groups, then this process's
    client (it watches the coordinator), and last the coordinator."""
    import jax
    from jax.extend.backend import clear_backends

    import symtuner

    symtuner.close()
    clear_backends()
    gc.collect()  # reference cycles keep the client alive
    jax.distributed.shutdown()


def start(way, how, gpus):
    """Start the processes of a cell."""
    words = [sys.executable, __file__, str(gpus), way, how]
    env = dict(os.environ, SYMTUNER_JAX_ZERO_COPY="1" if way == "peer" else "0")
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ROWS[way][0] == "one":
        return [subprocess.Popen(words, env=env, **pipes)]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
    return [
        subprocess.Popen(
            [*words, f"{r}:{port}"], env=dict(env, CUDA_VISIBLE_DEVICES=seen[r]), **pipes
        )
        for r in range(gpus)
    ]


def right(way, how, gpus):
    """Run a cell in processes of its own and print what they report."""
    children, said = start(way, how, gpus), []
    try:
        said = [c.communicate(timeout=120)[0] for c in children]
    except subprocess.TimeoutExpired:
        said.append("not ended after 120 s")
    finally:
        for c in children:
            c.kill()
    fine = len(said) == len(children) and all(c.wait() == 0 for c in children)
    if fine:
        print("".join(said), end="", flush=True)
    else:
        print(f"  {way:20} {how:10} FAILED")
        for text in said:
            print(text[-800:], flush=True)
    return fine


def main():
    gpus = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    if len(sys.argv) > 3:
        return cell(sys.argv[2], sys.argv[3], gpus, *sys.argv[4:])
    failed = sum(not right(way, how, gpus) for way in ROWS for how in COLUMNS)
    why = "this example runs no kernel of symtuner that uses NVLink multicast"
    if os.environ.get("NCCL_NVLS_ENABLE") == "0":
        why = "NVLink multicast may not be used here (NCCL_NVLS_ENABLE=0)"
    for way in ("multicast", "symmetric-multicast"):
        for how in COLUMNS:
            print(f"  {way:20} {how:10} not run (77): {why}")
    print(f"matrix: {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

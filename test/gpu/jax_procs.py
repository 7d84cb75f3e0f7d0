#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symtuner.all_reduce with one process per GPU (jax.distributed), and what happens when one goes.

The parent starts --ranks children, each of which sees one GPU. Cases: values (right sums, same
bits, orderly exit), kill (rank 1 is killed in the middle), raise (rank 1 raises). The others must
end within 30 s and say why.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time

BOUND_S = 30


def child(case, rank, ranks, port):
    import warnings

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    import symtuner

    warnings.simplefilter("error", UserWarning)
    jax.distributed.initialize(f"127.0.0.1:{port}", ranks, rank)
    mesh = Mesh(np.array(jax.devices()), ("i",))
    place = NamedSharding(mesh, P("i"))

    def put(host):  # host[rank] on each rank
        return jax.make_array_from_callback(
            host.reshape(-1).shape, place, lambda i: host.reshape(-1)[i]
        )

    def smap(f):
        return jax.jit(
            jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
        )

    rng = np.random.default_rng(5)
    for dtype in ("float32", "int32", "float16"):
        for n in (1, 1000, 1 << 16, (1 << 20) + 5, 1 << 24):
            host = rng.integers(0, 9, (ranks, n)).astype(dtype)
            got = smap(lambda v: symtuner.all_reduce(v, "i"))(put(host))
            mine = np.asarray(got.addressable_shards[0].data)
            assert (mine == host.sum(0)).all(), (dtype, n)
    step = smap(
        lambda v: lax.fori_loop(0, 300, lambda i, u: symtuner.all_reduce(u, "i") / ranks, v)
    )
    x = put(np.ones((ranks, 1 << 18), np.float32))
    x = step(x).block_until_ready()
    assert (np.asarray(x.addressable_shards[0].data) == 1).all()
    print(f"rank {rank}: {symtuner.groups()[0]}", flush=True)
    if case == "values":
        return
    for turn in range(100000):
        x = step(x)
        if rank == 1 and turn == 20:
            print("rank 1 goes", flush=True)
            if case == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("rank 1 has had enough")
        if turn % 10 == 0:
            jnp.sum(x.addressable_shards[0].data).block_until_ready()


def parent(case, ranks):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(ranks)))).split(",")
    start = time.time()
    children = [
        subprocess.Popen(
            [
                sys.executable,
                __file__,
                "--case",
                case,
                "--ranks",
                str(ranks),
                "--rank",
                str(r),
                "--port",
                str(port),
            ],
            text=True,
            env=dict(os.environ, CUDA_VISIBLE_DEVICES=gpus[r]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for r in range(ranks)
    ]
    outs, gone, late = [""] * ranks, None, False
    deadline = time.time() + 90
    while any(c.poll() is None for c in children):
        if gone is None and case != "values" and children[1].poll() is not None:
            gone = time.time()
            deadline = gone + BOUND_S
        if time.time() > deadline:
            late = True
            for c in children:
                c.kill()
        time.sleep(0.05)
    took = time.time() - (gone or start)
    for r, c in enumerate(children):
        outs[r] = c.stdout.read()
    codes = [c.returncode for c in children]
    if case == "values":
        right = codes == [0] * ranks and not late
    else:
        words = ("is gone", "symtuner: rank", "rank 1")
        said = all(any(w in outs[r] for w in words) for r in range(ranks) if r != 1)
        right = gone is not None and not late and said and all(c != 0 for c in codes)
    print(
        f"  {'ok    ' if right else 'FAILED'} {case}, {ranks} processes: exit {codes}, "
        f"{took:.1f} s "
        f"{'after rank 1 went' if gone else 'in all'}{', too late' if late else ''}"
    )
    for r in range(ranks):
        lines = [x for x in outs[r].splitlines() if "symtuner" in x or x.startswith("rank")]
        for line in lines[-3:] if right else outs[r].splitlines()[-12:]:
            print(f"    {r}: {line[:240]}")
    return not right


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--case", default="values,kill,raise")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rank", type=int)
    p.add_argument("--port", type=int)
    args = p.parse_args()
    if args.rank is not None:
        return child(args.case, args.rank, args.ranks, args.port)
    failed = [parent(case, args.ranks) for case in args.case.split(",")]
    return any(failed)


if __name__ == "__main__":
    sys.exit(main())

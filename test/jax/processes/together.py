#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test that is written for one JAX process in several processes, with one GPU each
(jax.distributed).

    together.py [--ranks N] [--gpus LIST] [--limit SECONDS] SCRIPT [ARGUMENT...]

Each process runs SCRIPT with all ARGUMENTs. In it, jax.devices() are the devices of all processes.
LIST names the GPU of each rank, such as "0,1". With "0,0" two ranks share a GPU (test/gpu/one).
Prints what rank 0 has printed, and after a failure also what the other ranks have printed.

Exit status 0: all processes ended with 0. 77: all ended with 77. 1: anything else, or the time
limit was over before the end; then all processes are killed.
"""

import argparse
import gc
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import time


def child(script, arguments):
    """Run as one rank. The environment says which rank."""
    import jax

    place = [os.environ["TOGETHER_" + name] for name in ("ADDRESS", "RANKS", "RANK")]
    jax.distributed.initialize(place[0], int(place[1]), int(place[2]))
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    status = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    import symtuner
    from jax.extend.backend import clear_backends

    # close the groups before JAX's client of the GPU, and that client before the coordinator
    symtuner.close()
    clear_backends()
    gc.collect()
    jax.distributed.shutdown()
    return status


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--gpus", help="the GPU of each rank, with commas (0,1,...)")
    p.add_argument("--limit", type=float, default=280, help="seconds for all of it")
    p.add_argument("script")
    p.add_argument("arguments", nargs=argparse.REMAINDER)
    args = p.parse_args()
    gpus = args.gpus.split(",") if args.gpus else [str(r) for r in range(args.ranks)]
    if len(gpus) != args.ranks:
        p.error(f"--gpus: {len(gpus)} GPUs for {args.ranks} ranks; name one for each rank")
    address, deadline = f"127.0.0.1:{free_port()}", time.time() + args.limit
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, str(r)) for r in range(args.ranks)]
        children = []
        for rank, gpu in enumerate(gpus):
            env = dict(
                os.environ,
                CUDA_VISIBLE_DEVICES=gpu,
                RANK=str(rank),  # test/gpu/one/hosts.c reads it
                TOGETHER_ADDRESS=address,
                TOGETHER_RANKS=str(args.ranks),
                TOGETHER_RANK=str(rank),
            )
            with open(paths[rank], "w") as out:
                words = [sys.executable, __file__, args.script, *args.arguments]
                children.append(
                    subprocess.Popen(words, env=env, stdout=out, stderr=subprocess.STDOUT)
                )
        # if a rank failed, the others may wait for it, so stop then
        while any(c.poll() is None for c in children) and not any(c.poll() for c in children):
            if time.time() > deadline:
                break
            time.sleep(0.1)
        grace = time.time() + 20
        while any(c.poll() is None for c in children) and time.time() < min(deadline, grace):
            time.sleep(0.1)
        late = [r for r, c in enumerate(children) if c.poll() is None]
        for c in children:
            if c.poll() is None:
                c.kill()
            c.wait()
        codes = [c.returncode for c in children]
        for rank, path in enumerate(paths):
            if rank == 0 or set(codes) - {0, 77} or late:
                with open(path, errors="replace") as f:
                    said = f.read()[-6000:]
                print("".join(f"{rank}: {line}\n" for line in said.splitlines()), end="")
    print(f"together.py: {os.path.basename(args.script)}, {args.ranks} processes: {codes}"
          + (f", killed at the time limit: {late}" if late else ""))
    if late or len(set(codes)) > 1 or codes[0] not in (0, 77):
        return 1
    return codes[0]


if __name__ == "__main__":
    if "TOGETHER_RANK" in os.environ:
        sys.exit(child(sys.argv[1], sys.argv[2:]))
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stock JAX with XLA's symmetric buffers: psum, all_gather and psum_scatter on registered memory.

The example sets those flags that this jaxlib knows, because an unknown flag would abort the
process. It runs the collectives in a child process with NCCL's log turned on. It checks that the
results are right, that buffers were registered, and that a symmetric kernel ran. It also prints
which kernel NCCL used at which size.
"""

import os
import re
import subprocess
import sys
import tempfile

FLAGS = (
    # make XLA register the buffers of collectives; before jax 0.10.1 XLA needs both flags
    "--xla_gpu_experimental_enable_nccl_symmetric_buffers=true",
    "--xla_gpu_enable_nccl_user_buffers=true",
    # let NCCL run the all-reduces of up to 4 MiB, too, instead of XLA's own kernels
    "--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false",
)
SIZES = [1 << s for s in range(12, 29, 2)]  # bytes per rank
IMPORTANT = FLAGS[0]


def accepted(flags):
    """Return those of ``flags`` that this jaxlib knows. XLA aborts on unknown flags, and names
    them."""
    flags = list(flags)
    while flags:
        p = subprocess.run(
            [sys.executable, "-c", "import jax; jax.devices()"],
            capture_output=True,
            text=True,
            env=dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=" ".join(flags)),
        )
        unknown = [f for f in flags if f in p.stderr or f.split("=")[0] in p.stderr]
        if p.returncode == 0 or not unknown:
            return flags
        flags = [f for f in flags if f not in unknown]
    return flags


def child(ranks):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()[:ranks]), ("i",))
    smap = lambda f: jax.jit(
        jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    )
    rng = np.random.default_rng(0)
    for size in SIZES:
        host = rng.integers(0, 7, (ranks, size // 4)).astype(np.float32)
        x = jax.device_put(host.reshape(-1), NamedSharding(mesh, P("i")))
        total = host.sum(0)
        # XLA puts the result of v + 0 into registered memory, but not an argument of jit
        got = np.asarray(smap(lambda v: lax.psum(v + 0, "i"))(x)).reshape(ranks, -1)
        assert (got == total).all(), f"psum of {size} bytes is wrong"
        got = np.asarray(smap(lambda v: lax.all_gather(v + 0, "i", tiled=True))(x)).reshape(
            ranks, -1
        )
        assert (got == host.reshape(-1)).all(), f"all_gather of {size} bytes is wrong"
        got = np.asarray(smap(lambda v: lax.psum_scatter(v + 0, "i", tiled=True))(x)).reshape(-1)
        assert (got == total).all(), f"psum_scatter of {size} bytes is wrong"
    jnp.zeros(()).block_until_ready()
    print("numbers right")


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    flags = accepted(FLAGS)
    print("flags:", " ".join(flags) or "none of those known here is accepted")
    assert IMPORTANT in flags, f"this jaxlib does not know {IMPORTANT}: jax 0.9 or later does"
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "nccl.log")
        env = dict(
            os.environ,
            XLA_FLAGS=" ".join(flags),
            NCCL_DEBUG="INFO",
            NCCL_DEBUG_FILE=log,
            NCCL_DEBUG_SUBSYS="INIT,TUNING,REG",
            TF_CPP_MIN_LOG_LEVEL="0",
            TF_CPP_VMODULE="nccl_symmetric_memory=3,nccl_communicator=3",
        )
        p = subprocess.run(
            [sys.executable, __file__, str(ranks), "child"],
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
        )
        text = open(log).read() if os.path.exists(log) else ""
    assert p.returncode == 0 and "numbers right" in p.stdout, p.stderr[-1500:]
    xla = re.findall(r"Create NCCL symmetric memory|Register symmetric buffer", p.stderr)
    va = re.findall(r"Symmetric VA size=\S+", text)
    print(f"registration: XLA says so {len(xla)} times; NCCL: {va[0] if va else 'nothing'}")
    picks = {}
    for coll, size, kernel, ctas in re.findall(
        r"(\w+) \[Symmetric\]: (\d+) Bytes -> Kernel (\S+) nchannels (\d+)", text
    ):
        picks.setdefault((coll, int(size)), (kernel, ctas))
    for (coll, size), (kernel, ctas) in sorted(picks.items()):
        print(f"{coll:14} {size:>10} bytes  {kernel}, {ctas} CTAs")
    assert xla or va, "no buffer was registered"
    assert any(coll == "AllReduce" for coll, _ in picks), "no symmetric kernel ran for psum"
    print("ALL RIGHT")


if __name__ == "__main__":
    if sys.argv[2:] == ["child"]:
        child(int(sys.argv[1]))
    else:
        main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two tensor-parallel layers in plain JAX, trained for three steps: layers.py [GPUS].

The program does not name symtuner. Without GPUs it runs on two CPU devices.
"""

import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # two CPU devices
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
mesh = Mesh(np.array(jax.devices()[:ranks]), ("tp",))
keys = jax.random.split(jax.random.key(0), 3)
x = jax.random.normal(keys[0], (32, 512), jnp.bfloat16)
specs = {"up": P(None, "tp"), "down": P("tp", None)}  # weights split by columns; by rows
weights = {n: jax.random.normal(k, (512, 512), jnp.bfloat16) / 32 for n, k in zip(specs, keys[1:])}
weights = {n: jax.device_put(w, NamedSharding(mesh, specs[n])) for n, w in weights.items()}


def loss(w, x):
    h = x
    for _ in range(2):  # both layers have the same weights
        h = h + jax.lax.psum(jax.nn.silu(h @ w["up"]) @ w["down"], "tp")
    return (h.astype(jnp.float32) ** 2).mean()


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=(specs, P()), out_specs=(P(), specs))
def step(w, x):
    value, grads = jax.value_and_grad(loss)(w, x)
    return value, jax.tree.map(lambda v, g: v - 10 * g, w, grads)


for _ in range(3):
    value, weights = step(weights, x)
    print(f"loss {value:.3f} on {ranks} x {jax.devices()[0].device_kind}")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a group of processes with one GPU each. jax_procs.py starts it.

values: right sums with the same bits on all ranks, then an orderly end. kill, raise, exit: rank 1
is killed by signal 9 at a random moment, raises an exception, or exits normally, while the others
go on calling. two: rank 1 exits normally, and rank 2 is killed up to 6 s later, whatever it does
then. apart: all exit normally while a call runs, one of them at once, the others seconds later.

A rank that is about to go prints `rank N goes` and the time.
"""

import argparse
import gc
import os
import random
import re
import signal
import sys
import threading
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import symtuner


class Rank:
    def __init__(self, args):
        jax.distributed.initialize(f"127.0.0.1:{args.port}", args.ranks, args.rank)
        self.rank, self.ranks, self.recorded = args.rank, args.ranks, args.recorded
        self.mesh = Mesh(np.array(jax.devices()), ("i",))
        self.place = NamedSharding(self.mesh, P("i"))
        draw = random.Random(args.seed)
        self.delay = [draw.uniform(1, 8) for _ in range(self.ranks)]
        self.delay[draw.randrange(self.ranks)] = 0
        self.moment = draw.uniform(0.1, 1.0)
        self.later = draw.uniform(0, 6)

    def put(self, host):  # each rank gets host[rank]
        flat = host.reshape(-1)
        return jax.make_array_from_callback(flat.shape, self.place, lambda i: flat[i])

    def program(self, f):
        smap = jax.shard_map(f, mesh=self.mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
        return jax.jit(smap)

    def mine(self, x):
        return np.asarray(x.addressable_shards[0].data)

    def goes(self):
        print(f"rank {self.rank} goes {time.time():.3f}", flush=True)

    def check_sums(self, dtypes, sizes):
        rng = np.random.default_rng(5)  # the same numbers on all ranks
        f = self.program(lambda v: symtuner.all_reduce(v, "i"))
        for dtype in dtypes:
            for n in sizes:
                host = rng.integers(0, 9, (self.ranks, n)).astype(dtype)
                assert (self.mine(f(self.put(host))) == host.sum(0)).all(), (dtype, n)

    def looping(self, calls):
        """Return a program of ``calls`` calls, and its argument. An average of ones stays one."""
        step = self.program(
            lambda v: lax.fori_loop(
                0, calls, lambda i, u: symtuner.all_reduce(u, "i") / self.ranks, v
            )
        )
        x = step(self.put(np.ones((self.ranks, 1 << 18), np.float32)))
        assert (self.mine(x) == 1).all()
        before = calls_so_far()
        assert (self.mine(step(x)) == 1).all()
        # XLA runs our handler for a call that it launches, but not for a replay of a graph
        made = calls_so_far() - before
        assert made < calls if self.recorded else made == calls, made
        return step, x


def calls_so_far():
    return sum(int(re.search(r"calls=(\d+)", line)[1]) for line in symtuner.groups())


def end_together():
    """End the groups. Then end the client of the GPU, which watches the coordinator. Then end the
    coordinator."""
    from jax.extend.backend import clear_backends

    symtuner.close()
    clear_backends()
    gc.collect()
    jax.distributed.shutdown()


def values(me, calls):
    me.check_sums(("float32", "int32", "float16"), (1, 1000, 1 << 16, (1 << 20) + 5, 1 << 24))
    me.looping(calls)
    print(f"rank {me.rank}: {symtuner.groups()[0]}", flush=True)


def until_it_goes(me, calls, case):
    def die():
        me.goes()
        os.kill(os.getpid(), signal.SIGKILL)

    me.check_sums(("float32",), (1000,))
    step, x = me.looping(calls)
    print(f"rank {me.rank}: {symtuner.groups()[0]}", flush=True)
    if case == "apart":
        x = step(x)  # this call is still running when the rank exits
        time.sleep(me.delay[me.rank])
        return me.goes()
    start = time.time()
    if (me.rank, case) in ((1, "kill"), (2, "two")):
        killer = threading.Timer(me.moment + (me.later if case == "two" else 0), die)
        killer.daemon = True  # so that the process may end before the killer acts
        killer.start()
    for turn in range(1 << 30):
        x = step(x)
        if me.rank == 1 and case != "kill" and time.time() - start > me.moment:
            me.goes()
            if case != "raise":
                return
            raise RuntimeError("rank 1 has had enough")
        if turn % 10 == 0:
            jnp.sum(x.addressable_shards[0].data).block_until_ready()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--case", required=True)
    for name in ("ranks", "rank", "port", "seed", "calls"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--recorded", action="store_true")
    args = p.parse_args()
    warnings.simplefilter("error", UserWarning)  # a fallback to jax.lax is a failure here
    me = Rank(args)
    if args.case == "values":
        values(me, args.calls)
        del me
        end_together()
    else:  # if until_it_goes() returns, this process exits normally
        until_it_goes(me, args.calls, args.case)


if __name__ == "__main__":
    sys.exit(main())

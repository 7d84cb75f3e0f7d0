#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - what `make demo` runs. With two GPUs and jax it runs the benchmark of stock JAX,
# otherwise a demo on recorded NCCL decisions. GPU=0 forces the demo.
#
# usage: run.sh BUILD_FOLDER      (in the repository root)
set -u
build=$1

gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
if [ "${GPU:-1}" != 0 ] && [ "$gpus" -ge 2 ] && [ -f bench/jax_psum.py ] &&
   python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec("jax") is None)' 2>/dev/null
then
    echo "demo: $gpus GPUs and jax: stock JAX with and without the plugin" \
        "(GPU=0 make demo: without GPU)"
    exec python3 bench/jax_psum.py --demo --out "$build/demo-jax.csv"
fi
exec "$build/test/demo/demo" "$build/libsymtuner.so" test/data/demo.csv \
     "${RULES:-test/demo/demo.rules}"

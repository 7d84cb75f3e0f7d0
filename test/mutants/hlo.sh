#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# hlo.sh BUILD - the part of test/jax/run.sh that runs jax/hlo: the editor with fake kernels, without
# sanitizers. Exit 77: there is no jax here. JAX_PYTHON names the Python that has it.
set -u
out=$1/jax-hlo
mkdir -p "$out" || exit 2
python=${JAX_PYTHON:-$1/jax-venv/bin/python}
include=$("$python" -c 'import jax; print(jax.ffi.include_dir())' 2> /dev/null) ||
    { echo "hlo: skipped: $python has no jax (make test-jax gets it)"; exit 77; }
cc="${CC:-cc} -O1 -std=c11 -D_GNU_SOURCE -I. -fPIC -shared -fvisibility=hidden"
# shellcheck disable=SC2086
$cc -o "$out/libsymtuner_ar.so" test/jax/fake_ar.c &&
    $cc -isystem "$include" -o "$out/libfake_reduce.so" test/jax/hlo/fake_reduce.c jax/frame.c \
        jax/hlo/types.c -lpthread &&
    $cc -isystem "$include" -o "$out/libsymtuner_ffi.so" jax/*.c jax/hlo/*.c test/jax/touch.c -ldl \
        -lpthread || exit 1
for test in test_hlo test_gspmd test_cuts; do
    SYMTUNER_LIB_DIR=$out PYTHONPATH=jax NPROC=16 JAX_CPU_ENABLE_ASYNC_DISPATCH=0 \
        "$python" test/jax/hlo/$test.py || exit
done

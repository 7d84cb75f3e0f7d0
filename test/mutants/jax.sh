#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# jax.sh BUILD PART - runs a part of test/jax/run.sh, for one mutant:
#   hlo      jax/hlo, which edits XLA's programs, with fake kernels and without sanitizers
#   c        the tests in C, under ASan and UBSan
# The tests of the Python package take minutes and are left out.
# Exit 77: there is no jax here. JAX_PYTHON names the Python that has it.
set -u
build=$1 part=$2
out=$build/jax-$part
mkdir -p "$out" || exit 2
python=${JAX_PYTHON:-$build/jax-venv/bin/python}
include=$("$python" -c 'import jax; print(jax.ffi.include_dir())' 2> /dev/null) ||
    { echo "$part: skipped: $python has no jax (make test-jax gets it)"; exit 77; }
cc="${CC:-cc} -O1 -std=c11 -D_GNU_SOURCE -I. -isystem $include"
asan="-g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
shared="-fPIC -shared -fvisibility=hidden"
quick="-DFFI_LIVENESS_STUCK_MS=1500 -DFFI_LIVENESS_LEAVE_MS=500 -DFFI_LIVENESS_END_MS=2000"

# shellcheck disable=SC2086
$cc $shared -o "$out/libsymtuner_ar.so" test/jax/fake_ar.c || exit 1
if [ "$part" = c ]; then
    for library in libcuda.so.1 libnccl.so.2; do
        # shellcheck disable=SC2086
        $cc $shared -Wl,-soname,$library -o "$out/$library" test/jax/fake_driver.c || exit 1
    done
    # shellcheck disable=SC2086
    $cc $asan -DFFI_EXCHANGE_MS=300 -o "$out/exchange" test/jax/check_exchange.c jax/exchange.c \
        -lpthread && "$out/exchange" || exit
    # shellcheck disable=SC2086
    $cc $asan -o "$out/handler" test/jax/check_handler.c test/jax/hostile.c test/jax/frames.c \
        jax/*.c jax/hlo/*.c dropin/tally.c -ldl -lpthread &&
        "$out/handler" "$out/libsymtuner_ar.so" || exit
    # shellcheck disable=SC2086
    $cc $asan -o "$out/open" test/jax/check_open.c test/jax/frames.c jax/*.c jax/hlo/*.c \
        dropin/tally.c -ldl -lpthread &&
        LD_LIBRARY_PATH=$out "$out/open" "$out/libsymtuner_ar.so" || exit
    rm -f "$out/counts"
    # shellcheck disable=SC2086
    $cc $asan -o "$out/tally" test/jax/check_tally.c test/jax/frames.c jax/*.c jax/hlo/*.c \
        dropin/tally.c -ldl -lpthread &&
        LD_LIBRARY_PATH=$out "$out/tally" "$out/libsymtuner_ar.so" "$out/counts" || exit
    # shellcheck disable=SC2086
    $cc $asan $quick -o "$out/liveness" test/jax/check_liveness.c jax/liveness.c jax/pending.c \
        jax/groups.c jax/library.c dropin/tally.c -ldl -lpthread &&
        LD_LIBRARY_PATH=$out FAKE_AR_PATH=$out/libsymtuner_ar.so "$out/liveness"
    exit
fi
# shellcheck disable=SC2086
$cc $shared -o "$out/libsymtuner_ffi.so" jax/*.c jax/hlo/*.c dropin/tally.c test/jax/touch.c -ldl \
    -lpthread || exit 1
# shellcheck disable=SC2086
$cc $shared -o "$out/libfake_reduce.so" test/jax/hlo/fake_reduce.c jax/frame.c \
    -lpthread || exit 1
for test in test_hlo test_gspmd test_cuts; do
    SYMTUNER_LIB_DIR=$out PYTHONPATH=jax NPROC=16 JAX_CPU_ENABLE_ASYNC_DISPATCH=0 \
        "$python" test/jax/hlo/$test.py || exit
done

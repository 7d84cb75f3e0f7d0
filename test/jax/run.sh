#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD - tests the JAX path without a GPU. The handler runs under ASan and UBSan. The ranks'
# exchange of addresses (jax/exchange.c), and opening and closing groups, run under ASan and TSan.
# The Python package runs on CPU devices. The checks that test/gpu/jax_procs.py makes are tested,
# too. Run the script in the repository root.
#
# jax comes from JAX_PYTHON, else from a python3 that has it, else from PyPI into BUILD/jax-venv. If
# there is no jax, the script tests only jax/exchange.c, prints the reason and exits with 77.
set -u
build=$1
out=$build/jax-test
mkdir -p "$out" || exit 2
cc="${CC:-cc} -g -O1 -std=c11 -D_GNU_SOURCE -I. -Wall -Wextra -Wshadow -Werror"
asan="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
failed=0

for san in "$asan" -fsanitize=thread; do
    # shellcheck disable=SC2086
    $cc $san -DFFI_EXCHANGE_MS=300 -o "$out/check_exchange" test/jax/check_exchange.c \
        jax/exchange.c -lpthread && "$out/check_exchange" || failed=1
done

# Ends the script without the tests that need jax.
skip() {
    echo "test-jax: skipped: $1"
    [ "$failed" = 0 ] || exit 1
    exit 77
}

has_jax() { "$1" -c 'import sys, jax; sys.exit(jax.__version_info__ < (0, 9, 2))' 2>/dev/null; }

python=${JAX_PYTHON:-}
if [ -z "$python" ]; then
    for python in "$build/jax-venv/bin/python" python3; do
        has_jax "$python" && break
        python=
    done
fi
if [ -z "$python" ]; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        skip "needs python3 3.11 or later, for jax 0.9.2 or later"
    python3 -m venv "$build/jax-venv" 2>/dev/null ||
        skip "python3 -m venv does not work here (python3-venv?)"
    timeout 300 "$build/jax-venv/bin/pip" -q install 'jax>=0.9.2' 2>"$out/pip.log" ||
        skip "no jax from PyPI: $(tail -1 "$out/pip.log")"
    python=$build/jax-venv/bin/python
fi
has_jax "$python" || { echo "test-jax: $python has no jax 0.9.2 or later"; exit 1; }
include=$("$python" -c 'import jax; print(jax.ffi.include_dir())') || exit 1

lib=$out/lib # what the package loads here: the real handler, and fake kernels that count calls
mkdir -p "$lib"
# shellcheck disable=SC2086
$cc $asan -isystem "$include" -o "$out/check_handler" test/jax/check_handler.c test/jax/hostile.c \
    test/jax/frames.c jax/*.c jax/hlo/*.c dropin/tally.c -ldl -lpthread &&
    $cc -fPIC -shared -fvisibility=hidden -o "$lib/libsymtuner_ar.so" test/jax/fake_ar.c &&
    $cc -fPIC -shared -fvisibility=hidden -isystem "$include" -o "$lib/libsymtuner_ffi.so" \
        jax/*.c jax/hlo/*.c dropin/tally.c test/jax/touch.c -ldl -lpthread &&
    $cc -fPIC -shared -fvisibility=hidden -isystem "$include" -o "$lib/libfake_reduce.so" \
        test/jax/hlo/fake_reduce.c jax/frame.c -lpthread &&
    mkdir -p "$out/fake" &&
    $cc -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda.so.1 -o "$out/fake/libcuda.so.1" \
        test/jax/fake_driver.c &&
    $cc -fPIC -shared -fvisibility=hidden -Wl,-soname,libnccl.so.2 -o "$out/fake/libnccl.so.2" \
        test/jax/fake_driver.c || exit 1
"$out/check_handler" "$lib/libsymtuner_ar.so" || failed=1
for san in "$asan" -fsanitize=thread; do
    # shellcheck disable=SC2086
    $cc $san -isystem "$include" -o "$out/check_open" test/jax/check_open.c test/jax/frames.c \
        jax/*.c jax/hlo/*.c dropin/tally.c -ldl -lpthread &&
        LD_LIBRARY_PATH=$out/fake "$out/check_open" "$lib/libsymtuner_ar.so" || failed=1
done
rm -f "$out/tally"
# shellcheck disable=SC2086
$cc $asan -isystem "$include" -o "$out/check_tally" test/jax/check_tally.c test/jax/frames.c \
    jax/*.c jax/hlo/*.c dropin/tally.c -ldl -lpthread &&
    LD_LIBRARY_PATH=$out/fake "$out/check_tally" "$lib/libsymtuner_ar.so" "$out/tally" || failed=1
# shellcheck disable=SC2086
$cc $asan -DFFI_LIVENESS_STUCK_MS=1500 -DFFI_LIVENESS_LEAVE_MS=500 -DFFI_LIVENESS_END_MS=2000 \
    -o "$out/check_liveness" test/jax/check_liveness.c jax/liveness.c jax/pending.c jax/groups.c \
    jax/library.c dropin/tally.c -ldl -lpthread &&
    LD_LIBRARY_PATH=$out/fake FAKE_AR_PATH=$lib/libsymtuner_ar.so "$out/check_liveness" || failed=1
# shellcheck disable=SC2086
$cc $asan -Wl,--wrap=dlopen,--wrap=dlsym -o "$out/check_pending" test/jax/check_pending.c \
    jax/pending.c jax/peer_access.c jax/groups.c jax/library.c dropin/tally.c -ldl -lpthread &&
    LD_LIBRARY_PATH=$out/fake FAKE_AR_PATH=$lib/libsymtuner_ar.so "$out/check_pending" || failed=1
$cc -isystem "$include" -c -o "$out/same_abi.o" test/jax/same_abi.c ||
    { echo "FAILED: jax/xla_abi.h is not what XLA's headers are"; failed=1; }
cuda=${CUDA_HOME:-/usr/local/cuda}/include
if [ -f "$cuda/nccl.h" ]; then
    $cc -Iinclude -isystem "$cuda" -c -o "$out/same_types.o" test/jax/same_types.c ||
        { echo "FAILED: NCCL's types are not what jax/library.h takes them for"; failed=1; }
else
    echo "test-jax: jax/library.h not compared with NCCL's types: no $cuda/nccl.h"
fi
# In a collective, each of XLA's CPU devices holds a thread of XLA's pool until all devices have
# come. On a small machine, where the pool has only as many threads as there are devices, the four
# devices once waited for good. So give the pool more threads, and dispatch one program after the
# other. If XLA hangs nevertheless, it ends the process; then run the test once more.
export NPROC=16 JAX_CPU_ENABLE_ASYNC_DISPATCH=0
for test in test_all_reduce test_buckets test_as_lax install/test_install install/test_mode \
    install/test_cache ../bench/test_jax_tp hlo/test_hlo hlo/test_gspmd hlo/test_cuts \
        hlo/test_join; do
    err=$out/${test##*/}.err
    for try in 1 2; do
        SYMTUNER_LIB_DIR=$lib PYTHONPATH=jax "$python" test/jax/$test.py 2>"$err"
        code=$?
        cat "$err" >&2
        grep -q 'rendezvous.cc.*Termination timeout' "$err" || break
        echo "$test.py: XLA's CPU devices did not meet (try $try)"
    done
    [ $code = 0 ] || [ $code = 77 ] || failed=1
done
"$python" test/jax/hlo/descriptors.py || failed=1
for test in processes/test_processes hlo/test_gspmd_processes; do
    LD_LIBRARY_PATH=$out/fake SYMTUNER_LIB_DIR=$lib PYTHONPATH=jax "$python" test/jax/$test.py
    code=$?
    [ $code = 0 ] || [ $code = 77 ] || failed=1
done
"$python" test/jax/processes/test_gpu_procs.py || failed=1
for example in examples/*/run.sh; do
    for gpus in x 0 -1 1 '2 3'; do
        sh "$example" "$gpus" >"$out/example.log" 2>&1
        code=$?
        { [ $code = 2 ] && grep -q "GPUS is '$gpus'" "$out/example.log"; } ||
            { echo "FAILED: $example '$gpus': $code, $(cat "$out/example.log")"; failed=1; }
    done
done
exit $failed

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# jax.sh BUILD - symtuner.all_reduce in stock JAX on real GPUs; 2 GPUs, and 4 where there are 4. A short
# table of times follows, JAX_BENCH=0 leaves it out; with OUT=FOLDER its samples are kept there.
# Exit 77 with the reason when this box cannot run it.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
build=$(cd "${1:-$here/build}" && pwd) || exit 2
python=${JAX_PYTHON:-python3}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "$gpus" -ge 2 ] || { echo "jax.sh: skipped: needs 2 GPUs, $gpus here"; exit 77; }
include=$("$python" -c 'import jax; print(jax.ffi.include_dir())' 2>/dev/null) ||
    { echo "jax.sh: skipped: $python has no jax"; exit 77; }
[ -f "$build/libsymtuner_ar.so" ] ||
    { echo "jax.sh: skipped: $build/libsymtuner_ar.so is not built (make kernels)"; exit 77; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# the handler is built here, against the header of the jax that runs it
${CC:-cc} -O2 -g -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -Wall -Wextra -Werror -isystem "$include" \
    -shared -o "$work/libsymtuner_ffi.so" "$here"/jax/*.c -ldl -lpthread ||
    { echo "jax.sh: the handler does not compile against $include"; exit 1; }
ln -s "$(readlink -f "$build/libsymtuner_ar.so")" "$work/libsymtuner_ar.so"
export SYMTUNER_LIB_DIR="$work" PYTHONPATH="$here/jax${PYTHONPATH:+:$PYTHONPATH}"
export XLA_PYTHON_CLIENT_MEM_FRACTION="${XLA_PYTHON_CLIENT_MEM_FRACTION:-0.3}"
echo "headers: $(ls "$include/xla/ffi/api" | tr '\n' ' ')- FFI 0.$(sed -n 's/#define XLA_FFI_API_MINOR //p' "$include/xla/ffi/api/c_api.h")"
status=0
for ranks in 2 4; do
    [ "$gpus" -ge "$ranks" ] || { echo "jax.sh: $ranks ranks not run: $gpus GPUs here"; continue; }
    list=0,1
    [ "$ranks" -eq 4 ] && list=0,1,2,3
    CUDA_VISIBLE_DEVICES=$list timeout 300 "$python" "$here/test/gpu/jax_run.py" --ranks "$ranks" || status=1
    [ "${JAX_BENCH:-1}" = 0 ] || timeout 200 "$python" "$here/bench/jax_ar.py" --ranks "$ranks" --rounds 2 \
        --calls 4 --sizes 64,512,2048,8192,32768,131072,262144 --out "${OUT:-$work}/jax_ar.$ranks.csv" || status=1
done
exit $status

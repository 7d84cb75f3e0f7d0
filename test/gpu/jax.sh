#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# jax.sh BUILD [PART...] - tests symtuner.all_reduce in stock JAX on 2 real GPUs, and on 4 if there
# are 4.
#
# Parts: run (values, types, many calls in one process), procs (one process per GPU, and one of them
# dies or leaves; PROCS="--times 50 --limit 400" runs more of it on all GPUs, jax_procs.py explains
# the options), gspmd (symtuner.install() on programs that XLA partitions), programs (100 random
# programs with all three collectives, with and without install()), check (symtuner.check()),
# examples (examples/*/run.sh; TORCH_PYTHON for nccl4py), bench (a short table of times; with
# OUT=FOLDER its samples are kept there). Without PART: all. JAX_GPUS="2": on 2 GPUs only. Exit 77
# with the reason if this box cannot run it.
here=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
[ $# -gt 0 ] || set -- "$here/build"
. "$(dirname "$0")/common.sh"
shift
parts=${*:-run procs gspmd programs check examples bench}
python=${JAX_PYTHON:-python3}
need_gpus 2
include=$("$python" -c 'import jax; print(jax.ffi.include_dir())' 2>/dev/null) ||
    skip "$python has no jax"
[ -f "$build/libsymtuner_ar.so" ] || skip "$build/libsymtuner_ar.so is not built (make kernels)"
# if a signal ends this script, show what the part has printed so far
trap 'kill "$running" 2> /dev/null; cat "$work/log"; echo "jax.sh: ended in $name"; exit 1' INT TERM
# build the handler with the header of the jax that runs it
make -s -C "$here" OUT="$work" JAX_PYTHON="$python" WERROR=1 jax ||
    { echo "jax.sh: the handler does not compile against $include"; exit 1; }
ln -s "$(readlink -f "$build/libsymtuner_ar.so")" "$work/libsymtuner_ar.so"
export SYMTUNER_LIB_DIR="$work" PYTHONPATH="$here/jax${PYTHONPATH:+:$PYTHONPATH}"
export XLA_PYTHON_CLIENT_MEM_FRACTION="${XLA_PYTHON_CLIENT_MEM_FRACTION:-0.3}"
# NVLink multicast stays off unless the caller has set this
export NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
status=0 ran=0

part() { # part NAME RANKS COMMAND...: run the part on that many GPUs, if asked for
    case " $parts " in *" $1 "*) ;; *) return ;; esac
    begun=$(date +%s) name=$1 ranks=$2
    shift 2
    echo "== $name, $ranks GPUs"
    use=0,1 limit=300
    [ "$ranks" -eq 4 ] && use=0,1,2,3
    if [ "$name" = procs ] && [ -n "${PROCS:-}" ]; then
        limit=900 # this part has a time limit of its own
        [ "$gpus" -ge 4 ] && use=0,1,2,3
    fi
    CUDA_VISIBLE_DEVICES=$use timeout "$limit" "$@" > "$work/log" 2>&1 &
    running=$!
    wait "$running"
    code=$?
    case $code in
    # drop a line that XLA logs at each compilation if the mesh is in another order than the GPUs
    0) grep -v 'only supports IOTA device assignment' "$work/log" ;;
    *) cat "$work/log" ;;
    esac
    case $code in
    0) ran=1 ;;
    77) echo "jax.sh: $name, $ranks GPUs: not run here" ;;
    *) status=1; echo "jax.sh: FAILED: $name, $ranks GPUs: exit $code" ;;
    esac
    echo "== $name, $ranks GPUs: $(($(date +%s) - begun)) s"
}

minor=$(sed -n 's/#define XLA_FFI_API_MINOR //p' "$include/xla/ffi/api/c_api.h")
echo "XLA's headers: $(ls "$include/xla/ffi/api" | tr '\n' ' ')- FFI 0.$minor"
for n in ${JAX_GPUS:-2 4}; do
    [ "$gpus" -ge "$n" ] || { echo "jax.sh: $n GPUs not run: $gpus here"; continue; }
    part run "$n" "$python" "$here/test/gpu/jax_run.py" --ranks "$n"
    # shellcheck disable=SC2086
    part procs "$n" "$python" "$here/test/gpu/jax_procs.py" --ranks "$n" ${PROCS:---side 2}
    part gspmd "$n" "$python" "$here/test/gpu/jax_gspmd.py" --ranks "$n"
    part programs "$n" "$python" "$here/test/jax/install/on_gpus.py" 100
    part check "$n" "$python" -m symtuner
    for example in "$here"/examples/*/run.sh; do
        [ -f "$example" ] && part examples "$n" sh "$example" "$n" "$build"
    done
    part bench "$n" "$python" "$here/bench/jax_ar.py" --ranks "$n" \
        --out "${OUT:-$work}/jax_ar.$n.csv"
done
[ $status -ne 0 ] || [ $ran -eq 1 ] || exit 77
exit $status

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD - tests the drop-in and most kernels together, on the CPU. calls.c makes random calls
# of NCCL under symtuner run. ar_fuzz makes random calls of libsymtuner_ar.so.
#
#   WHOLE_ROUNDS  rounds of each run (20); ar_fuzz makes three calls for each
#   WHOLE_SEED    first seed (1)
# Exit 1: the output says what is wrong.
set -u
cd "$1/whole" || exit 1
rounds=${WHOLE_ROUNDS:-20} seed=${WHOLE_SEED:-1}
failed=0
# The kernels run on the CPU, so blocks are few and small.
grid="ctas=2 threads=64"
export LD_LIBRARY_PATH="$PWD" SYMTUNER_MAX_COMMS=12 SYMTUNER_ONLY=allreduce,reducescatter,allgather
unset LD_PRELOAD SYMTUNER_AR_BESIDE SYMTUNER_AR_KERNEL SYMTUNER_AR_CTAS SYMTUNER_RULE

fail() { echo "FAIL whole: $*"; cat out; failed=1; }

./calls 4 "$rounds" "$seed" > out 2>&1 || fail "NCCL alone"
for run in "2 one_lamport" "3 two_ll128" "4 chunked" "4 pull" "2 tma" "3 tma_staged" "2 tma_ipc" \
    "4 copy" "3 engines" "3 tma_engines" "4 "; do
    ranks=${run% *} kernel=${run#* }
    seed=$((seed + 1))
    ipc=0
    [ "$kernel" = tma_ipc ] && ipc=1
    SYMTUNER_AR_IPC=$ipc SYMTUNER_RULE="kernels ${kernel:+kernel=$kernel }$grid" timeout 280 \
        ./symtuner run --only dropin -- ./calls "$ranks" "$rounds" "$seed" > out 2>&1 ||
        fail "$ranks ranks, kernel ${kernel:-of the table}, seed $seed"
    for coll in allreduce reducescatter allgather; do
        grep -q "^  $coll .* \(all\|[0-9]*\) by our kernels" out ||
            fail "$coll: none by our kernels"
    done
done

# Ranks on two boxes add up box by box, under the drop-in.
seed=$((seed + 1))
BOXES=2 SYMTUNER_RULE="kernels network-pieces=2; kernels $grid" timeout 280 \
    ./symtuner run --only dropin -- ./calls 4 "$rounds" "$seed" > out 2>&1 ||
    fail "two boxes, seed $seed"
grep -q 'calls by our kernels ran box by box, in [1-9]' out ||
    fail "two boxes: no call went box by box"
for run in "2 local --reserve 1" "3 local --reserve 0" "2 threads --reserve 0" \
        "2 threads --host 1"; do
    seed=$((seed + 1))
    # shellcheck disable=SC2086
    set -- $run
    ranks=$1 mode=$2
    shift 2
    SYMTUNER_AR_MAX_CTAS=2 ./ar_fuzz --ranks "$ranks" --mode "$mode" "$@" --calls $((rounds * 3)) \
        --most 65536 --threads 64 --timeout 60000 --seed "$seed" --fork 0 > out 2>&1 ||
        fail "ar_fuzz $run, seed $seed"
done
# With SYMTUNER_AR_IPC=1 the peers map unregistered buffers.
seed=$((seed + 1))
SYMTUNER_AR_IPC=1 SYMTUNER_AR_MAX_CTAS=2 ./ar_fuzz --ranks 2 --mode threads --kernel tma_ipc \
    --calls $((rounds * 3)) --most 65536 --threads 96 --timeout 60000 --seed "$seed" \
        --fork 0 > out 2>&1 ||
    fail "ar_fuzz tma_ipc, seed $seed"
# Copy engines run all-gathers, with and without stream memory operations.
for ops in "" 1; do
    seed=$((seed + 1))
    WHOLE_NO_MEMOPS=$ops ./absent engines > out 2>&1 ||
        fail "absent${ops:+ without stream memory operations}"
    WHOLE_NO_MEMOPS=$ops SYMTUNER_AR_MAX_CTAS=2 ./ar_fuzz --ranks 3 --mode local --kernel engines \
        --coll all_gather --calls $((rounds * 3)) --most 65536 --threads 64 --timeout 60000 \
        --seed "$seed" --fork 0 > out 2>&1 || fail "ar_fuzz engines, seed $seed"
done
# TMA and copy engines run all-reduces.
./absent tma_engines > out 2>&1 || fail "absent tma_engines"
for ranks in 2 3; do
    seed=$((seed + 1))
    SYMTUNER_AR_MAX_CTAS=2 ./ar_fuzz --ranks $ranks --mode local --kernel tma_engines \
        --coll all_reduce \
        --calls $((rounds * 3)) --most 65536 --threads 96 --timeout 60000 --seed "$seed" --fork 0 \
        > out 2>&1 || fail "ar_fuzz tma_engines, $ranks ranks, seed $seed"
done
[ $failed -eq 0 ] && echo "whole: $rounds rounds on 2, 3 and 4 ranks, each result right"
exit $failed

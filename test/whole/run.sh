#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD - random calls of a program that knows NCCL only, under symtuner run, for each kernel.
#
#   WHOLE_ROUNDS  rounds of each run (20)    WHOLE_SEED  seed of the first run (1)
# Exit 1: the output says what is wrong.
set -u
cd "$1/whole" || exit 1
rounds=${WHOLE_ROUNDS:-20} seed=${WHOLE_SEED:-1}
failed=0
# Each thread of a block is a thread of the CPU here, so blocks are few and small.
grid="ctas=2 threads=64"
export LD_LIBRARY_PATH="$PWD" SYMTUNER_MAX_COMMS=12 SYMTUNER_ONLY=allreduce,reducescatter,allgather
unset LD_PRELOAD SYMTUNER_MAX_BYTES SYMTUNER_AR_KERNEL SYMTUNER_AR_CTAS

fail() { echo "FAIL whole: $*"; cat out; failed=1; }

./calls 4 "$rounds" "$seed" > out 2>&1 || fail "NCCL alone"
for run in "2 one_lamport" "3 two_ll128" "4 chunked" "4 pull" "2 tma" "3 tma_staged" "4 copy" "4 "; do
    ranks=${run% *} kernel=${run#* }
    seed=$((seed + 1))
    SYMTUNER_RULE="kernels ${kernel:+kernel=$kernel }$grid" timeout 280 \
        ./symtuner run --only dropin -- ./calls "$ranks" "$rounds" "$seed" > out 2>&1 ||
        fail "$ranks ranks, kernel ${kernel:-of the table}, seed $seed"
    for coll in allreduce reducescatter allgather; do
        grep -q "^  $coll .* \(all\|[0-9]*\) by our kernels" out || fail "$coll: none by our kernels"
    done
done
[ $failed -eq 0 ] && echo "whole: $rounds rounds on 2, 3 and 4 ranks, each result right"
exit $failed

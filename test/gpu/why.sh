#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# why.sh BUILD - checks that nccl/model predicts what stock NCCL logs for 500 random calls on 2 and
# on 4 GPUs, and for 100 more calls with each of three settings. Exit 77 with the reason if this box
# cannot run it.
. "$(dirname "$0")/common.sh"
need_gpus 2
need_built nccl_decide
work=${OUT:-$work} # OUT keeps the rows

one() { # one NAME RANKS CALLS SEED [SETTING]
    rows=$work/why-$1-$2.csv
    if ! timeout 120 env ${5:-GPU=1} "$build/nccl_decide" --ranks "$2" --calls "$3" \
            --seed "$4" > "$rows"; then
        echo "FAILED: $1, $2 ranks: nccl_decide"
        failed=1
        return
    fi
    if "$build/check-corpus" "$rows" 20 > "$work/why.txt"; then
        echo "ok   $1, $2 ranks: $(head -n 1 "$work/why.txt")"
    else
        echo "FAILED: $1, $2 ranks"
        cat "$work/why.txt"
        failed=1
    fi
}

for ranks in 2 4; do
    [ "$gpus" -ge "$ranks" ] || { echo "why.sh: $ranks ranks not run: $gpus GPUs here"; continue; }
    one plain "$ranks" 500 7
    one sym-ctas "$ranks" 100 8 NCCL_SYM_CTAS=16
    one min-ctas "$ranks" 100 9 NCCL_MIN_CTAS=16
    one sym-kernel "$ranks" 100 10 NCCL_SYM_KERNEL=AllReduce_AGxLL_R
done
[ "$failed" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ar.sh BUILD - libsymtuner_ar.so on real GPUs: random calls in every mode, then peers that die.
# AR_CALLS: random calls of the longest run (100000; the full test is 1000000), AR_KILLS: groups that
# lose a process (4; the full test is 50). Exit 77 with the reason when this box cannot run it.
set -u
build=$(cd "${1:-build}" && pwd) || exit 2
calls=${AR_CALLS:-100000} kills=${AR_KILLS:-4}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "$gpus" -ge 2 ] || { echo "ar.sh: skipped: needs 2 GPUs, $gpus here"; exit 77; }
for p in ar_fuzz ar_kill ar_late; do
    [ -x "$build/$p" ] || { echo "ar.sh: skipped: $build/$p is not built (make $build/$p; no NCCL?)"; exit 77; }
done
failed=0
seed=${AR_SEED:-$(date +%s)}

fuzz() { # fuzz RANKS MODE CALLS [further options]
    ranks=$1 mode=$2 number=$3
    shift 3
    "$build/ar_fuzz" --ranks "$ranks" --mode "$mode" --calls "$number" --seed "$seed" "$@" ||
        { failed=$((failed + 1)); echo "FAILED: ar_fuzz --ranks $ranks --mode $mode --calls $number --seed $seed $*"; }
}

for ranks in 2 3 4 8; do
    [ "$gpus" -ge "$ranks" ] || { echo "ar.sh: $ranks ranks not run: $gpus GPUs here"; continue; }
    few=$((calls / 10))
    case $ranks in
    3) fuzz 3 threads "$few" ;;
    *)
        fuzz "$ranks" procs "$calls" --limit "${AR_LIMIT:-280}"
        fuzz "$ranks" threads "$few"
        fuzz "$ranks" local "$few"
        fuzz "$ranks" threads "$((few / 10))" --host 1 --most 1048576
        ;;
    esac
done
"$build/ar_late" || { failed=$((failed + 1)); echo "FAILED: ar_late"; }
"$build/ar_kill" --times "$kills" || { failed=$((failed + 1)); echo "FAILED: ar_kill --times $kills"; }
[ "$failed" -eq 0 ]

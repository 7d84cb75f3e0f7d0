#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tune.sh BUILD - symtuner tune on real GPUs, short: a tiny run, interrupted, resumed; its rules load
# in the plugin; a second run of the whole gives times that differ little.
#   TUNE_BYTES=1KiB..256MiB TUNE_OUT=DIR test/gpu/tune.sh BUILD    the full run, results kept in DIR
# Exit 0: passed. 1: failed. 77: no two GPUs here, or no NCCL.

set -u
build=$(cd "$1" && pwd)
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "${gpus:-0}" -ge 2 ] || { echo "tune.sh: skipped, needs 2 GPUs, ${gpus:-0} here"; exit 77; }
ranks=$gpus
[ "$ranks" -le 8 ] || ranks=8
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
keep=${TUNE_OUT:-$work}
mkdir -p "$keep"
passed=0 failed=0
ok() { # ok WHAT STATUS
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else echo "FAIL $1"; failed=$((failed + 1)); fi
}
export NCCL_NVLS_ENABLE=0
nccl=${NCCL_LIB:-}
if [ -z "$nccl" ]; then
    nccl=$(ldd "$build/nccl_coll" 2>/dev/null | awk '/libnccl/ { print $3 }')
fi
[ -n "$nccl" ] && [ -f "$nccl" ] || { echo "tune.sh: skipped, no NCCL (NCCL_LIB=FILE)"; exit 77; }
tune() { # tune OUT BYTES ARGUMENTS
    out=$1 bytes=$2
    shift 2
    "$build/symtuner" tune --nccl "$nccl" --ranks "$ranks" --bytes "$bytes" --out "$out" "$@"
}

if [ -n "${TUNE_BYTES:-}" ]; then
    start=$(date +%s)
    tune "$keep/h200x$ranks.rules" "$TUNE_BYTES" --fresh
    ok "full run: exit status" $?
    took=$(($(date +%s) - start))
    [ "$took" -le 240 ]
    ok "full run: $took s, at most 240" $?
    echo "full run on $ranks GPUs: $took s"
    "$build/symtuner" check --here --nccl "$(sed -n 's/^nccl *= //p' "$keep/h200x$ranks.rules")" "$keep/h200x$ranks.rules"
    ok "its rules are legal and fit this box" $?
fi

# tiny: interrupted and resumed
start=$(date +%s)
tune "$work/a.rules" 64KiB..1MiB --ctas 16 > /dev/null 2> "$work/stop.err" &
pid=$!
sleep 9
kill -INT $pid
wait $pid
status=$?
if [ "$status" = 0 ]; then
    echo "tune.sh: the tiny run ended before it could be interrupted"
else
    [ "$status" = 1 ] && [ ! -e "$work/a.rules" ]
    ok "interrupted: exit status $status, no rules yet" $?
    echo "kept: $(grep -c '^done,' "$work/a.rules.csv" 2>/dev/null) of 6 measurements"
fi
tune "$work/a.rules" 64KiB..1MiB --ctas 16 > "$work/a.out" 2> "$work/a.err"
ok "resumed: exit status; $(tail -1 "$work/a.err")" $?
cat "$work/a.out"
"$build/symtuner" check --here --nccl "$(sed -n 's/^nccl *= //p' "$work/a.rules")" "$work/a.rules"
ok "its rules are legal and fit this box" $?

# the plugin takes them
if [ -x "$build/nccl_coll" ]; then
    ctas=$(sed -n 's/^sym-ctas *= //p' "$work/a.rules")
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING NCCL_TUNER_PLUGIN=$build/libsymtuner.so \
        SYMTUNER_RULES=$work/a.rules SYMTUNER_DEFAULTS=0 \
        "$build/nccl_coll" --ranks 2 --reps 0 --colls 1 --min 1M --max 1M > "$work/log" 2>&1
    ok "a run with the rules ends well" $?
    ! grep -q 'refused\|another machine' "$work/log"
    ok "the plugin accepts the rules" $?
    if [ -n "$ctas" ]; then
        grep -q "\[Symmetric\].*nchannels $ctas " "$work/log"
        ok "symmetric kernels run with $ctas CTAs" $?
    fi
fi

# a second run agrees: the same candidate's time differs by more than 10 % at no size
tune "$work/b.rules" 64KiB..1MiB --ctas 16 > /dev/null 2>&1
ok "second run: exit status" $?
for run in a b; do
    "$build/symtuner" tune --json --from "$work/$run.rules.csv" --out "$work/x.rules" 2>/dev/null |
        sed -n 's/.*"bytes": \([0-9]*\), "candidate": "\([^"]*\)", "us": \([0-9.]*\).*/\1 \2 \3/p' > "$work/$run.cells"
done
awk 'NR == FNR { us[$1 $2] = $3; next }
     { r = $3 / us[$1 $2]; r = r > 1 ? r : 1 / r; if (r > worst) { worst = r; at = $1 " " $2 } n++ }
     END { printf "two runs: %d cells, largest difference %.1f %% (%s)\n", n, 100 * (worst - 1), at; exit !(n > 0 && worst < 1.10) }' \
    "$work/a.cells" "$work/b.cells"
ok "two runs differ by less than 10 % in every cell" $?
echo "tune on $ranks GPUs: $(($(date +%s) - start)) s; $passed passed, $failed failed"
[ "$failed" -eq 0 ]

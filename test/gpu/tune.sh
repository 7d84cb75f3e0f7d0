#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tune.sh BUILD - runs symtuner tune on real GPUs. By default it interrupts and resumes a tiny run.
# The rules of this run must load in the plugin and in the library, and a second run must give rules
# that are as fast.
#   TUNE_BYTES=1KiB..256MiB TUNE_OUT=DIR test/gpu/tune.sh BUILD    the full run, results kept in DIR
#   TUNE_RANKS=N     GPUs to use (all, at most 8); with 2 N GPUs two full runs go side by side
#   TUNE_VERIFY_ROUNDS=N   rounds of the comparison (5)      TUNE_TINY=0   only the full run
# The full run: two runs, each of which must end within 240 s. Their rules, loaded by plugin and
# library, must nowhere be more than 3 % slower than the best alternative, and the rules of both
# runs must be within 5 % of each other. Exit 0: passed. 1: failed. 77: too few GPUs here, or no
# NCCL.
. "$(dirname "$0")/common.sh"
ranks=${TUNE_RANKS:-$gpus}
[ "$ranks" -le 8 ] || ranks=8
need_gpus $((ranks > 2 ? ranks : 2))
find_nccl
keep=${TUNE_OUT:-$work}
mkdir -p "$keep"
export NCCL_NVLS_ENABLE=0
tune() { # tune OUT BYTES ARGUMENTS
    out=$1 bytes=$2
    shift 2
    "$build/symtuner" tune --library "$nccl" --ranks "$ranks" --bytes "$bytes" --out "$out" "$@"
}
fits() { # fits RULES: are the rules legal, and for this box?
    "$build/symtuner" check --here --nccl "$(sed -n 's/^nccl *= //p' "$1")" "$1"
}

# ---- full ----------------------------------------------------------------------------------------
full() { # full LETTER [GPUS]: makes one full run, and writes its seconds into LETTER.s
    (
        [ -z "${2:-}" ] || export CUDA_VISIBLE_DEVICES="$2"
        start=$(date +%s)
        tune "$keep/$1$ranks.rules" "$TUNE_BYTES" --fresh > "$keep/$1$ranks.txt" 2> "$work/$1.err"
        status=$?
        echo $(($(date +%s) - start)) > "$work/$1.s"
        exit $status
    )
}
full_ended() { # full_ended LETTER STATUS
    ok "full run $1: exit status; $(tail -2 "$work/$1.err" 2>/dev/null)" "$2"
    took=$(cat "$work/$1.s" 2>/dev/null || echo 9999)
    [ "$took" -le 240 ]
    ok "full run $1: $took s, at most 240" $?
    echo "full run $1 on $ranks GPUs, $TUNE_BYTES: $took s"
}
if [ -n "${TUNE_BYTES:-}" ]; then
    # make two runs, a and b, at the same time if there are GPUs for both; then the two runs use
    # different GPUs and links
    if [ "$gpus" -ge $((2 * ranks)) ]; then
        first=$(seq -s, 0 $((ranks - 1))) second=$(seq -s, "$ranks" $((2 * ranks - 1)))
        full a "$first" & one=$!
        full b "$second" & two=$!
        wait $one; full_ended a $?
        wait $two; full_ended b $?
        verify_on=$first
    else
        full a; full_ended a $?
        full b; full_ended b $?
        verify_on=
    fi
    cat "$keep/a$ranks.txt"
    for run in a b; do
        fits "$keep/$run$ranks.rules"
        ok "full run $run: its rules are legal and fit this box" $?
    done
    "$build/symtuner" diff "$keep/a$ranks.rules" "$keep/b$ranks.rules" --coll allreduce \
        --ranks "$ranks"
    start=$(date +%s)
    (
        [ -z "$verify_on" ] || export CUDA_VISIBLE_DEVICES="$verify_on"
        "$build/symtuner" tune --library "$nccl" --rounds "${TUNE_VERIFY_ROUNDS:-5}" \
            --verify "$keep/a$ranks.rules,$keep/b$ranks.rules" 2> "$work/v.err"
    )
    status=$? said=$(tail -1 "$work/v.err")
    ok "in a fresh run: at most 3 % over the best everywhere, the two runs within 5 %; $said" \
        $status
    echo "verified on $ranks GPUs in $(($(date +%s) - start)) s"
fi

# ---- tiny ----------------------------------------------------------------------------------------
# interrupt the run as soon as it has measured something, and resume it
[ "${TUNE_TINY:-1}" = 1 ] ||
    { echo "tune.sh: $passed passed, $failed failed"; [ "$failed" -eq 0 ]; exit; }
start=$(date +%s)
(   # exec, not the function tune: a function would run in a subshell, which would get the signal
    exec "$build/symtuner" tune --library "$nccl" --ranks "$ranks" --bytes 64KiB..1MiB --ctas 16 \
        --out "$work/a.rules" > /dev/null 2> "$work/stop.err"
) &
pid=$!
for _ in $(seq 600); do
    [ -e "$work/a.rules.csv" ] && break
    sleep 0.1
done
kill -INT $pid
wait $pid
status=$?
[ "$status" = 1 ] && [ ! -e "$work/a.rules" ] && grep -q 'goes on from here' "$work/stop.err"
ok "interrupted: exit status $status, no rules yet" $?
echo "kept: $(grep -c '^done,' "$work/a.rules.csv" 2>/dev/null) of 9 measurements"
tune "$work/a.rules" 64KiB..1MiB --ctas 16 > "$work/a.out" 2> "$work/a.err"
ok "resumed: exit status; $(tail -1 "$work/a.err")" $?
cat "$work/a.out"
fits "$work/a.rules"
ok "its rules are legal and fit this box" $?

# tune --beside must keep the times that the run above has measured, and add times beside GEMMs.
before=$(date +%s)
tune "$work/a.rules" 64KiB..1MiB --ctas 16 --beside > "$work/g.out" 2> "$work/g.err"
status=$?
if [ "$status" = 77 ]; then
    echo "tune.sh: --beside is left out: $(tail -1 "$work/g.err")"
else
    ok "tune --beside: exit status $status; $(tail -1 "$work/g.err")" $status
    grep -q '9 of 21 measurements are there already' "$work/g.err"
    ok "tune --beside: it keeps the times of calls alone" $?
    fits "$work/a.rules"
    ok "tune --beside: its rules are legal and fit this box" $?
    sed -n '/^Beside GEMMs/,$p' "$work/g.out"
    grep 'beside GEMMs: about' "$work/g.err"
    echo "tune --beside: $(($(date +%s) - before)) s"
    # the tests that follow need rules without --beside
    tune "$work/a.rules" 64KiB..1MiB --ctas 16 --fresh > /dev/null 2>&1
    ok "run anew without --beside: exit status" $?
fi

# does the plugin load these rules?
if [ -x "$build/nccl_coll" ]; then
    ctas=$(sed -n 's/^sym-ctas *= //p' "$work/a.rules")
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING NCCL_TUNER_PLUGIN=$lib \
        SYMTUNER_RULES=$work/a.rules SYMTUNER_DEFAULTS=0 \
        "$build/nccl_coll" --ranks 2 --colls 1 --min 1M --max 1M > "$work/log" 2>&1
    ok "a run with the rules ends well" $?
    ! grep -q 'refused\|another machine' "$work/log"
    ok "the plugin accepts the rules" $?
    if [ -n "$ctas" ]; then
        grep -q "\[Symmetric\].*nchannels $ctas " "$work/log"
        ok "symmetric kernels run with $ctas CTAs" $?
    fi
fi

# does the library load them? A rule for one size must change the kernel of that size and of no
# other
mkdir "$work/ruled"
cp "$work/a.rules.csv" "$work/ruled/one.rules.csv"
{
    sed '/^# [0-9]* of [0-9]* sizes/,$d' "$work/a.rules"
    printf '[kernels planted]\nbytes = 100000..200000\nkernel = two_ll8\nctas = 24\nthreads = 128\n'
} > "$work/ruled/one.rules"
"$build/symtuner" tune --library "$nccl" --verify "$work/ruled/one.rules" > "$work/ruled/out" 2>&1
[ "$(grep -c ' two_ll8/' "$work/ruled/out")" = 1 ] &&
    grep -q '^128 KiB  *[0-9.]* two_ll8/' "$work/ruled/out"
ok "the library runs the kernel that a rule names, there only" $?

# a second run must give rules that are as fast
tune "$work/b.rules" 64KiB..1MiB --ctas 16 > /dev/null 2>&1
ok "second run: exit status" $?
"$build/symtuner" tune --library "$nccl" --verify "$work/a.rules,$work/b.rules" 2> "$work/v.err"
ok "tiny rules in a fresh run; $(tail -1 "$work/v.err")" $?
echo "tune on $ranks GPUs: $(($(date +%s) - start)) s; $passed passed, $failed failed"
[ "$failed" -eq 0 ]

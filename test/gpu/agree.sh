#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# agree.sh BUILD - runs two ranks on two real GPUs, one process per rank. In most runs the ranks
# have different rules files, SYMTUNER_ variables or working folders. Every call must give the right
# sums, and its kernel must have the same grid on both ranks; otherwise the ranks hang. If the
# settings could make the ranks choose differently, the plugin's log must say so. A run that hangs
# fails. Exit 77 if this box cannot run it.
. "$(dirname "$0")/common.sh"
need_gpus 2
need_built nccl_ranks

cat > "$work/my.rules" <<END
[process]
sym-ctas = 24
[rule large]
coll     = allreduce
bytes    = 64KiB..
prefer   = general:tree/simple
END
sed 's/tree/ring/; s/24/12/' "$work/my.rules" > "$work/other.rules"

# the CTA count that the plugin has built in for this kind of box; empty if it has none
ctas=$(NCCL_ENV_PLUGIN=$lib "$build/symtuner" decide allreduce 4MiB --ranks 2 | tr "\n" " " |
       sed -n 's/.*least \([0-9]*\) CTAs (built-in).*/\1/p' | head -n 1)

# case_of NAME 'REGULAR EXPRESSION THAT THE LOG MUST HOLD' ARGUMENTS OF nccl_ranks...
case_of() {
    name=$1 wanted=$2
    shift 2
    NCCL_ENV_PLUGIN=$lib NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING,ENV \
        timeout 90 "$build/nccl_ranks" --limit 45 "$@" > "$work/log" 2>&1
    status=$?
    if [ "$status" -ne 0 ]; then
        failed=$((failed + 1))
        echo "FAILED: $name: exit status $status (3 is a hang)"
        tail -n 5 "$work/log"
    elif ! grep -q "$wanted" "$work/log"; then
        failed=$((failed + 1))
        echo "FAILED: $name: the log does not say \"$wanted\""
        grep 'symtuner:\|\[Symmetric\]' "$work/log" | tail -n 5
    else
        passed=$((passed + 1))
        echo "right: $name"
    fi
}

same="Symmetric.* 4194304 Bytes.*nchannels ${ctas:-[0-9]*} "
rules=SYMTUNER_RULES=$work/my.rules
unset SYMTUNER_RULES SYMTUNER_RULE SYMTUNER_MODE SYMTUNER_DEFAULTS
case_of "nothing differs, no rules" "$same"
case_of "nothing differs, rules" "nchannels 24 " "0:$rules" "1:$rules"
case_of "a rules file on rank 0 only" "differ in rules" "0:$rules"
case_of "a rules file missing on rank 1" "differ in rules" "0:$rules" \
    "1:SYMTUNER_RULES=$work/none.rules"
echo 'nonsense' > "$work/wrong.rules"
case_of "a wrong rules file on rank 1" "differ in rules" "0:$rules" \
    "1:SYMTUNER_RULES=$work/wrong.rules"
case_of "other rules on rank 1" "differ in rules" "0:$rules" "1:SYMTUNER_RULES=$work/other.rules"
mkdir "$work/empty"
case_of "a relative name, another folder on rank 1" "is relative" --chdir "0:$work" \
    --chdir "1:$work/empty" "0:SYMTUNER_RULES=my.rules" "1:SYMTUNER_RULES=my.rules"
case_of "SYMTUNER_RULE on rank 1 only" "differ in rules" \
    "1:SYMTUNER_RULE=allreduce prefer=general:ring/ll"
case_of "SYMTUNER_MODE=observe on rank 1" "${ctas:+different values of NCCL_MIN_CTAS}" \
    1:SYMTUNER_MODE=observe
case_of "SYMTUNER_MODE=off on rank 1" "${ctas:+different values of NCCL_MIN_CTAS}" \
    1:SYMTUNER_MODE=off
case_of "SYMTUNER_DEFAULTS=0 on rank 1" "${ctas:+different values of NCCL_MIN_CTAS}" \
    1:SYMTUNER_DEFAULTS=0
case_of "SYMTUNER_MACHINE on rank 1" "${ctas:+different values of NCCL_MIN_CTAS}" \
    "1:SYMTUNER_MACHINE=gpu=NVIDIA A100"
case_of "SYMTUNER_LEDGER on rank 0 only" "$same" "0:SYMTUNER_LEDGER=$work/job.ledger"
case_of "GPUs in another order" "$same" 0:CUDA_VISIBLE_DEVICES=1,0 1:CUDA_VISIBLE_DEVICES=1,0
case_of "an application that asks for 4 CTAs at most" "4194304 Bytes.*nchannels 4 " --max-ctas 4
own=$(timeout 90 env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING "$build/nccl_ranks" 2>&1 |
      sed -n 's/.*Symmetric.* 4194304 Bytes.*nchannels \([0-9]*\) .*/\1/p' | head -n 1)
case_of "NCCL_CTA_POLICY=1: NCCL's own count" "4194304 Bytes.*nchannels ${own:-none} " \
    0:NCCL_CTA_POLICY=1 1:NCCL_CTA_POLICY=1
[ -n "$ctas" ] ||
    echo "agree.sh: the built-in defaults do not cover this box: no count was compared"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plugin.sh BUILD - loads libsymtuner.so into stock NCCL on real GPUs in every documented way.
# Results must be right, and NCCL's log, the ledger and `symtuner decide` must agree. Exit 77 with
# the reason if this box cannot run it.
. "$(dirname "$0")/common.sh"
need_gpus 2
need_built nccl_coll

# run NAME RANKS [ARGUMENTS OF nccl_coll]; the environment comes from the caller
run() {
    rm -f "$work/$1.ledger" # the plugin would append to the file
    name=$1 ranks=$2
    shift 2
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING,ENV SYMTUNER_LEDGER=$work/$name.ledger \
        "$build/nccl_coll" --ranks "$ranks" "$@" > "$work/$name.log" 2>&1
}

# ask the command for this box's built-in CTA count; empty if there is none
ctas=$("$build/symtuner" decide allreduce 1MiB | tr '\n' ' ' |
    sed -n 's/.*at least \([0-9]*\) CTAs.*/\1/p')

loaded() { # loaded NAME RANKS WAY
    ok "$3, $2 ranks: exit status" "$4"
    grep -q 'Using symtuner' "$work/$1.log"
    ok "$3, $2 ranks: NCCL says that it uses symtuner" $?
    if [ -n "$ctas" ] && [ "$1" = env ]; then # NCCL asks only the env plugin for variables
        grep -q "\[Symmetric\].*4194304 Bytes.*nchannels $ctas " "$work/$1.log" ||
            grep -q "\[Symmetric\]: 4194304 Bytes.*nchannels $ctas " "$work/$1.log"
        ok "$3, $2 ranks: symmetric kernels run with $ctas CTAs" $?
    fi
}

ln -sf "$lib" "$work/libnccl-tuner-symtuner.so"
printf 'NCCL_TUNER_PLUGIN=%s\n' "$lib" > "$work/nccl.conf"
for ranks in 2 4; do
    [ "$gpus" -ge "$ranks" ] ||
        { echo "plugin.sh: $ranks ranks not run: $gpus GPUs here"; continue; }
    NCCL_TUNER_PLUGIN=$lib run path "$ranks" --colls 1 --max 4M
    loaded path "$ranks" "NCCL_TUNER_PLUGIN=/path/libsymtuner.so" $?
    LD_LIBRARY_PATH=$build:${LD_LIBRARY_PATH:-} NCCL_TUNER_PLUGIN=libsymtuner.so run bare "$ranks" \
        --colls 1 --max 4M
    loaded bare "$ranks" "NCCL_TUNER_PLUGIN=libsymtuner.so" $?
    LD_LIBRARY_PATH=$work:${LD_LIBRARY_PATH:-} NCCL_TUNER_PLUGIN=symtuner run short "$ranks" \
        --colls 1 --max 4M
    loaded short "$ranks" "NCCL_TUNER_PLUGIN=symtuner" $?
    NCCL_CONF_FILE=$work/nccl.conf run conf "$ranks" --colls 1 --max 4M
    loaded conf "$ranks" "NCCL_CONF_FILE" $?
    NCCL_ENV_PLUGIN=$lib run env "$ranks" --colls 7 --max 4M
    loaded env "$ranks" "NCCL_ENV_PLUGIN=/path/libsymtuner.so" $?
    # both buffers are registered, so each eager call must have run a symmetric kernel
    awk -F'[ =]' '/^ran/ { n++; for (i = 1; i < NF; i++) v[$i] = $(i + 1);
                           if (v["general"] != 0 || v["symmetric"] != v["called"] ||
                               v["called"] == 0) bad = 1 }
                  END { exit bad || n == 0 }' "$work/env.ledger"
    ok "NCCL_ENV_PLUGIN, $ranks ranks: the ledger counts every call as symmetric" $?
    # the user's own setting must win
    NCCL_SYM_CTAS=5 NCCL_TUNER_PLUGIN=$lib run own "$ranks" --colls 1 --min 4M --max 4M
    grep -q '\[Symmetric\].*nchannels 5 ' "$work/own.log"
    ok "NCCL_SYM_CTAS=5, $ranks ranks: the user's value is kept" $?

    # rules on plain buffers: NCCL's log, the ledger and `symtuner decide` must agree call by call
    for pair in ring/ll ring/ll128 ring/simple tree/ll tree/simple; do
        rule="allreduce prefer=general:$pair"
        SYMTUNER_RULE=$rule NCCL_TUNER_PLUGIN=$lib run rule "$ranks" --windows 0 --colls 1 --max 4M
        ok "rule $pair, $ranks ranks: exit status" $?
        SYMTUNER_RULE=$rule "$build/symtuner" decide allreduce 64KiB --ranks "$ranks" |
            grep -q "makes $pair the cheapest"
        ok "rule $pair, $ranks ranks: decide says so" $?
        algo=$(echo "${pair%/*}" | tr a-z A-Z) proto=$(echo "${pair#*/}" | tr a-z A-Z)
        logged=$(grep -c "AllReduce: .* -> Algo $algo proto $proto " "$work/rule.log")
        any=$(grep -c 'AllReduce: .* -> Algo ' "$work/rule.log")
        # the ledger counts the calls of all ranks of the process, NCCL logs those of rank 0
        counted=$(awk -F'[ =]' -v r="$ranks" -v a="${pair%/*}" -v p="${pair#*/}" \
                  '/^picked/ && $7 == a && $9 == p { n += $NF } END { print n / r }' \
                  "$work/rule.ledger")
        [ "$any" -gt 0 ] && [ "$logged" -eq "$any" ] && [ "$counted" = "$logged" ]
        ok "rule $pair, $ranks ranks: log has $logged of $any, ledger $counted" $?
    done
    # without a rule, NCCL must pick the same algorithms with and without the plugin
    run without "$ranks" --windows 0 --max 4M
    NCCL_TUNER_PLUGIN=$lib run with "$ranks" --windows 0 --max 4M
    for f in without with; do
        sed -n 's/.*NCCL INFO \(.* Bytes -> Algo.*\)/\1/p' "$work/$f.log" > "$work/$f.choices"
    done
    [ -s "$work/with.choices" ] && cmp -s "$work/with.choices" "$work/without.choices"
    ok "no rule, $ranks ranks: NCCL's choices are the same with the plugin" $?
done
[ -n "$ctas" ] || echo "plugin.sh: CTA counts not compared: no built-in default for this box"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

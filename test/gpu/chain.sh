#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# chain.sh BUILD [PEERS] - loads our plugin, which in turn loads NCCL's example tuner and profiler,
# on two real GPUs. In whichever way NCCL loads our plugin, NCCL must call both examples as often as
# without our plugin. The folder PEERS (default .peer) has libnccl-tuner-example.so and
# libnccl-profiler-example.so of NCCL 2.28 or later. They are built like this:
#
#   git -C NCCL archive v2.28.9-1 ext-tuner/example ext-profiler/example | tar x -C .peer
#   gcc -O2 -fPIC -shared -I.peer/ext-tuner/example{,/nccl} \
#       -o .peer/libnccl-tuner-example.so .peer/ext-tuner/example/plugin.c
#   g++ -O2 -fPIC -shared -I.peer/ext-profiler/example{,/nccl} \
#       -o .peer/libnccl-profiler-example.so .peer/ext-profiler/example/*.cc
#
# Exit 77 with the reason if this box cannot run it.
. "$(dirname "$0")/common.sh"
peers=$(cd "${2:-.peer}" 2>/dev/null && pwd) || skip "no folder ${2:-.peer} with NCCL's examples"
tuner=$peers/libnccl-tuner-example.so
profiler=$peers/libnccl-profiler-example.so
need_gpus 2
need_built nccl_coll
for file in "$tuner" "$profiler"; do [ -f "$file" ] || skip "no $file"; done
mkdir "$work/default"
ln -s "$tuner" "$work/default/libnccl-tuner.so"
ln -s "$profiler" "$work/default/libnccl-profiler.so"

# run NAME VARIABLE=VALUE...: runs three collectives on plain buffers, because NCCL asks no tuner
# about registered ones. The example tuner prints a line each time that NCCL asks it, and the
# example profiler writes down its events. The profiler's mask selects the events Group, Coll and
# P2p, and those of the API. It leaves out proxy and GPU events, because their number differs from
# run to run. A Coll event of the example takes 755 MB (mostly unused), so there are few calls and a
# small pool.
run() {
    name=$1
    shift
    (cd "$work" && env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING,ENV \
        NCCL_PROFILE_EVENT_MASK=3847 NCCL_PROFILE_DUMP_FILE="$work/$name" \
        NCCL_PROFILE_GROUP_API_POOL_SIZE=4096 NCCL_PROFILE_COLL_API_POOL_SIZE=4096 \
        NCCL_PROFILE_KERNEL_LAUNCH_POOL_SIZE=4096 NCCL_PROFILE_COLL_POOL_SIZE=32 \
        NCCL_PROFILE_P2P_POOL_SIZE=32 "$@" \
        "$build/nccl_coll" --ranks 2 --windows 0 --colls 7 --min 1M \
            --max 4M > "$work/$name.log" 2>&1)
    status=$?
    ok "$name: exit status $status: $(tail -n 1 "$work/$name.log")" $status
    grep -c 'ExamplePlugin: No matching config found' "$work/$name.log" > "$work/$name.asked"
    cat "$work/$name"_*.json 2>/dev/null | grep -o '"cat": *"[A-Z_0-9a-z]*"' | sort | uniq -c \
        > "$work/$name.events"
}

same() { # same NAME DESCRIPTION
    cmp -s "$work/alone.asked" "$work/$1.asked"
    status=$?
    ok "$2: tuner asked $(cat "$work/$1.asked") times, alone $(cat "$work/alone.asked")" $status
    diff "$work/alone.events" "$work/$1.events" > "$work/$1.diff"
    status=$?
    ok "$2: events (< alone, > behind ours): $(cat "$work/$1.diff")" $status
}

front="NCCL_TUNER_PLUGIN=$lib NCCL_PROFILER_PLUGIN=$lib"
run alone NCCL_TUNER_PLUGIN="$tuner" NCCL_PROFILER_PLUGIN="$profiler"
[ "$(cat "$work/alone.asked")" -gt 0 ] && [ -s "$work/alone.events" ]
ok "alone: the examples are asked and told at all (NCCL 2.28 or later?)" $?

run named $front SYMTUNER_NEXT_TUNER="$tuner" SYMTUNER_NEXT_PROFILER="$profiler" \
    SYMTUNER_LEDGER="$work/named.ledger"
same named "SYMTUNER_NEXT_TUNER and _PROFILER, with a ledger"
grep -q '^asked ' "$work/named.ledger" && grep -q '^ran ' "$work/named.ledger"
ok "named: our ledger has counted as well" $?

run quiet $front SYMTUNER_NEXT_TUNER="$tuner" SYMTUNER_NEXT_PROFILER="$profiler"
same quiet "the same without a ledger"

run default $front LD_LIBRARY_PATH="$work/default:${LD_LIBRARY_PATH:-}" \
    SYMTUNER_LEDGER="$work/default.ledger"
same default "NCCL's default names"

run off $front SYMTUNER_MODE=off LD_LIBRARY_PATH="$work/default:${LD_LIBRARY_PATH:-}"
same off "SYMTUNER_MODE=off"

run env NCCL_ENV_PLUGIN="$lib" SYMTUNER_DEFAULTS=0 NCCL_TUNER_PLUGIN="$tuner" \
    NCCL_PROFILER_PLUGIN="$profiler" SYMTUNER_LEDGER="$work/env.ledger"
same env "NCCL_ENV_PLUGIN, the examples named by the user"

# Our env plugin makes NCCL load our tuner only if the tuner has something to do. Here it has
# nothing to do: there is no ledger, and with SYMTUNER_DEFAULTS=0 no built-in CTA count.
run idle NCCL_ENV_PLUGIN="$lib" SYMTUNER_DEFAULTS=0 \
    LD_LIBRARY_PATH="$work/default:${LD_LIBRARY_PATH:-}"
same idle "NCCL_ENV_PLUGIN with nothing to do: NCCL loads the examples itself"
for name in named quiet default env; do
    grep -q 'symtuner: behind this tuner: "Example"' "$work/$name.log"
    ok "$name: our log names the tuner behind ours" $?
done

echo "chain.sh: $(cat "$work/alone.asked") questions and these events, alone and behind ours:"
cat "$work/alone.events"
echo "chain.sh: $passed passed, $failed failed"
[ "$failed" -eq 0 ] || { cp -r "$work" "$build/chain-failed" 2>/dev/null; exit 1; }

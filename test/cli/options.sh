#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# options.sh BUILD - checks that every command reads its command line in the same way, and that help
# text, man page and bash completion name the same options.
# Exit 0: all right. 1: something is not. A part that cannot run here is named as skipped.
set -u
symtuner=$(cd "$1" && pwd)/symtuner
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 checked=0
ok() { # ok WHAT STATUS: counts a check, which has failed unless STATUS is 0
    checked=$((checked + 1))
    [ "$2" -eq 0 ] || { echo "FAIL $1"; failed=1; }
}
commands=$("$symtuner" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 12 ]
ok "symtuner --help names the commands" $?

for command in $commands; do
    "$symtuner" "$command" --help > "$work/help" 2> "$work/err"
    ok "$command --help" $?
    "$symtuner" "$command" -h 2>&1 | cmp -s - "$work/help"
    ok "$command -h says what $command --help says" $?
    "$symtuner" help "$command" 2>&1 | cmp -s - "$work/help"
    ok "help $command says what $command --help says" $?
    [ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' "$work/help")" -le 100 ]
    ok "$command --help fits 100 columns" $?
    "$symtuner" "$command" --no-such-thing > "$work/out" 2>&1
    [ $? = 2 ] && grep -q 'no such option: "--no-such-thing"' "$work/out"
    ok "$command: an option that there is not" $?

    # the options of the help text must be those of the section in the man page
    sed -n 's/^  \(-h, \)\{0,1\}--\([a-z][a-z-]*\).*/\2/p' "$work/help" | sort > "$work/options"
    [ -s "$work/options" ]
    ok "$command --help lists options" $?
    awk -v command="$command" '
        /^\.S[SH] / { inside = ($2 == "symtuner" && $3 == command) }
        inside' docs/man/symtuner.1 | sed 's/\\-/-/g' > "$work/section"
    [ -s "$work/section" ]
    ok "docs/man/symtuner.1 has a section for $command" $?
    case $command in # the page describes options of diff under table, and those of bench under tune
    diff) awk '/^\.S[SH] /{inside = ($3 == "table")} inside' docs/man/symtuner.1 ;;
    bench) awk '/^\.S[SH] /{inside = ($3 == "tune")} inside' docs/man/symtuner.1 ;;
    esac | sed 's/\\-/-/g' >> "$work/section"
    for option in $(grep -vx help "$work/options"); do
        grep -qE -- "^\.[BT][A-Z]* --$option( |\$)" "$work/section"
        ok "docs/man/symtuner.1 names --$option of $command" $?
    done
    case $command in diff | bench) continue ;; esac
    for option in $(sed -nE 's/^\.B[A-Z]* --([a-z-]+).*/\1/p' "$work/section" | sort -u); do
        grep -qx -- "$option" "$work/options"
        ok "$command --help names --$option of docs/man/symtuner.1" $?
    done
done

# symtuner must know every type that the help text names
types=$("$symtuner" table --help | sed -n 's/^types: \(.*\), or in the words.*/\1/p')
[ "$(echo $types | wc -w)" = 12 ]
ok "table --help names the twelve types" $?
for type in $types float32 bfloat16 half fp16 fp32 bf16 float16 float64 int8 uint8 int32 int64 \
    float8_e4m3fn float8_e5m2 torch.float32 torch.bfloat16 torch.half jnp.bfloat16 numpy.int64 \
    ncclFloat32 Float32; do
    "$symtuner" table --dtype "$type" docs/example.rules --ranks 2 > /dev/null 2> "$work/err"
    ok "--dtype $type: $(cat "$work/err")" $?
done
"$symtuner" table --dtype float16x docs/example.rules > /dev/null 2>&1
[ $? = 2 ]
ok "--dtype float16x is no type" $?

# A value may follow its option after a blank or after "=". An option may stand before or after the
# words. The output must be the same.
for pair in "decide allreduce 1MiB|--ranks|4" "table docs/example.rules|--machine|h200x2" \
    "top test/data/ledger/rank0.ledger|--sort|size" "check docs/example.rules|--nccl|2.28.9"; do
    begin=${pair%%|*} value=${pair##*|} option=${pair#*|} option=${option%|*}
    "$symtuner" $begin "$option" "$value" > "$work/one" 2>&1
    "$symtuner" $begin "$option=$value" 2>&1 | cmp -s - "$work/one"
    ok "$begin: $option=$value is $option $value" $?
    "$symtuner" ${begin%% *} "$option=$value" ${begin#* } 2>&1 | cmp -s - "$work/one"
    ok "$begin: $option may come first" $?
done
# If the reader of our output is gone, die by SIGPIPE, silently, even where our parent ignores it.
for trap in - ''; do
    (
        trap "$trap" PIPE
        sleep 0.3
        "$symtuner" doctor --list 2> "$work/err"
        echo $? > "$work/status"
    ) | true
    [ "$(cat "$work/status")" = 141 ] && [ ! -s "$work/err" ]
    ok "a pipe without a reader, trap '$trap': status $(cat "$work/status"): $(cat "$work/err")" $?
done
[ "$failed" = 0 ] && echo "options: $checked checks, all fine"
exit "$failed"

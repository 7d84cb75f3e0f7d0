#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD SECONDS - runs each parser under libFuzzer for SECONDS: the parsers of rules and of
# NCCL's CSV (fuzz.c), and the parser of XLA's modules (fuzz_hlo.c). A parser starts from the inputs
# of earlier runs, which are in test/golden/fuzz. New inputs stay in BUILD/fuzz, and so does an
# input that crashes a parser.
set -u
wrong=0
mkdir -p "$1/fuzz/kept"
tar -xJf test/golden/fuzz/corpus.tar.xz -C "$1/fuzz/kept" &&
    tar -xJf test/golden/fuzz/hlo.tar.xz -C "$1/fuzz/kept" &&
    sh test/golden/texts.sh "$1/fuzz/texts" || exit 1
for parser in rules inline csv hlo; do
    new=$1/fuzz/corpus-$parser texts=$1/fuzz/texts
    [ $parser = hlo ] && texts=
    mkdir -p "$new"
    if ! "$1/fuzz-$parser" -max_total_time="$2" -max_len=8192 -timeout=5 -rss_limit_mb=2048 \
        -artifact_prefix="$1/fuzz/" -dict=test/fuzz/words.dict -print_final_stats=1 "$new" \
        "$1/fuzz/kept/$parser" ${texts:+"$texts/rules" "$texts/bad"} \
        >"$1/fuzz/$parser.log" 2>&1; then
        wrong=1
        tail -40 "$1/fuzz/$parser.log"
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$1/fuzz/$parser.log")
    echo "fuzz $parser: $2 s, ${runs:-no} inputs, $([ $wrong = 0 ] && echo no crash || echo CRASH)"
done
exit $wrong

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# golden.sh - run recorded command lines and compare what they print.
#
#   test/golden.sh SYMTUNER [FOLDER...]   compare (folders of test/golden by default)
#   UPDATE=1 test/golden.sh SYMTUNER ...  write what is printed now; read the diff before you commit
#
# NAME.cmd holds the arguments of one call of the command, run by sh at the root of the repository
# with an empty environment. NAME.out holds stdout, then stderr, then "exit N".
# Exit status: 0 all equal, 1 some differ, 2 nothing to run.

set -u
symtuner=${1:?usage: test/golden.sh SYMTUNER [FOLDER...]}
shift
cd "$(dirname "$0")/.." || exit 2
[ $# -gt 0 ] || set -- test/golden/*/
ran=0 differ=0
out=$(mktemp) && err=$(mktemp) && got=$(mktemp) || exit 2
trap 'rm -f "$out" "$err" "$got"' EXIT

for folder in "$@"; do
    for cmd in "$folder"/*.cmd; do
        [ -e "$cmd" ] || continue
        ran=$((ran + 1))
        env -i PATH="$PATH" LC_ALL=C sh -c "\"$symtuner\" $(cat "$cmd")" >"$out" 2>"$err" </dev/null
        { status=$?; cat "$out" "$err"; echo "exit $status"; } >"$got"
        want=${cmd%.cmd}.out
        if [ "${UPDATE:-0}" = 1 ]; then
            cp "$got" "$want"
        elif ! diff -u "$want" "$got"; then
            differ=$((differ + 1))
        fi
    done
done
echo "golden: $ran run, $differ differ"
[ "$ran" -gt 0 ] || exit 2
[ "$differ" -eq 0 ]

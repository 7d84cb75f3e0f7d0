#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# golden.sh - run recorded command lines and compare what they print.
#
#   test/golden.sh SYMTUNER [FILE.test...]     compare (all of test/golden/{cli,why} by default)
#   test/golden.sh -u SYMTUNER [FILE.test...]  write what is printed now; read the diff before you
#                                              commit
#
# A file holds cases, one after the other, with blank lines and # comments between them:
#
#   $ symtuner check none.rules          the command; "> " continues it on the next line
#   none.rules: No such file ...         its stdout, then its stderr
#   exit 1                               its exit status ends the case
#
# sh runs the command at the root of the repository. Its environment has only PATH, LC_ALL, and
# LD_LIBRARY_PATH with the folder of SYMTUNER, so that the loader finds libsymtuner.so by its name.
# Exit status: 0 all equal, 1 some differ, 2 a file is malformed or has no case.

set -u
update=0
[ "${1:-}" != -u ] || { update=1; shift; }
symtuner=${1:?usage: test/golden.sh [-u] SYMTUNER [FILE.test...]}
shift
cd "$(dirname "$0")/.." || exit 2
folder=$(cd "$(dirname "$symtuner")" && pwd)
[ $# -gt 0 ] || set -- test/golden/cli/*.test test/golden/why/*.test
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# split FILE: write case N to $work as N.command, N.want, N.line and N.before (all lines up to its
# output). One more .before holds what follows the last case. Prints the number of cases.
split()
{
    awk -v work="$work" '
        function wrong(text) { print FILENAME ":" FNR ": " text >"/dev/stderr"; bad = 1; exit 2 }
        BEGIN { before = work "/1.before" }
        !open && /^\$ symtuner( |$)/ {
            n++
            open = 1
            command = work "/" n ".command"
            want = work "/" n ".want"
            printf "" >want
            print FNR >(work "/" n ".line")
            print substr($0, 11) >command
            print >before
            next
        }
        open == 1 && /^> / { print substr($0, 3) >command; print >before; next }
        open {
            open = 2
            print >want
            if (/^exit [0-9]+$/) {
                open = 0
                close(command); close(want); close(before); close(work "/" n ".line")
                before = work "/" n + 1 ".before"
            }
            next
        }
        !/^(#|$)/ { wrong("neither a case nor a comment: " $0) }
        { print >before }
        END {
            if (!bad && open)
                wrong("the last case has no \"exit N\"")
            if (!bad)
                print n + 0
        }' "$1"
}

ran=0 differ=0
for file in "$@"; do
    rm -f "$work"/*
    cases=$(split "$file") || exit 2
    [ "$cases" -gt 0 ] || { echo "$file: no case" >&2; exit 2; }
    i=0
    while [ $i -lt "$cases" ]; do
        i=$((i + 1))
        env -i PATH="$PATH" LC_ALL=C LD_LIBRARY_PATH="$folder" \
            sh -c "\"$symtuner\"$(cat "$work/$i.command")" \
            >"$work/$i.got" 2>"$work/err" </dev/null
        status=$?
        { cat "$work/err"; echo "exit $status"; } >>"$work/$i.got"
        if [ $update = 1 ] && [ "$(grep -c '^exit [0-9]*$' "$work/$i.got")" != 1 ]; then
            echo "$file:$(cat "$work/$i.line"): output without newline," \
                "or with a line \"exit N\"" >&2
            exit 2
        elif [ $update = 0 ] && ! diff -u "$work/$i.want" "$work/$i.got" >"$work/delta"; then
            differ=$((differ + 1))
            echo "$file:$(cat "$work/$i.line"): symtuner$(cat "$work/$i.command")"
            sed '1,2d' "$work/delta"
        fi
    done
    ran=$((ran + cases))
    if [ $update = 1 ]; then
        {
            for i in $(seq "$cases"); do cat "$work/$i.before" "$work/$i.got"; done
            [ ! -e "$work/$((cases + 1)).before" ] || cat "$work/$((cases + 1)).before"
        } >"$work/new"
        cp "$work/new" "$file"
    fi
done
echo "golden: $ran run, $differ differ"
[ "$differ" -eq 0 ]

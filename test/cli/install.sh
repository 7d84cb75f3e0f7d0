#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh BUILD - what make install puts together fits together: every function that an installed
# header declares is exported by an installed library. Exit 0: all right. 1: something is not.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL $*"; failed=1; }
unset MAKEFLAGS MAKELEVEL MFLAGS
make -s install B="$1" PREFIX=/usr DESTDIR="$work/root" > "$work/log" 2>&1 || fail "make install: $(cat "$work/log")"
for library in "$work"/root/usr/lib/*.so; do nm -D --defined-only "$library"; done |
    awk '{ print $3 }' | sort -u > "$work/exported"
for header in "$work"/root/usr/include/*.h; do
    # a declaration may go over several lines
    grep -v '^#define' "$header" | tr '\n' ' ' | grep -oE 'SYMTUNER(_AR)?_API [^(;]*\(' | sed -E 's/.*[ *]([a-z_0-9]+)\($/\1/' > "$work/declared"
    [ -s "$work/declared" ] || fail "${header##*/} declares no function"
    for name in $(grep -vxF -f "$work/exported" "$work/declared"); do
        fail "${header##*/} declares $name, which no installed library has"
    done
done
[ -f "$work/root/usr/include/symtuner.h" ] || fail "symtuner.h is not installed"

[ "$failed" = 0 ] && echo "install: fine"
exit "$failed"

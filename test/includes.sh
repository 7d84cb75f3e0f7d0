#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# includes.sh - checks what docs/design.md says about includes. A room is a folder with sources.
# Each room includes only the rooms that the page allows. No file of plugin/ includes a file of a
# higher layer. No two files include each other, directly or through others.
#
# It reads two tables of that page. Each line of ```text rooms has a room and the rooms or files
# that its files may include, besides those of the same room. The table ```text layers has the
# layers of plugin/. A file and its header count as one. Run it in the repository root. Exit 1: the
# output names the wrong include.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

table() # NAME: print the table NAME of docs/design.md
{
    sed -n '/^```text '"$1"'$/,/^```$/p' docs/design.md | sed '1d;$d'
}

# Print "FILE INCLUDED" for each include in a room. A source includes public headers without their
# folder.
git ls-files 'include/*.h' '*.c' '*.h' '*.cu' '*.cuh' 2> /dev/null |
    grep -v '^test/\|^examples/' > "$work/files"
[ -s "$work/files" ] || find include base nccl rules plugin kernels dropin cli jax bench -name \
    '*.[ch]' -o -name '*.cu' -o -name '*.cuh' > "$work/files"
xargs grep -HE '^#include "' < "$work/files" |
    sed -E 's/^([^:]*):#include "([^"]*)".*/\1 \2/' > "$work/includes"
[ "$(wc -l < "$work/includes")" -gt 300 ] ||
    { echo "FAIL includes.sh found hardly any include"; exit 1; }

table rooms > "$work/rooms"
[ "$(wc -l < "$work/rooms")" -gt 10 ] || { echo "FAIL docs/design.md: no table of rooms"; exit 1; }
awk '
    function room(path) { sub(/\/?[^\/]*$/, "", path); return path }
    function at_home(path) { return path ~ /\// && path !~ /^nccl_abi\// ? path : "include/" path }
    NR == FNR { known[$1] = 1; for (i = 1; i <= NF; i++) may[$1, $i] = 1; next }
    {
        here = room($1)
        there = at_home($2)
        if (!(here in known)) { print "    " here "/ is no room of docs/design.md"; bad = 1 }
        else if ($2 !~ /^xla\// && !((here, room(there)) in may) && !((here, there) in may)) {
            print "    " $1 " includes " $2
            bad = 1
        }
    }
    END { exit bad }' "$work/rooms" "$work/includes" ||
    { echo "FAIL an include against the rooms of docs/design.md, see above"; failed=1; }

# tsort reports circles of includes. A .c and its .h count as one file. A name without a folder is a
# header of include/.
awk '
    function stem(path) { sub(/\.(c|h|cu|cuh)$/, "", path); return path }
    { to = $2; if (to ~ /^nccl_abi\// || to !~ /\//) to = "include/" to }
    stem($1) != stem(to) { print stem($1), stem(to) }' "$work/includes" > "$work/pairs"
if ! tsort < "$work/pairs" > /dev/null 2> "$work/circle"; then
    echo "FAIL these include each other in a circle:"
    sed 's/^tsort: /    /; s/-: //' "$work/circle"
    failed=1
fi

table layers | sed -nE 's/^([0-9] .*)   .*/\1/p' > "$work/layers"
for file in $(grep '^plugin/' "$work/files"); do
    base=$(echo "$file" | sed 's|^plugin/||; s/\.[ch]$//')
    grep -qE "^[0-9] (.* )?$base( |\$)" "$work/layers" ||
        { echo "FAIL docs/design.md has no layer for $file"; failed=1; }
    awk -v file="$file" '$1 == file && $2 ~ /^plugin\// { print $2 }' "$work/includes" |
        sed 's|^plugin/||; s/\.h$//' |
        awk -v file="$file" -v base="$base" '
            NR == FNR { for (i = 2; i <= NF; i++) { level[$i] = $1; line[$i] = NR }; next }
            $1 == base || level[$1] > level[base] || line[$1] == line[base] { next }
            { print "    " file " includes plugin/" $1 ".h"; bad = 1 }
            END { exit bad }' "$work/layers" - ||
        { echo "FAIL an include against the layers of docs/design.md"; failed=1; }
done
exit "$failed"

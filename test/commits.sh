#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# commits.sh - checks the messages of all commits after ${since}, except merges. A subject has at
# most 60 characters, begins with a capital letter and has no full stop at its end. A body says why.
# If the clone lacks the commit ${since}, the script checks nothing and exits with 77.
set -eu
since=c985556
cd "$(dirname "$0")/.."

if ! git cat-file -e "$since^{commit}" 2>/dev/null; then
    echo "commits.sh: $since is not in this clone: the subjects of commits are not checked"
    exit 77
fi
git log --no-merges --format='%h%x09%s%x09%b%x1e' "$since..HEAD" | awk -v RS='\036\n?' -F '\t' '
    $1 == "" { next }
    { seen++ }
    length($2) > 60        { bad($1, $2, length($2) " characters, at most 60") }
    $2 !~ /^[A-Z]/         { bad($1, $2, "begin with a verb and a capital letter") }
    $2 ~ /\.$/             { bad($1, $2, "no full stop at the end") }
    $3 !~ /[^ \t\n]/       { bad($1, $2, "no body: say why") }
    END { printf "commits.sh: %d commits, %d faults\n", seen, faults; exit faults != 0 }
    function bad(id, subject, why) { print id " " subject ": " why; faults++ }'

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD - compares what check-corpus prints with expected.txt. It runs check-corpus on the
# recorded decisions, on a sample, on a sample with three wrong rows, and on two paths that are not
# a corpus. UPDATE=1 writes expected.txt. Exit 1: they differ.
set -u
cd "$(dirname "$0")/../.." || exit 2
check=$1/check-corpus
want=test/corpus/expected.txt
got=$(mktemp) || exit 2
trap 'rm -f "$got"' EXIT
for file in test/data/nccl-decisions.csv.xz test/corpus/sample.csv test/corpus/sample-wrong.csv . \
        test/corpus/none.csv; do
    echo "\$ check-corpus $file"
    "$check" "$file" 2>&1
    echo "exit $?"
done > "$got"
[ -z "${UPDATE:-}" ] || cp "$got" "$want"
diff -u "$want" "$got" && echo "corpus: $(sed -n 2p "$got")"

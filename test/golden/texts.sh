#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# texts.sh FOLDER: writes the text of each case of rules.test and bad.test to FOLDER/rules and
# FOLDER/bad, as NAME.rules, NAME.csv or NAME.inline, for tests that need files.
set -eu
mkdir -p "$1/rules" "$1/bad"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
for set in rules bad; do
    cp $set/*.rules $set/*.csv "$out/$set"
    awk -v folder="$out/$set" '
        /^--- (means|error)$/ || /^--- file / { file = ""; next }
        /^--- / { file = folder "/" $3 "." $2; printf "" >file; next }
        file { print >file }' $set/$set.test
done
cp rules/*.inline "$out/rules"

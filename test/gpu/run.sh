#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD - runs every GPU test. Exit 0: all passed. 77: none could run here. 1: some failed.
ran=0 failed=0
for test in test/gpu/*.sh test/gpu/nccl_tests/*.sh test/gpu/one/*.sh; do
    case $test in */run.sh | */common.sh | */all_ranks.sh) continue ;; esac
    echo "== $test"
    sh "$test" "$1"
    case $? in
    0) ran=$((ran + 1)) ;;
    77) ;;
    *) ran=$((ran + 1)) failed=$((failed + 1)) ;;
    esac
done
[ "$ran" -gt 0 ] || { echo "test-gpu: nothing could run here, see above"; exit 77; }
echo "GPU tests: $ran ran, $failed failed"
[ "$failed" -eq 0 ]

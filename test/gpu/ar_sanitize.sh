#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ar_sanitize.sh BUILD - short random runs under compute-sanitizer: memcheck (kernels access only
# memory that they may access), racecheck (shared memory), synccheck (all threads reach the
# barriers) and initcheck (nothing is read before it is written). Two ranks are threads of one
# process, on two GPUs or on the same one. Their kernels wait for each other, so they must run at
# the same time. Under initcheck they did so in only half of all runs (2026-11-22, 2 H200s: 8
# time-outs in 16 runs; no time-out without the tool). So the script tries up to five times. If the
# kernels never run at the same time, the check counts as not run. On one GPU memcheck and synccheck
# never let them do so (2026-11-28, 1 H200). There the part "sanitize" of test/gpu/one/one.sh runs
# these two tools, with a process for each rank.
# The script takes minutes, so it runs only with AR_SANITIZE=1. Otherwise, and where this box cannot
# run it, it exits with 77 and prints the reason.
#   SANITIZER          the tool (pip: nvidia-cuda-sanitizer-api)
#   AR_SANITIZE_CALLS  calls of each run (2000)
#   AR_SANITIZE_LIMIT  seconds for each run (50)
#   AR_SANITIZE_ONLY   names of some tools
. "$(dirname "$0")/common.sh"
calls=${AR_SANITIZE_CALLS:-2000} limit=${AR_SANITIZE_LIMIT:-50}
checks=${AR_SANITIZE_ONLY:-memcheck racecheck synccheck initcheck}
tool=${SANITIZER:-$(command -v compute-sanitizer ||
    ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)}
[ "${AR_SANITIZE:-0}" = 1 ] || skip "takes long, set AR_SANITIZE=1"
[ -n "$tool" ] || skip "no compute-sanitizer here, SANITIZER names none"
need_gpus 1
need_built ar_fuzz
out=$work/out
CUDA_DEVICE_MAX_CONNECTIONS=32
export CUDA_DEVICE_MAX_CONNECTIONS
used=$((gpus >= 2 ? 2 : 1))
right=0
for check in $checks; do
    # The other tools check only kernels with "2ar" in their names, which are symtuner's. initcheck
    # must watch all kernels, because it must see what each of them writes.
    only='--kernel-name kns=2ar'
    case $check in
    # do not report "peer access is already enabled", which is no error here
    memcheck) only="$only --report-api-errors no" ;;
    initcheck) only= ;;
    esac
    began=$(date +%s) attempt=1
    while :; do
        # shellcheck disable=SC2086 # $only is some words, or none
        timeout -k 5 "$limit" "$tool" --tool "$check" $only --error-exitcode 9 \
            "$build/ar_fuzz" --fork 0 --mode local --ranks 2 --gpus "$used" --calls "$calls" \
            --most 20000 --timeout 10000 --limit "$limit" --say 0 > "$out" 2>&1
        status=$?
        held=0
        [ "$status" -ne 1 ] || ! grep -q 'waited for a peer past the time limit' "$out" || held=1
        [ "$held" = 1 ] && [ "$used" -gt 1 ] && [ "$attempt" -lt 5 ] || break
        attempt=$((attempt + 1))
    done
    said="$check, 2 ranks on $used GPU(s), $calls calls, $(($(date +%s) - began)) s"
    [ "$attempt" -eq 1 ] || said="$said, attempt $attempt"
    if [ "$status" -eq 0 ]; then
        right=$((right + 1))
        echo "ar_sanitize.sh: $said: right; $(grep 'SUMMARY' "$out" | tr -d '=')"
    elif [ "$held" = 1 ] && grep -q 'SUMMARY: 0 ' "$out"; then
        echo "ar_sanitize.sh: $said: not run:" \
            "the tool did not let the kernels of both ranks run at the same time"
    else
        failed=$((failed + 1))
        echo "FAILED: ar_sanitize.sh: $said: exit $status"
        grep -v '^ *$' "$out" | head -40
    fi
done
[ "$failed" -eq 0 ] || exit 1
[ "$right" -gt 0 ] || exit 77

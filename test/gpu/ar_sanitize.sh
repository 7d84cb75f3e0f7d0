#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ar_sanitize.sh BUILD - short random runs under compute-sanitizer: memcheck (every kernel writes and
# reads only where it may) and racecheck (shared memory). Takes minutes, hence only with AR_SANITIZE=1;
# otherwise, and where this box cannot run it, exit 77 with the reason.
set -u
build=$(cd "${1:-build}" && pwd) || exit 2
calls=${AR_SANITIZE_CALLS:-300}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
[ "${AR_SANITIZE:-0}" = 1 ] || { echo "ar_sanitize.sh: skipped: takes long, set AR_SANITIZE=1"; exit 77; }
[ -n "$tool" ] || { echo "ar_sanitize.sh: skipped: no compute-sanitizer here"; exit 77; }
[ "$gpus" -ge 1 ] || { echo "ar_sanitize.sh: skipped: no GPU here"; exit 77; }
[ -x "$build/ar_fuzz" ] || { echo "ar_sanitize.sh: skipped: $build/ar_fuzz is not built"; exit 77; }
failed=0
[ "$gpus" -ge 2 ] || echo "ar_sanitize.sh: one GPU: both ranks share it"
for check in memcheck racecheck; do
    # kernels run many times slower: long time limits, short messages
    timeout "${AR_SANITIZE_LIMIT:-150}" "$tool" --tool "$check" --target-processes all --error-exitcode 9 \
        "$build/ar_fuzz" --mode local --ranks 2 --gpus "$((gpus >= 2 ? 2 : 1))" --calls "$calls" \
        --most 20000 --timeout 100000 --limit "${AR_SANITIZE_LIMIT:-150}"
    status=$?
    echo "ar_sanitize.sh: $check, $calls calls: exit $status"
    [ "$status" -eq 0 ] || failed=$((failed + 1))
done
[ "$failed" -eq 0 ]

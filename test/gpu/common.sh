#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# common.sh - every GPU test of this folder begins with it: . test/gpu/common.sh. It sets
#   build   the folder of the built files: the test's first argument (build)
#   lib     libsymtuner.so in it
#   gpus    how many GPUs are here
#   work    an empty folder, which is removed when the test ends
#   passed, failed   0; ok() counts them up
set -u
skip() { # skip REASON
    echo "$(basename "$0"): skipped: $*"
    exit 77
}
need_gpus() { # need_gpus NUMBER
    [ "$gpus" -ge "$1" ] || skip "$1 GPUs needed, $gpus here"
}
need_built() { # need_built PROGRAM...
    for program in "$@"; do
        [ -x "$build/$program" ] || skip "$build/$program is not built (no NCCL, or no nvcc?)"
    done
}
find_nccl() { # sets nccl to NCCL_LIB, or to the library that the test programs are linked with
    nccl=${NCCL_LIB:-$(ldd "$build/nccl_coll" 2>/dev/null | awk '/libnccl/ { print $3 }')}
    [ -n "$nccl" ] && [ -f "$nccl" ] || skip "no NCCL (NCCL_LIB=FILE names one)"
}
ok() { # ok DESCRIPTION STATUS
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1"
    fi
}
build=$(cd "${1:-build}" && pwd) || exit 2
lib=$build/libsymtuner.so
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
work=$(mktemp -d) || exit 2
# shellcheck disable=SC2064 # expand $work now, because a test may set it to another folder later
trap "rm -rf '$work'" EXIT
passed=0 failed=0

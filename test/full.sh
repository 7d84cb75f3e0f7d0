#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make test-full: builds with two compilers and -Werror, and runs AddressSanitizer with UBSan,
# ThreadSanitizer, valgrind and libFuzzer. Three steps run side by side, because a step mostly runs
# one process at a time, and some steps wait for time limits. Each step prints its name, its time,
# and whether it passed. A missing tool is a failure, because this run must not skip anything.
#
#   GCC_TESTED=1  leaves out the step "gcc -Werror", because .ci/run has done it
set -u
jobs=${JOBS:-2}
started=$(date +%s)
mkdir -p build
failures=build/full-failures
: >"$failures"
sh test/need-check.sh || exit 1
# Steps in the background ignore Ctrl-C, so at Ctrl-C the script ends them itself.
trap 'trap - TERM; kill 0' INT
# A slow test is not a failure, because several steps share the cores.
export CK_TIMEOUT_MULTIPLIER=10

log_of() # NAME: print the name of the log of a step
{
    echo "build/full-$(echo "$1" | tr ' /' '--').log"
}

step() # NAME COMMAND...: run a step, and print its time and verdict
{
    name=$1
    shift
    log=$(log_of "$name")
    before=$(date +%s)
    if ("$@") >"$log" 2>&1; then
        echo "ok    $name ($(($(date +%s) - before)) s)$(grep -h '^[0-9]*%: ' "$log" |
            sed 's/^/, /' | tr -d '\n')"
    else
        echo "$name" >>"$failures"
        echo "FAIL  $name: see $log"
    fi
}

strict() # COMPILER: build everything with -Werror, and test it
{
    make -j"$jobs" CC="$1" WERROR=1 B="build-$1" all "build-$1/check" "build-$1/check-host" &&
        "build-$1/check" && "build-$1/check-host" "$PWD/build-$1/libsymtuner.so"
}

# A sanitizer that finds something ends the test's process with an exit code that libcheck counts as
# an error.
memory()
{
    # Every test is a fork. The more memory its parent holds, the longer a fork takes. So keep few
    # freed blocks.
    ASAN_OPTIONS=quarantine_size_mb=8 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        make -j"$jobs" -Otarget SAN=address,undefined CFLAGS='-O1 -g' test-core test-host \
            test-dropin
}

kernels() # test the part of the kernels' library that runs on the host
{
    make -j"$jobs" SAN=address,undefined CFLAGS='-O1 -g' build-address-undefined/check-ar \
        test-ar-threads &&
        UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build-address-undefined/check-ar
}

threads() # run the tests that have several threads; those of the commands have only one
{
    export TSAN_OPTIONS="halt_on_error=1:die_after_fork=0" TEST_ROUNDS=500
    export CK_EXCLUDE_TAGS=commands
    TEST_ROUNDS=30 make -j"$jobs" SAN=thread CFLAGS='-O1 -g' test-ar-threads || return 1
    make -j"$jobs" SAN=thread CFLAGS='-O1 -g' build-thread/check test-host test-dropin test-nodes &&
        for suite in ledger 'ledger file' match; do
            CK_RUN_SUITE=$suite build-thread/check || return 1
        done
}

# the pure suites (test/suites.h) run in one process; the other suites fork, and valgrind follows
# the children
heap()
{
    make -j"$jobs" build/check || return 1
    CK_FORK=no CK_DEFAULT_TIMEOUT=0 CK_TIMEOUT_MULTIPLIER=20 TEST_ROUNDS=200 \
        valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
        --child-silent-after-fork=no build/check
}

# Three workers go through the list in work(), and each takes what no other has taken. Steps that
# build in the same folder are taken together.
rm -rf build/full-taken && mkdir build/full-taken || exit 1
take() # NAME: succeed unless another worker has taken the step
{
    mkdir "build/full-taken/$1" 2>/dev/null
}
work()
{
    if take address; then
        step "address and undefined behaviour" memory
        step "kernels on the host" kernels
    fi
    if take thread; then
        step "threads" threads
    fi
    if take plain; then
        step "valgrind" heap
        step "fuzz" make -j"$jobs" fuzz FUZZ_SECONDS="${FUZZ_SECONDS:-20}"
    fi
    if [ "${GCC_TESTED:-0}" = 0 ] && take gcc; then
        step "gcc -Werror" strict gcc
    fi
    if take clang; then
        step "clang -Werror" strict clang
    fi
}
work &
work &
work &
wait
grep '^fuzz' build/full-fuzz.log
while read -r name; do
    echo "---- $name: the last lines of $(log_of "$name")"
    tail -n 40 "$(log_of "$name")"
done <"$failures"
echo "test-full: $(($(date +%s) - started)) s$(sed "s/.*/, failed: &/" "$failures" | tr -d '\n')"
[ ! -s "$failures" ]

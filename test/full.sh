#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make test-full: two compilers with -Werror, AddressSanitizer and UBSan, ThreadSanitizer, valgrind,
# libFuzzer. Each step prints its name, its time and its verdict; a missing tool is a failure here,
# because this is the run that must not skip anything.
set -u
jobs=${JOBS:-2}
failed=
started=$(date +%s)

step() # NAME COMMAND...
{
    name=$1
    shift
    log=build/full-$(echo "$name" | tr ' /' '--').log
    mkdir -p build
    before=$(date +%s)
    if "$@" >"$log" 2>&1; then
        echo "ok    $name ($(($(date +%s) - before)) s)$(grep -h '^[0-9]*%: ' "$log" |
            sed 's/^/, /' | tr -d '\n')"
    else
        failed="$failed '$name'"
        echo "FAIL  $name: last lines of $log"
        tail -n 40 "$log"
    fi
}

strict() # compiler
{
    make -j"$jobs" CC="$1" WERROR=1 B="build-$1" all "build-$1/check" "build-$1/check-host" &&
        "build-$1/check" && "build-$1/check-host" "$PWD/build-$1/libsymtuner.so"
}

# a sanitizer's finding ends the test's process with its exit code: Check counts an error
memory()
{
    # every test is a fork, which costs what its parent holds: freed blocks are not kept for long
    ASAN_OPTIONS=quarantine_size_mb=8 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        make -j"$jobs" SAN=address,undefined CFLAGS='-O1 -g' test-core test-host
}

kernels() # what of them runs on the host
{
    make -j"$jobs" SAN=address,undefined CFLAGS='-O1 -g' build-address-undefined/check-ar &&
        UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 CK_TIMEOUT_MULTIPLIER=10 \
            build-address-undefined/check-ar
}

threads() # but for the tests of commands, which have one thread
{
    export TSAN_OPTIONS="halt_on_error=1:die_after_fork=0" TEST_ROUNDS=500
    export CK_EXCLUDE_TAGS=commands
    make -j"$jobs" SAN=thread CFLAGS='-O1 -g' build-thread/check test-host &&
        for suite in ledger 'ledger file' match; do
            CK_RUN_SUITE=$suite build-thread/check || return 1
        done
}

heap() # the pure suites in one process; the others fork, and valgrind follows
{
    make -j"$jobs" build/check || return 1
    CK_FORK=no CK_DEFAULT_TIMEOUT=0 CK_TIMEOUT_MULTIPLIER=20 TEST_ROUNDS=200 \
        valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
        --child-silent-after-fork=no build/check
}

step "gcc -Werror" strict gcc
step "clang -Werror" strict clang
step "address and undefined behaviour" memory
step "kernels on the host" kernels
step "threads" threads
step "valgrind" heap
step "fuzz" make fuzz FUZZ_SECONDS="${FUZZ_SECONDS:-20}"
cat build/full-fuzz.log | grep '^fuzz'
echo "test-full: $(($(date +%s) - started)) s${failed:+, failed:$failed}"
[ -z "$failed" ]

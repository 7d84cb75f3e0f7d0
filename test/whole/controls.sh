#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# controls.sh BUILD - would the tests notice if kernels/engines lacked a guard, such as a wait? It
# removes one guard at a time from the libsymtuner_ar.so that runs on the CPU, and runs absent.c and
# ar_fuzz with it. One of them must fail. If no guard is removed (plain), none may fail. Takes two
# minutes.
set -u
whole=$1/whole
bad=0

# control KERNEL COLLECTIVE GUARD OPS - runs the programs without GUARD. OPS 1 means without stream
# memory operations.
control() {
    kernel=$1 guard=$3 ops=$4 caught=no
    break=-DST_BREAK_$guard
    [ "$guard" = plain ] && break=
    make -s "$whole$break/libsymtuner_ar.so" AR_BREAK="$break" > /dev/null || exit 1
    fuzz="ar_fuzz --ranks 3 --mode local --kernel $kernel --coll $2 --calls 300 --most 65536"
    fuzz="$fuzz --threads 96 --timeout 3000 --fork 0 --limit 60"
    for program in "absent $kernel" "absent $kernel -" "$fuzz"; do
        # shellcheck disable=SC2086
        LD_LIBRARY_PATH=$whole$break:$whole WHOLE_NO_MEMOPS=$ops SYMTUNER_AR_MAX_CTAS=2 \
            timeout 100 "$whole"/$program > /dev/null 2>&1 ||
            { caught="yes, by ${program%% *}"; break; }
    done
    echo "controls: $kernel ${ops:+without stream memory operations, }without ${guard#plain}:" \
        "caught $caught"
    case $guard$ops/$caught in
    # without stream memory operations nothing needs to be released, so RELEASE guards nothing
    plain/no | plain1/no | RELEASE1/no) ;;
    plain* | RELEASE1* | */no) bad=1 ;;
    esac
}

for guard in plain EARLY RESET RELEASE GAVEUP; do
    for ops in "" 1; do
        control engines all_gather "$guard" "$ops"
    done
done
# test/kernels/emulated/controls.sh tests the guard VERDICT
for guard in plain EARLY RESET LEAVE SHARD; do
    control tma_engines all_reduce "$guard" ""
done
exit $bad

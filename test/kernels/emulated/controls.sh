#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# controls.sh - take one guard out of the kernels at a time; the CPU emulation must notice each time.
# FENCE cannot show on x86, LOOK costs time and no bytes. Minutes, not seconds.
# The guards are #ifdefs in the kernels, not patches kept here: a patch breaks with each change of the
# lines around it, and twenty of them would be longer than the twenty #ifdefs.
bad=0
for guard in CLEAR HALF LINE STEP ALLWORDS TAME ORDER PAIRS REDUCE GATHER SYNC ENTER LEAVE AWAIT EPOCH; do
    make -s build/check-ar-kernels-DST_BREAK_$guard AR_BREAK=-DST_BREAK_$guard >/dev/null || exit 1
    caught=no
    for seed in 1 2 3 4 5 6; do
        if ! timeout 300 build/check-ar-kernels-DST_BREAK_$guard 100 $seed >/dev/null 2>&1; then
            caught="yes, seed $seed"
            break
        fi
    done
    echo "controls: without $guard: caught $caught"
    [ "$caught" = no ] && bad=1
done
exit $bad

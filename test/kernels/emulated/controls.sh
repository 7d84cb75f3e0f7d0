#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# controls.sh - removes one guard from the kernels at a time. A guard is code that keeps results
# right, such as a wait. Each time, the tests on the emulated kernels must fail. Three guards are
# left out: FENCE, because x86 does not show its absence; LOOK, because without it calls are only
# slower; and PREVIOUS, because emulated kernels never start early. test/whole/controls.sh removes
# the guards of kernels/engines. Takes minutes.
# The guards are in #ifdefs in the kernels. Patches that remove them would break with each change of
# the lines around them, and would be longer than the #ifdefs.
bad=0
for guard in CLEAR HALF LINE STEP ALLWORDS TAME ORDER PAIRS REDUCE GATHER SYNC ENTER LEAVE AWAIT \
    EPOCH FULL DONE STAGE PENDING MAPPED PARTS SLOTS FETCH SCALAR VERDICT COUNT; do
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

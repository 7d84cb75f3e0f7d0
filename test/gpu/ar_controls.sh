#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ar_controls.sh BUILD - negative controls: would the random calls notice if a guard were missing?
# Each build of libsymtuner_ar.so below lacks one guard (-DST_BREAK_NAME in kernels/) and pauses in its
# kernels where a race would show (-DST_TESTING). ar_fuzz must find every one of them, and must find
# nothing with the pauses alone. Builds about 15 libraries, a minute of all cores, hence only with
# AR_CONTROLS=1; otherwise, and where this box cannot run it, exit 77 with the reason.
set -u
build=$(cd "${1:-build}" && pwd) || exit 2
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "${AR_CONTROLS:-0}" = 1 ] || { echo "ar_controls.sh: skipped: takes long, set AR_CONTROLS=1"; exit 77; }
[ "$gpus" -ge 2 ] || { echo "ar_controls.sh: skipped: needs 2 GPUs, $gpus here"; exit 77; }
[ -x "$build/ar_fuzz" ] || { echo "ar_controls.sh: skipped: $build/ar_fuzz is not built"; exit 77; }
command -v "${NVCC:-nvcc}" > /dev/null || { echo "ar_controls.sh: skipped: no nvcc"; exit 77; }
arch=${AR_ARCHS:-90}
calls=${AR_CONTROL_CALLS:-20000}
most=$((gpus >= 4 ? 4 : 2))

# NAMES (joined by +), kernel that ar_fuzz calls, ranks, what is missing. Two guards at once where
# either alone is enough: a cleared LL8 slot holds no old flag, and an old flag is no new epoch.
controls="
HALF          one_lamport 2     one half of scratch instead of two, Lamport words
HALF          one_ll8     2     one half of scratch instead of two, LL8 words
CLEAR         one_lamport 2     slots are not reset after reading
CLEAR         two_lamport $most slots are not reset after reading, two hops
EPOCH+CLEAR   one_ll8     2     any flag counts as this call's, and slots are not reset
LINE          one_ll128   2     the flag of a line is not looked at
LINE          two_ll128   $most the flag of a line is not looked at, two hops
TAME          one_lamport 2     the reserved bit pattern may travel as data
ORDER         one_lamport 4     own input first instead of rank order
REDUCE        chunked     2     no wait for the peers' tiles
GATHER        chunked     2     no wait for the owners' sums at the end
SYNC          chunked     2     the flag is raised before all threads have stored
AWAIT         pull        2     no wait for any flag
ENTER         pull        2     no barrier at the start
LEAVE         pull        2     no barrier at the end
FENCE         chunked     $most no fence between data and flag
ALLWORDS      one_lamport $most one of the four 32-bit words of a packet is looked at
"

# make_one NAMES: into a folder of its own, or side by side the makes would read each other's half
# written dependency files
make_one() {
    defs=-DST_TESTING
    [ "$1" = plain ] || defs="$defs$(echo "$1" | sed 's/[^+][^+]*/ -DST_BREAK_&/g; s/+//g')"
    make -s kernels B="$build/controls/$1" AR_DEFS="$defs" AR_ARCHS="$arch" -j"$(nproc)" > /dev/null ||
        echo "ar_controls.sh: no build with $defs"
}
for names in plain $(echo "$controls" | awk 'NF { print $1 }' | sort -u); do
    make_one "$names" &
done
wait

# run NAMES KERNEL RANKS CALLS -> the exit status of ar_fuzz; its last words in $said
run() {
    lib=$(dirname "$(find "$build/controls/$1" -name libsymtuner_ar.so | head -1)")
    [ -e "$lib/libsymtuner_ar.so" ] || { said="not built: $1"; return 3; }
    said=$(SYMTUNER_AR_TEST_STALL_US=${AR_STALL_US:-30} LD_LIBRARY_PATH=$lib:${LD_LIBRARY_PATH:-} \
        "$build/ar_fuzz" --mode local --kernel "$2" --ranks "$3" --calls "$4" --most 1048576 \
        --timeout 1000 --limit 60 --say 0 2>&1)
    status=$?
    said=$(echo "$said" | head -1 | cut -c1-150)
    return $status
}

failed=0 caught=0
for kernel in $(echo "$controls" | awk 'NF { print $2 }' | sort -u); do
    run plain "$kernel" "$most" "$((calls / 4))" ||
        { failed=$((failed + 1)); echo "FAILED: $kernel with pauses alone: $said"; }
done
old_ifs=$IFS
IFS='
'
for line in $controls; do
    IFS=$old_ifs
    # shellcheck disable=SC2086 # words are meant
    set -- $line
    names=$1 kernel=$2 ranks=$3
    shift 3
    if [ "$ranks" -gt "$gpus" ]; then
        echo "not run: $names ($*), needs $ranks GPUs"
        continue
    fi
    run "$names" "$kernel" "$ranks" "$calls"
    case $? in
    1) caught=$((caught + 1)); echo "caught: $names, $kernel, $ranks ranks ($*): $said" ;;
    *) failed=$((failed + 1)); echo "NOT CAUGHT: $names, $kernel, $ranks ranks ($*): $said" ;;
    esac
done
echo "controls: $caught caught, $failed not"
[ "$failed" -eq 0 ]

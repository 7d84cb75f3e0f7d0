#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ar_controls.sh BUILD - negative controls: would the random calls notice if a guard, such as a wait
# or a fence, were missing? Each build of libsymtuner_ar.so below lacks one guard (-DST_BREAK_NAME
# in kernels/), and its kernels pause where a race would show (-DST_TESTING). ar_fuzz must fail with
# every build that lacks a guard, and must pass with the build that only has the pauses. If the last
# guard, LOOK, is missing, calls take longer but give right bytes, so ar_late must find that.
# Building all 28 libraries takes all cores a minute or more, so this runs only with AR_CONTROLS=1
# (AR_CONTROLS=build: only build). Otherwise, and where this box cannot run it, the script exits
# with 77 and prints the reason.
#   AR_CONTROL_CALLS  random calls (20000)    AR_STALL_US  longest pause in us (30)
#   AR_CONTROL_ONLY   run only these names of the list below, e.g. "plain SYNC"
. "$(dirname "$0")/common.sh"
what=${AR_CONTROLS:-0}
arch=${AR_ARCHS:-90}
calls=${AR_CONTROL_CALLS:-20000}
[ "$what" != 0 ] || skip "takes long, set AR_CONTROLS=1"
if [ "$what" != build ]; then
    need_gpus 2
    need_built ar_fuzz ar_late
fi
command -v "${NVCC:-nvcc}" > /dev/null || skip "no nvcc"

# Columns: NAME; the kernel that ar_fuzz calls; the number of ranks; what is missing. Kernel "any"
# means all kernels, with a process per rank. /overlap: with SYMTUNER_AR_OVERLAP=2. /COLLECTIVE:
# this collective instead of all_reduce. ar_fuzz can notice the missing guard PREVIOUS only with
# SYMTUNER_AR_OVERLAP=2, where a kernel may start before the previous one has ended. The build EPOCH
# lacks two guards, because each of them alone is enough: one clears the slots of LL8, so that no
# old flag is left in them, and the other makes old flags differ from those of a new epoch.
cat > "$work/list" <<END
plain         one_lamport 2 nothing: pauses alone
plain         one_ll8     2 nothing: pauses alone
plain         one_ll128   2 nothing: pauses alone
plain         two_lamport 2 nothing: pauses alone
plain         two_ll128   2 nothing: pauses alone
plain         chunked     2 nothing: pauses alone
plain         pull        2 nothing: pauses alone
plain         tma         2 nothing: pauses alone
plain         tma_staged  2 nothing: pauses alone
plain         copy        2 nothing: pauses alone
plain         chunked/reduce_scatter 2 nothing: pauses alone
plain         chunked/all_gather 2 nothing: pauses alone
plain         copy/all_gather 2 nothing: pauses alone
plain         engines/all_gather 2 nothing: pauses alone
plain         tma_engines 2 nothing: pauses alone
plain         tma_engines 4 nothing: pauses alone
plain         any         2 nothing: pauses alone
plain         any         4 nothing: pauses alone
plain         one_lamport 4 nothing: pauses alone
plain         two_lamport 4 nothing: pauses alone
plain         one_lamport/overlap 2 nothing: pauses alone
plain         two_lamport/overlap 2 nothing: pauses alone
plain         any/overlap 4 nothing: pauses alone
HALF          one_lamport 2 one half of scratch instead of two, Lamport words
HALF          one_ll8     2 one half of scratch instead of two, LL8 words
CLEAR         one_lamport 2 slots are not reset after reading
CLEAR         two_lamport 2 slots are not reset after reading, two hops
EPOCH         one_ll8     2 any flag counts as the flag of this call, and slots are not reset
LINE          one_ll128   2 the flag of a line is not looked at
LINE          two_ll128   2 the flag of a line is not looked at, two hops
TAME          one_lamport 2 the reserved bit pattern may travel as data
REDUCE        chunked     2 no wait for the tiles of the peers
GATHER        chunked     2 no wait for the sums of the owners at the end
REDUCE        copy        2 no wait for the pieces that the peers copy here
GATHER        copy        2 no wait for the sums that the owners copy here
SYNC          chunked     2 the flag is raised before all threads have stored
AWAIT         pull        2 no wait for any flag
ENTER         pull        2 no barrier at the start
LEAVE         pull        2 no barrier at the end
REDUCE        tma_staged  2 no wait for the chunks of the peers
GATHER        tma_staged  2 no wait for the sums of the owners
ENTER         tma         2 no barrier at the start
LEAVE         tma         2 no barrier at the end
FULL          tma         2 the threads add before the tiles are there
DONE          tma         2 the sum is stored before it is there
STAGE         tma         2 a stage is filled again before it has been read
PENDING       tma_staged  2 the flag is raised before the chunk has arrived
PARTS         chunked/reduce_scatter 2 no wait for the peers' parts
PARTS         chunked/all_gather 2 no wait for the peers' parts
SLOTS         chunked/reduce_scatter 2 no wait until all slots have been read
SLOTS         chunked/all_gather 2 no wait until all slots have been read
FETCH         copy/all_gather 2 no wait until the peers' send is ready
EARLY         engines/all_gather 2 the flag comes before the data
RESET         engines/all_gather 2 flags are not cleared
ENTER         tma_engines 2 no barrier at the start
LEAVE         tma_engines 2 the shards are fetched before they are complete
SHARD         tma_engines 4 streams beside the caller's do not wait for the kernel that adds
EARLY         tma_engines 2 the flag comes before the data
RESET         tma_engines 2 flags are not cleared
FENCE         chunked     2 no fence between data and flag
ALLWORDS      one_lamport 2 one of the four 32-bit words of a packet is looked at
ORDER         one_lamport 4 own input first instead of the common order
PAIRS         chunked     4 one rank after the other instead of in pairs
PAIRS         pull        4 one rank after the other instead of in pairs
PREVIOUS      one_lamport/overlap 2 no wait for the kernel in front
PREVIOUS      two_lamport/overlap 2 no wait for the kernel in front, two hops
LOOK          ar_late     2 every thread that waits looks at the host's abort word
END
awk -v only="${AR_CONTROL_ONLY:-}" \
    'BEGIN { n = split(only, w); for (i = 1; i <= n; i++) want[w[i]] }
    n == 0 || $1 in want' "$work/list" > "$work/some"
mv "$work/some" "$work/list"

# make_one NAME: builds NAME's library in a folder of its own, since parallel makes would read each
# other's unfinished dependency files
make_one() {
    defs=-DST_TESTING
    [ "$1" = plain ] || defs="$defs -DST_BREAK_$1"
    make -s kernels B="$build/controls/$1" AR_DEFS="$defs" AR_ARCHS="$arch" -j"$(nproc)" \
        > "$work/make.$1" 2>&1 ||
        { echo "ar_controls.sh: no build with $defs"; tail -3 "$work/make.$1"; }
}
for name in $(awk '{ print $1 }' "$work/list" | sort -u); do
    make_one "$name" &
done
wait
[ "$what" != build ] || { ls "$build"/controls; exit 0; }

# run GPUS NAME KERNEL RANKS WHAT...: runs one line of the list, and writes one line of the report
# to stdout
run() {
    here=$1 name=$2 kernel=${3%/*} ranks=$4 number=$calls overlap='' coll=all_reduce
    case $3 in
    */overlap) overlap=SYMTUNER_AR_OVERLAP=2 ;;
    */*) coll=${3#*/} ;;
    esac
    shift 4
    lib=$(find "$build/controls/$name" -name libsymtuner_ar.so | head -1)
    [ -n "$lib" ] || { echo "NOT CAUGHT: $name ($*): no such build"; return; }
    [ "$name" != plain ] || number=$((calls / 4))
    stall=${AR_STALL_US:-30} mode=local
    case $kernel in
    copy | engines) mode=threads ;; # with --mode local graphs may hang (kernels/choose/rows.c)
    esac
    case $kernel in
    ar_late)
        stall=0
        set -- "$*" ar_late --ranks "$ranks" --stop 1 ;;
    any)
        set -- "$*" ar_fuzz --mode procs --ranks "$ranks" --calls "$((calls / 2))" --limit 60 \
            --say 0 ;;
    *)
        set -- "$*" ar_fuzz --mode "$mode" --kernel "$kernel" --coll "$coll" --ranks "$ranks" \
            --calls "$number" --most 1048576 --timeout 1000 --limit 60 --say 0 ;;
    esac
    missing=$1 program=$2
    shift 2
    # shellcheck disable=SC2086 # $overlap is one word, or none
    said=$(env CUDA_VISIBLE_DEVICES="$here" SYMTUNER_AR_TEST_STALL_US=$stall $overlap \
        LD_LIBRARY_PATH="$(dirname "$lib"):${LD_LIBRARY_PATH:-}" "$build/$program" "$@" 2>&1)
    status=$?
    said=$(echo "$said" | grep SLOW || echo "$said")
    said=$(echo "$said" | head -1 | cut -c1-220)
    said="$name, $kernel${overlap:+ with overlap}, $coll, $ranks ranks ($missing): $said"
    case $name/$status in
    plain/0) echo "right: $said" ;;
    plain/*) echo "FAILED: $said" ;;
    */1)
        case $said in # did the missing guard cause this failure?
        *WRONG* | *SLOW* | *"different bytes"* | *"waited for"* | *"at the same time"*)
            echo "caught: $said" ;;
        *) echo "NOT CAUGHT, failed otherwise: $said" ;;
        esac ;;
    *) echo "NOT CAUGHT: $said" ;;
    esac
}

# run two lines at a time where there are two pairs of GPUs
pairs=$((gpus >= 4 ? 2 : 1)) at=0
all() {
    while read -r name kernel ranks missing; do
        if [ "$ranks" -gt "$gpus" ]; then
            echo "not run: $name ($missing), needs $ranks GPUs"
            continue
        fi
        if [ "$ranks" -gt 2 ]; then
            wait
            run "$(seq -s, 0 $((ranks - 1)))" "$name" "$kernel" "$ranks" "$missing"
            continue
        fi
        run "$((2 * at)),$((2 * at + 1))" "$name" "$kernel" 2 "$missing" &
        at=$(((at + 1) % pairs))
        [ "$at" -ne 0 ] || wait
    done < "$work/list"
    wait
}
all | tee "$work/report" # line by line, so that the results are kept if the time runs out
count() { grep -c "^$1" "$work/report"; }
echo "controls: $(count caught) caught, $(count 'NOT CAUGHT') not," \
    "$(count right) right with pauses alone, $(count FAILED) not"
! grep -q '^NOT CAUGHT\|^FAILED' "$work/report"

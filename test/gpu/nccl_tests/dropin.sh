#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dropin.sh BUILD - runs NVIDIA's nccl-tests, unchanged, under symtuner run with the drop-in. Every
# result must be right, in threads and in processes, and the summary must say that our kernels ran.
# Run it in the repository root.
#
# First fetch and build nccl-tests, on any machine with nvcc. We have read its source at 2.19.6.
# Nothing of nccl-tests is part of this project. The box with GPUs needs only the three libraries
# and eleven programs that these commands build, and this tree. $B is the folder BUILD:
#   git clone https://github.com/NVIDIA/nccl-tests $B/nccl-tests.src
#   mkdir -p $B/nccl-mpi/include $B/nccl-mpi/lib
#   cp test/gpu/nccl_tests/mpi.h $B/nccl-mpi/include/
#   cc -O2 -std=c11 -D_GNU_SOURCE -I. -fPIC -shared -o $B/nccl-mpi/lib/libmpi.so \
#       test/gpu/nccl_tests/mpi.c
#   for mpi in 0 1; do
#       make -C $B/nccl-tests.src/src build MPI=$mpi MPI_HOME=$PWD/$B/nccl-mpi DSO=1 \
#           BUILDDIR=$PWD/$B/nccl-tests-$mpi NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90 \
#           NCCL_HOME=/usr/local/cuda
#   done
#   rm -f $B/nccl-tests-[01]/*.o; make all kernels
#
#   NCCL_TESTS         the folders' name without -0 and -1 (BUILD/nccl-tests)
#   NCCL_TESTS_RANKS   how many GPUs (2, and 4 if there are so many)
#   NCCL_TESTS_ONLY    programs, as "all_reduce all_gather" (all)
#   NCCL_TESTS_MOST    the longest message in bytes (268435459)
#   LD_LIBRARY_PATH    to test another NCCL, begin it with a folder that has that libnccl.so.2
# One line per run says how long it took. Exit 77 with the reason if this box cannot run it.
. test/gpu/common.sh
need_gpus 2
tests=${NCCL_TESTS:-$build/nccl-tests} most=${NCCL_TESTS_MOST:-268435459}
for library in libsymtuner_nccl.so libsymtuner_ar.so; do
    [ -f "$build/$library" ] || skip "$build/$library is not built (make all kernels)"
done
for program in "$tests-0/all_reduce_perf" "$tests-1/all_reduce_perf"; do
    [ -x "$program" ] || skip "$program is not there; this script says how it is built"
done
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$build/nccl-mpi/lib"
# Nothing runs beside the collectives here, so the kernels also take long messages.
export SYMTUNER_AR_BESIDE=alone
collectives=dropin,allreduce,reducescatter,allgather

# FIRST:LAST:STEP in bytes of three scans. None has only powers of two, and two end at an odd size.
# The first scan begins at 1 byte, which holds no element of most types. It cannot begin at 0: with
# -b 0, nccl-tests 2.19.6 never ends, because its warm-up doubles the size again and again.
sizes='1:4096:51 4099:1048583:65551 1048583:'$most':x3'

# one WHAT OURS COMMAND...: runs the command. OURS is a collective that our kernels must have run,
# or "". COMMAND may start several processes (all_ranks.sh).
one() {
    what=$1 ours=$2
    shift 2
    before=$(date +%s)
    "$build/symtuner" run --only $collectives -- "$@" > "$work/log" 2> "$work/err"
    status=$?
    [ $status -eq 0 ] && ! grep -q 'Out of bounds values : [1-9]\|FAILED' "$work/log" &&
        grep -q 'Out of bounds values : 0 OK' "$work/log"
    ok "$what: status $status, $(grep -h 'Out of bounds\|error\|FAILED' "$work/log" "$work/err" |
        head -3 | tr '\n' ' ')" $?
    if [ -n "$ours" ]; then
        grep -q "^  $ours .* \(all\|[1-9][0-9]*\) by our kernels" "$work/err"
        ok "$what: none by our kernels: $(grep 'symtuner\|NCCL ran' "$work/err" | tr '\n' ' ')" $?
    fi
    echo "$what: $(($(date +%s) - before)) s; $(grep "^  $ours" "$work/err" | head -1)"
}

# scan RANKS PROGRAM OURS OPTIONS...: runs all sizes with one thread per GPU, with one thread for
# all GPUs, and with processes
scan() {
    ranks=$1 program=$2 ours=$3
    shift 3
    for span in $sizes; do
        first=${span%%:*} rest=${span#*:}
        last=${rest%%:*} step=${rest#*:}
        case $step in x*) step="-f ${step#x}" ;; *) step="-i $step" ;; esac
        [ "$last" -le "$most" ] || continue
        options="-b $first -e $last $step -c 1 -n 2 -w 1 $*"
        # shellcheck disable=SC2086
        {
            one "$program $options, $ranks threads" "$ours" "$tests-0/${program}_perf" -t "$ranks" \
                -g 1 $options
            one "$program $options, one thread of $ranks GPUs" "$ours" "$tests-0/${program}_perf" \
                -t 1 -g "$ranks" $options
            one "$program $options, $ranks processes" "$ours" sh test/gpu/nccl_tests/all_ranks.sh \
                "$ranks" "$tests-1/${program}_perf" $options
        }
    done
}

for ranks in ${NCCL_TESTS_RANKS:-2 4}; do
    [ "$gpus" -ge "$ranks" ] ||
        { echo "dropin.sh: $ranks ranks not run: $gpus GPUs here"; continue; }
    all="all_reduce reduce_scatter all_gather broadcast reduce alltoall alltoallv scatter gather"
    for program in ${NCCL_TESTS_ONLY:-$all sendrecv hypercube}; do
        case $program in
        all_reduce) ours=allreduce types='-d all -o all' ;;
        reduce_scatter) ours=reducescatter types='-d all -o all' ;;
        all_gather) ours=allgather types='-d all' ;;
        reduce) ours='' types='-d all -o all' ;;
        *) ours='' types='-d all' ;;
        esac
        # without options there is no registration (-R 0) and no graph; every run tests in place and
        # out of place
        scan "$ranks" $program "$ours" "$types"
        [ -n "$ours" ] || continue
        for registered in 0 1 2; do
            for graphs in 0 3; do
                [ $registered = 0 ] && [ $graphs = 0 ] && continue
                scan "$ranks" $program "$ours" -d float -o sum -R $registered -G $graphs
            done
        done
        scan "$ranks" $program "$ours" -d bfloat16 -o sum -u 1 # buffers are not aligned
        scan "$ranks" $program "$ours" -d half -o sum -m 3     # three calls in a group
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

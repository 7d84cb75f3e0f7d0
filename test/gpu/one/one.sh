#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# one.sh BUILD - the drop-in and JAX between ranks that share one GPU, on stock NCCL. Every result
# must be right, and PyTorch programs must compute the same bits as with NCCL alone. The test says
# nothing about speed, because the ranks do not use NVLink, and NCCL uses sockets.
#
# With CUDA's MPS the ranks run at the same time. Without MPS the GPU runs one process for some
# milliseconds, then the other, so a call takes 2 ms.
#
#   ONE_GPU_CALLS   how many random calls each run makes (20000; without MPS 1000)
#   ONE_GPU_COMMS   how many communicators the part "comms" makes (50)
#   ONE_GPU_PROGRAMS   how many random programs of JAX run with 2 and with 4 ranks (40)
#   ONE_GPU_KILLS   how many rounds the part "kills" has (20); in each round it kills one rank
#   ONE_GPU_ONLY    parts to run, of "calls sanitize opposite comms aborts kills boxes nccl-tests
#                    python torch jax" (all)
#   ONE_GPU_LIMIT   seconds that a run may take (300)
#   ONE_GPU_NCCL    the libnccl.so.2 of NCCL 2.30.3 or later, which all programs then use. It
#                    accepts several ranks on one GPU by itself, as one box that has windows. So the
#                    test uses libsymtuner_ar.so as it is, and some runs use windows.
#   SANITIZER       the compute-sanitizer of the part "sanitize" (pip: nvidia-cuda-sanitizer-api)
#   NCCL_TESTS      as for test/gpu/nccl_tests/dropin.sh, which says how to build nccl-tests
# Exit 77 with the reason if this box cannot run it.
. test/gpu/common.sh
need_gpus 1
need_built nccl_calls one/symtuner
one=$build/one hosts=$build/one/hosts.so
parts="calls sanitize opposite comms aborts kills boxes nccl-tests python torch jax"
parts=${ONE_GPU_ONLY:-$parts}
limit=${ONE_GPU_LIMIT:-300}
sanitizer=${SANITIZER:-$(command -v compute-sanitizer ||
    ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)}
mkdir "$work/gpus" "$work/mps" && for gpu in 0 1 2 3 4 5 6 7; do : > "$work/gpus/$gpu"; done
export ONE_GPU_FOLDER="$work/gpus" CUDA_VISIBLE_DEVICES=0 CUDA_DEVICE_MAX_CONNECTIONS=32
# Load all kernels at the start. Loading a kernel waits for the kernels that run, and one of these
# may wait for this rank.
export CUDA_MODULE_LOADING=EAGER NCCL_NVLS_ENABLE=0 SYMTUNER_MAX_COMMS=8 SYMTUNER_AR_LINKS=nvlink
export SYMTUNER_AR_SHARE_GPU=1
if [ -n "${ONE_GPU_NCCL:-}" ]; then
    one=$build hosts="$hosts $ONE_GPU_NCCL"
    # With PAT, NCCL from 2.31.2 on does not divide averages ("nccl-pat-avg" in symtuner doctor).
    export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_PAT_ENABLE=0
fi
export OMP_NUM_THREADS=2 PATH="$PATH:/usr/local/nvidia/bin"
export CUDA_MPS_PIPE_DIRECTORY="$work/mps" CUDA_MPS_LOG_DIRECTORY="$work/mps"
leave() { rm -rf "$work" /dev/shm/*symtuner-one-gpu-*; }
if nvidia-cuda-mps-control -d 2> /dev/null; then
    trap 'echo quit | nvidia-cuda-mps-control; leave' EXIT
    calls=${ONE_GPU_CALLS:-20000}
else
    echo "one.sh: no MPS here, so the ranks take turns on the GPU"
    trap leave EXIT
    calls=${ONE_GPU_CALLS:-1000}
fi

# job NAME OPTIONS... -- PROGRAM...: runs the program under the drop-in, or with NCCL alone if
# OPTIONS is "nccl"
job() {
    name=$1
    shift
    before=$(date +%s)
    case $1 in
    nccl) shift 2 ;;
    *) set -- "$one/symtuner" run --only dropin,allreduce,reducescatter,allgather "$@" ;;
    esac
    LD_PRELOAD=$hosts timeout "$limit" "$@" > "$work/$name.log" 2> "$work/$name.err"
    status=$?
    said=$(grep -hv '^ \|Warning' "$work/$name.log" "$work/$name.err" | tail -3 | tr '\n' ' ')
    ok "$name: status $status, $said" $status
    results='^random\|^opposite\|^aborts\|^kills\|^communicators\|^python'
    said=$(grep -h "$results" "$work/$name.log" | tr '\n' ';')
    echo "$name ($(($(date +%s) - before)) s): $said"
    grep -h 'by our kernels\|NCCL ran\|symtuner' "$work/$name.err"
}
# ran NAME COLLECTIVE...: checks that our kernels ran some calls of each collective
ran() {
    name=$1
    shift
    for coll in "$@"; do
        grep -q "^  $coll .* \(all\|[1-9][0-9]*\) by our kernels" "$work/$name.err"
        ok "$name: no $coll by our kernels" $?
    done
}
wanted() { # wanted PART [MODULE]: is the part to run, and is the Python module that it needs here?
    case " $parts " in *" $1 "*) ;; *) return 1 ;; esac
    [ -z "${2:-}" ] || python3 -c "import $2" 2> /dev/null ||
        { echo "one.sh: $1 not run: python3 has no $2"; return 1; }
}

if wanted calls; then
    # Divide connections and CTAs by the number of ranks: MPS limits the connections of all its
    # clients together, and the kernels of all ranks must fit on the GPU at the same time.
    for ranks in 2 3 4 8; do
        CUDA_DEVICE_MAX_CONNECTIONS=$((64 / ranks)) SYMTUNER_AR_MAX_CTAS=$((64 / ranks)) \
            job calls$ranks -- "$build/nccl_calls" --ranks $ranks --calls "$calls" --seed $ranks \
            --split 2
        ran calls$ranks allreduce reducescatter allgather
    done
    job verify --verify 100 -- "$build/nccl_calls" --calls 2000 --seed 7
    grep -q ' ran by our kernels and by NCCL, and 0 differed$' "$work/verify.err"
    ok "verify: $(grep ' differed$' "$work/verify.err")" $?
    SYMTUNER_AR_IPC=1 SYMTUNER_AR_KERNEL=tma_ipc \
        job tma_ipc -- "$build/nccl_calls" --calls "$calls" --seed 9
    ran tma_ipc allreduce reducescatter allgather
    for ranks in ${ONE_GPU_NCCL:+2 4}; do
        CUDA_DEVICE_MAX_CONNECTIONS=$((64 / ranks)) SYMTUNER_AR_MAX_CTAS=$((64 / ranks)) \
            job windows$ranks -- "$build/nccl_calls" --ranks $ranks --calls "$calls" --seed $ranks \
            --windows 1
        ran windows$ranks allreduce reducescatter allgather
    done
    job long -- "$build/nccl_calls" --calls 500 --most 6000000 --seed 5
fi

# memcheck and synccheck let the kernels of two processes run at the same time, but not those of two
# ranks in one process (test/gpu/ar_sanitize.sh). So this part runs processes, and without MPS.
if wanted sanitize && [ -n "${ONE_GPU_NCCL:-}" ] && [ -n "$sanitizer" ]; then
    for check in memcheck synccheck; do
        CUDA_MPS_PIPE_DIRECTORY="$work/none" SYMTUNER_AR_MAX_CTAS=16 \
            job $check nccl -- "$sanitizer" --tool $check --target-processes all \
            --kernel-name kns=2ar --report-api-errors no --error-exitcode 9 \
            "$one/symtuner" run --only dropin,allreduce,reducescatter,allgather -- \
            "$build/nccl_calls" --ranks 2 --calls 400 --most 20000 --windows 1
        grep -q 'ERROR SUMMARY: 0 errors' "$work/$check.log"
        ok "$check: $(grep 'ERROR SUMMARY' "$work/$check.log")" $?
        ran $check allreduce reducescatter allgather
    done
elif wanted sanitize; then
    echo "one.sh: sanitize not run: it needs ONE_GPU_NCCL and compute-sanitizer"
fi

if wanted opposite; then
    job opposite -- "$build/nccl_calls" --opposite "$calls"
    ran opposite allreduce
fi
# comms runs first with NCCL alone, so that our time and memory can be compared with NCCL's.
if wanted comms; then
    job comms-nccl nccl -- "$build/nccl_calls" --comms "${ONE_GPU_COMMS:-50}"
    job comms -- "$build/nccl_calls" --comms "${ONE_GPU_COMMS:-50}"
    ran comms allreduce
fi
if wanted aborts; then
    job aborts-nccl nccl -- "$build/nccl_calls" --aborts 10
    job aborts -- "$build/nccl_calls" --aborts 50
    ran aborts allreduce
    (
        failed=0
        export ONE_GPU_BOX=2 CUDA_DEVICE_MAX_CONNECTIONS=16 SYMTUNER_AR_MAX_CTAS=16
        SYMTUNER_RULE="kernels network-pieces=2" \
            job aborts-boxes -- "$build/nccl_calls" --ranks 4 --aborts 20
        grep -q 'ran box by box, in' "$work/aborts-boxes.err" && [ $failed = 0 ]
    )
    ok "aborts over boxes" $?
fi

# This part runs without MPS, because under MPS a kill would also end the other processes. The four
# ranks are one box (0), or two boxes of two ranks (2).
if wanted kills; then
    for box in 0 2; do
        (
            failed=0
            [ $box = 0 ] || export ONE_GPU_BOX=$box SYMTUNER_RULE="kernels network-pieces=2"
            export CUDA_MPS_PIPE_DIRECTORY="$work/none"
            export CUDA_DEVICE_MAX_CONNECTIONS=8 SYMTUNER_AR_MAX_CTAS=16
            job kills$box-nccl nccl -- "$build/nccl_calls" --ranks 4 --kills 5
            job kills$box -- "$build/nccl_calls" --ranks 4 --kills "${ONE_GPU_KILLS:-20}"
            ran kills$box allreduce
            [ $failed = 0 ]
        )
        ok "kills of a rank in boxes of $box" $?
    done
fi

# Four ranks in two boxes add up box by box: always in one piece, always in three, or as the
# measured times say. The times of this machine say nothing about a network.
if wanted boxes; then
    for pieces in 1 3 measured; do
        name=boxes-$pieces setting="SYMTUNER_RULE=kernels network-pieces=$pieces" colours=1
        [ $pieces != 3 ] || colours=2
        [ $pieces != measured ] || setting=SYMTUNER_AR_NODES=1
        (
            failed=0
            export ONE_GPU_BOX=2 CUDA_DEVICE_MAX_CONNECTIONS=16 SYMTUNER_AR_MAX_CTAS=16
            export "${setting?}"
            job "$name" -- "$build/nccl_calls" --ranks 4 --most 1048576 --calls "$calls" --seed 4 \
                --split $colours
            [ $failed = 0 ] &&
                { [ $pieces = measured ] || grep -q 'ran box by box, in' "$work/$name.err"; }
        )
        ok "$name: wrong, or not box by box" $?
    done
fi

# nccl_tests OURS PROGRAM OPTIONS...: runs two processes; our kernels must run the collective OURS
# ("-": none)
nccl_tests() {
    ours=$1 program=$2
    shift 2
    name=nccl-tests-$program-$(echo "$*" | tr -d ' ')
    job "$name" -- sh test/gpu/nccl_tests/all_ranks.sh 2 "$tests/${program}_perf" \
        -b 1 -e 1048583 -f 7 -c 1 -n 2 -w 1 "$@"
    grep -q 'Out of bounds values : 0 OK' "$work/$name.log"
    ok "$name: $(grep 'Out of bounds' "$work/$name.log")" $?
    [ "$ours" = - ] || ran "$name" "$ours"
}
tests=${NCCL_TESTS:-$build/nccl-tests}-1
if wanted nccl-tests && [ -x "$tests/all_reduce_perf" ]; then
    export NCCL_TESTS_DEVICE=0
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${tests%/*}/nccl-mpi/lib"
    nccl_tests allreduce all_reduce -d all -o all
    nccl_tests reducescatter reduce_scatter -d all -o all
    nccl_tests allgather all_gather -d all
    for graphs in 0 3; do
        nccl_tests allreduce all_reduce -d float -u 1 -G $graphs
        nccl_tests reducescatter reduce_scatter -d half -G $graphs
        nccl_tests allgather all_gather -d bfloat16 -G $graphs
        for registered in ${ONE_GPU_NCCL:+1 2}; do # ncclCommRegister, then windows
            nccl_tests allreduce all_reduce -d float -G $graphs -R $registered
            nccl_tests reducescatter reduce_scatter -d half -o all -G $graphs -R $registered
            nccl_tests allgather all_gather -d bfloat16 -G $graphs -R $registered
        done
    done
    for program in broadcast reduce sendrecv alltoall; do nccl_tests - $program; done
elif wanted nccl-tests; then
    echo "one.sh: nccl-tests not run: there is no $tests/all_reduce_perf"
fi

for package in cupy nccl4py; do
    module=cupy
    [ $package = cupy ] || module=nccl.core
    if wanted python $module; then
        job $package -- python3 test/gpu/one/python_calls.py $package
        ran $package allreduce reducescatter allgather
    fi
done

if wanted torch torch; then
    steps="python3 -m torch.distributed.run --nproc_per_node 2 test/gpu/one/torch_steps.py"
    # shellcheck disable=SC2086
    {
        job torch-nccl nccl -- $steps
        job torch -- $steps
        ran torch allreduce
        SYMTUNER_AR_IPC=1 job torch-ipc --verify 20 -- $steps
        ran torch-ipc allreduce reducescatter allgather
    }
    for name in torch-nccl torch torch-ipc; do
        sed -n 's/^STEPS //p' "$work/$name.log" | sort > "$work/$name.bits"
    done
    [ "$(wc -l < "$work/torch-nccl.bits")" = 12 ]
    ok "torch: all steps ran: $(cat "$work/torch-nccl.bits")" $?
    for name in torch torch-ipc; do
        cmp -s "$work/torch-nccl.bits" "$work/$name.bits"
        same=$?
        differ=$(diff "$work/torch-nccl.bits" "$work/$name.bits" | tr '\n' ' ')
        ok "$name: other bits than NCCL: $differ" $same
    done
fi

# Run programs that install() changes, in several processes. jax_procs.py kills processes. Under MPS
# a kill would also end the other processes, so jax_procs.py runs without MPS.
if wanted jax jax; then
    mkdir "$work/jax" && cp "$one/libsymtuner_ar.so" "$work/jax/"
    make -s OUT="$work/jax" JAX_PYTHON=python3 WERROR=1 jax
    ok "jax: the handler compiles" $?
    export SYMTUNER_LIB_DIR="$work/jax" PYTHONPATH=jax
    for ranks in 2 4; do
        gpus=$(seq -s, $ranks | sed 's/[0-9]*/0/g')
        export XLA_PYTHON_CLIENT_MEM_FRACTION=0.1 CUDA_DEVICE_MAX_CONNECTIONS=$((32 / ranks))
        together="python3 test/jax/processes/together.py --ranks $ranks --gpus $gpus"
        # shellcheck disable=SC2086
        {
            SYMTUNER_AR_MAX_CTAS=16 job jax-programs$ranks nccl -- $together \
                test/jax/install/on_gpus.py "${ONE_GPU_PROGRAMS:-40}"
            SYMTUNER_AR_MAX_CTAS=16 job jax-gspmd$ranks nccl -- $together \
                test/gpu/jax_gspmd.py --ranks $ranks
        }
        cat "$work/jax-programs$ranks.log" "$work/jax-gspmd$ranks.log"
    done
    unset XLA_PYTHON_CLIENT_MEM_FRACTION
    CUDA_VISIBLE_DEVICES=0,0 CUDA_MPS_PIPE_DIRECTORY="$work/none" \
        job jax nccl -- python3 test/gpu/jax_procs.py --ranks 2 --side 1
    cat "$work/jax.log"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ar.sh BUILD - tests libsymtuner_ar.so on real GPUs: random calls in every mode, a rank that starts
# late, peers that die. With one GPU only a part of this runs, on ranks that share the GPU. Defaults
# of the variables are in parentheses:
#   AR_CALLS  number of random calls in the longest run, for each number of ranks (100000; in a full
#             test 1000000)
#   AR_KILLS  number of groups that lose a process (4; in a full test 50)
#   AR_SEED   seed of the random calls (the time)     AR_RANKS  numbers of ranks ("2 3 4 8")
# Exit 77 with the reason if this box cannot run it.
. "$(dirname "$0")/common.sh"
calls=${AR_CALLS:-100000} kills=${AR_KILLS:-4} seed=${AR_SEED:-$(date +%s)}
need_gpus 1
need_built ar_fuzz ar_kill ar_late ar_ipc
few=$((calls / 10))

must() { # must PROGRAM ARGUMENTS...
    program=$1
    shift
    "$build/$program" "$@" || { failed=$((failed + 1)); echo "FAILED: $program $*"; }
}
fuzz() { # fuzz RANKS MODE CALLS [further options]
    ranks=$1 mode=$2 number=$3
    shift 3
    must ar_fuzz --ranks "$ranks" --mode "$mode" --calls "$number" --seed "$seed" "$@"
}

for created in "" --created; do
    # shellcheck disable=SC2086
    must ar_ipc $created
    # shellcheck disable=SC2086
    [ "$gpus" -lt 2 ] || must ar_ipc $created 0 1
done
SYMTUNER_AR_IPC=1
export SYMTUNER_AR_IPC
for created in 0 1; do
    fuzz 2 local "$few" --gpus 1 --most 4194304 --kernel tma_ipc --created $created
    [ "$gpus" -lt 2 ] || fuzz 2 procs "$few" --kernel tma_ipc --created $created
    [ "$gpus" -lt 2 ] || fuzz 2 threads "$few" --kernel tma_ipc --created $created
done
unset SYMTUNER_AR_IPC
fuzz 2 local "$few" --gpus 1 --most 4194304
fuzz 3 local "$((few / 2))" --gpus 1 --most 4194304
for ranks in ${AR_RANKS:-2 3 4 8}; do
    [ "$gpus" -ge "$ranks" ] || { echo "ar.sh: $ranks ranks not run: $gpus GPUs here"; continue; }
    fuzz "$ranks" procs "$calls" --limit "${AR_LIMIT:-280}"
    fuzz "$ranks" threads "$few"
    fuzz "$ranks" procs "$((few / 2))" --reserve 0
    [ "$ranks" -ne 3 ] || continue
    fuzz "$ranks" local "$few"
    fuzz "$ranks" local "$((few / 2))" --reserve 0
    fuzz "$ranks" threads "$((few / 10))" --host 1 --most 1048576
    for overlap in 0 2; do # SYMTUNER_AR_OVERLAP is set for these two runs only
        SYMTUNER_AR_OVERLAP=$overlap
        export SYMTUNER_AR_OVERLAP
        fuzz "$ranks" threads "$few"
        unset SYMTUNER_AR_OVERLAP
    done
    must ar_late --ranks "$ranks"
done
[ "$gpus" -lt 2 ] || must ar_kill --times "$kills"
[ "$failed" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# doctor.sh BUILD - runs symtuner doctor on real GPUs. It must end within 30 s, measure every pair
# of GPUs, and find no fault in them. It must find that NCCL can register windows. With
# NCCL_WIN_ENABLE=0, it must find that NCCL returns NULL windows, or that registering fails. Exit 0:
# passed. 1: failed. 77: fewer than two GPUs here, or no NCCL.
. "$(dirname "$0")/common.sh"
need_gpus 2
find_nccl
export NCCL_NVLS_ENABLE=0

start=$(date +%s)
NCCL_TUNER_PLUGIN=$lib "$build/symtuner" doctor --library "$nccl" > "$work/text"
status=$?
took=$(($(date +%s) - start))
cat "$work/text"
[ "$took" -le 30 ]
ok "takes $took s, at most 30" $?
[ "$status" -le 1 ]
ok "exit status $status" $?
grep -q "^GPUs .*windows real" "$work/text"
ok "windows are real" $?
for what in 'kernel stores' 'kernel loads' 'copy engine' 'latency of a load'; do
    grep -A "$gpus" "^$what" "$work/text" |
        awk -v n="$gpus" '
            NR > 1 && NF != n + 1 { bad = 1 }
            NR > 1 { for (i = 2; i <= NF; i++) if ($i != "-") c++ }
            END { exit bad || c != n * (n - 1) }'
    ok "$what: one number for every pair of $gpus GPUs" $?
done
for id in gpu-fails peer-missing write-lost peer-staged write-collapse slow-pair window-null \
        window-failed; do
    ! grep -q " $id\$" "$work/text"
    ok "no $id on this box" $?
done
grep -q '^multicast-unused\|multicast-unused$\|multicast not offered' "$work/text"
ok "multicast is asked about and left off" $?
NCCL_WIN_ENABLE=0 "$build/symtuner" doctor --library "$nccl" --json > "$work/json"
grep -q '"id": "window-null"' "$work/json" || grep -q '"id": "window-failed"' "$work/json"
ok "NCCL_WIN_ENABLE=0: the window is found to be NULL" $?
echo "doctor on $gpus GPUs: $took s; $passed passed, $failed failed"
[ "$failed" -eq 0 ]

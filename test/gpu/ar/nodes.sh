#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# nodes.sh - all-reduces over two "boxes" of two ranks on one machine. NCCL takes the boxes for two
# machines, because the processes of different boxes have different values of NCCL_HOSTID.
#
# usage: [NODES_GPUS=2] [AR_CALLS=1000] [AR_SEED=1] [NCCL_LIB=FILE] test/gpu/ar/nodes.sh
# [BUILD_FOLDER]
#
# With NODES_GPUS=2 the boxes share the GPUs, which NCCL allows for ranks of two machines. With 4,
# each rank has a GPU of its own. One run has SYMTUNER_AR_NODES=1; the others have rules that cut
# each message into 1 or 3 pieces. The script needs torch and two GPUs. Without them it exits with
# 77 and says what is missing. On 4 H200s no run has ended yet: 500 calls took more than 100 s.
. "$(dirname "$0")/../common.sh"
need=${NODES_GPUS:-2}
need_gpus "$need"
[ -f "$build/libsymtuner_ar.so" ] || skip "$build/libsymtuner_ar.so is not built (make kernels)"
python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || skip "no torch with CUDA"
find='import nvidia.nccl as n; print(list(n.__path__)[0] + "/lib/libnccl.so.2")'
nccl=${NCCL_LIB:-$(python3 -c "$find")}
[ -f "$nccl" ] || skip "no NCCL (NCCL_LIB=FILE names one)"
here=$(cd "$(dirname "$0")" && pwd)

run() { # run DESCRIPTION VARIABLE=VALUE
    pids=
    for rank in 0 1 2 3; do
        env RANK=$rank WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT="${port:-29671}" \
            NCCL_HOSTID="box$((rank / 2))" NODES_GPUS="$need" NCCL_LIB="$nccl" \
            SYMTUNER_AR_LIB="$build/libsymtuner_ar.so" "$2" \
            timeout 280 python3 "$here/nodes_rank.py" "${AR_CALLS:-1000}" > "$work/$rank" 2>&1 &
        pids="$pids $!"
    done
    status=0
    for pid in $pids; do wait "$pid" || status=1; done
    [ "$status" = 0 ] && tail -1 "$work/0" || tail -n 5 "$work"/[0-3]
    ok "$1" "$status"
}

run "by rules, one piece" "SYMTUNER_RULE=kernels network-pieces=1"
run "by rules, three pieces" "SYMTUNER_RULE=kernels network-pieces=3"
# in this run NCCL may run all calls; the last line says how many ran box by box
run "by the start-up figures" "SYMTUNER_AR_NODES=1"
echo "nodes: $passed passed, $failed failed"
[ "$failed" = 0 ]

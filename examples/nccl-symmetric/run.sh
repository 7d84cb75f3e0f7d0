#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - runs NCCL's symmetric memory from C, with and without the plugin. GPUS is
# the number of GPUs (2). BUILD is the folder with the libraries. README.md says what it should
# print. Exit 77: cannot run here.
. "$(dirname "$0")/../start.sh"
cuda=${CUDA_HOME:-/usr/local/cuda}
nccl=${NCCL_HOME:-$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null)}
[ -f "$cuda/include/nccl.h" ] && nccl=$cuda
so=
for folder in "$nccl/lib64" "$nccl/lib"; do
    [ -z "$so" ] && [ -f "$folder/libnccl.so.2" ] && so=$folder
done
[ -f "$nccl/include/nccl.h" ] && [ -f "$cuda/include/cuda_runtime_api.h" ] && [ -n "$so" ] ||
    skip "no nccl.h, libnccl.so.2 or CUDA headers (NCCL_HOME, CUDA_HOME)"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
${CC:-cc} -O2 -std=gnu11 -Wall -Wextra -Werror -isystem "$nccl/include" -isystem "$cuda/include" \
    -o "$work/allreduce" "$here/allreduce.c" "$so/libnccl.so.2" -Wl,-rpath,"$so" -L"$cuda/lib64" \
    -lcudart -Wl,-rpath,"$cuda/lib64" -lpthread || exit 1
failed=0
for plugin in without with; do
    for how in threads processes; do
        echo "-- $how, $plugin the plugin"
        if [ $plugin = with ]; then
            if [ ! -f "$build/libsymtuner.so" ]; then
                echo "not run: $build/libsymtuner.so is not built"
                continue
            fi
            # NCCL 2.28.7 and later need only the first of these variables
            NCCL_ENV_PLUGIN=$(cd "$build" && pwd)/libsymtuner.so
            NCCL_TUNER_PLUGIN=$NCCL_ENV_PLUGIN
            export NCCL_ENV_PLUGIN NCCL_TUNER_PLUGIN
        fi
        NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING NCCL_DEBUG_FILE="$work/log.%p" \
            "$work/allreduce" "${1:-2}" $how || failed=1
        grep -ho '\[Symmetric\].*' "$work"/log.* | sort -u | head -3
        grep -q '\[Symmetric\]' "$work"/log.* ||
            { echo "FAILED: no symmetric kernel ran"; failed=1; }
        if [ $plugin = with ]; then
            grep -qi 'using symtuner' "$work"/log.* ||
                { echo "FAILED: NCCL did not load the plugin"; failed=1; }
        fi
        rm -f "$work"/log.*
    done
done
exit $failed

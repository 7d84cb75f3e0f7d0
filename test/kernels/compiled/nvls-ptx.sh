#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nvls-ptx.sh NVCC-COMMAND - checks that the multicast kernels have their instructions for sm_90 and
# sm_100, and no code for older GPUs. No test machine has multicast. So for the instructions this is
# the only test; the rest of these kernels is tested through pull (kernels/device/pull.cuh).
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
want() # ARCH COUNT PATTERN
{
    n=$(grep -c "$3" "$dir/$1.ptx" || true)
    [ "$n" -eq "$2" ] || { echo "nvls-ptx: sm_$1 has $n times '$3', expected $2"; bad=1; }
}
for arch in 80 90 100; do
    "$@" -std=c++17 -arch=compute_$arch -ptx -o "$dir/$arch.ptx" kernels/device/nvls.cu
done
for arch in 90 100; do
    want $arch 4 'multimem.ld_reduce.relaxed.sys.global.add.v4.f32 '
    want $arch 4 'multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 '
    want $arch 4 'multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 '
    want $arch 6 'multimem.st.relaxed.sys.global.v4.f32 '
done
want 80 0 'multimem'
[ $bad -eq 0 ] && echo "nvls-ptx: as intended on sm_80, sm_90, sm_100"
exit $bad

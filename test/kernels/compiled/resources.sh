#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# resources.sh [-u] NVCC-COMMAND - compares registers, stack and spills of every kernel on sm_90
# with test/kernels/compiled/resources.txt. -u rewrites that file. A difference need not be a fault:
# look at it, then update the file. The figures differ between releases of nvcc. If this release is
# not the one that wrote the file, nothing is compared and the exit status is 77.
set -eu
update=0
[ "$1" = -u ] && { update=1; shift; }
release=$("$@" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
recorded=$(sed -n '1s/^# nvcc //p' test/kernels/compiled/resources.txt)
if [ $update = 0 ] && [ "$release" != "$recorded" ]; then
    echo "resources: skipped: test/kernels/compiled/resources.txt is of nvcc $recorded, this is $release"
    exit 77
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for f in kernels/device/*.cu kernels/device/*/*.cu; do
    "$@" -O3 -std=c++17 -gencode arch=compute_90,code=sm_90 -Xptxas -v -c -o /dev/null "$f" 2>&1
done | awk '
    /Compiling entry function/ { name = $0; sub(/.*function \047/, "", name); sub(/\047.*/, "", name) }
    /Function properties for/  { inner = ($NF != name) }
    /bytes stack frame/ && !inner { stack = $1; spill = $5 + $9 }
    /Used [0-9]+ registers/ { match($0, /Used [0-9]+/)
        printf "%-96s registers %3d stack %4d spill %4d\n", name, substr($0, RSTART + 5, RLENGTH - 5), stack, spill }
' | sort > "$out"
[ -s "$out" ] || { echo "resources: ptxas said nothing"; exit 1; }
sed -i "1i # nvcc $release" "$out"
if [ $update = 1 ]; then
    cp "$out" test/kernels/compiled/resources.txt
    chmod 644 test/kernels/compiled/resources.txt
elif ! diff -u test/kernels/compiled/resources.txt "$out"; then
    echo "resources: kernels changed; if that is meant: sh test/kernels/compiled/resources.sh -u ..."
    exit 1
else
    echo "resources: $(grep -vc '^#' "$out") kernels as recorded with nvcc $release"
fi

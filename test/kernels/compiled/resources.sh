#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# resources.sh [-u] FOLDER NVCC-COMMAND - compares registers, stack, spills and static shared memory
# of every kernel on sm_90, and dynamic shared memory and CTAs of every family, with
# test/kernels/compiled/resources.txt. FOLDER has the objects of make kernels, and beside each what
# ptxas said. -u rewrites the file. A difference need not be a fault: look at it, then update the
# file. The figures differ between releases of nvcc. If this release is not the one that wrote the
# file, they are not compared and the exit status is 77.
#
# Two limits hold with every release of nvcc, and -u cannot change them: the kernel "watch" has at
# most 8 registers (kernels/device/halves/engines.cu says why), and a block has at most the 227 KiB
# of shared memory that sm_90 has, static and dynamic together.
set -eu
update=0
[ "$1" = -u ] && { update=1; shift; }
folder=$1
shift
out=$(mktemp)
trap 'rm -f "$out" "$out.families"' EXIT

# Print name, registers, stack, spills and static shared memory of each kernel of a file on sm_90.
kernels_of()
{
    [ -f "$folder/$1.o.said" ] || { echo "resources: there is no $folder/$1.o.said" >&2; exit 1; }
    awk '
        /Compiling entry function/ {
            name = $0
            sub(/.*function \047/, "", name)
            sub(/\047.*/, "", name)
            here = /\047sm_90\047/
        }
        /Function properties for/  { inner = ($NF != name) }
        /bytes stack frame/ && !inner { stack = $1; spill = $5 + $9 }
        /Used [0-9]+ registers/ && here {
            match($0, /Used [0-9]+/)
            registers = substr($0, RSTART + 5, RLENGTH - 5)
            shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH) + 0 : 0
            printf "%-96s registers %3d stack %4d spill %4d shared %4d\n", name, registers, stack,
                   spill, shared
        }' "$folder/$1.o.said"
}

kernels_of kernels/device/halves/engines.cu | grep 'ar5watch' > "$out" ||
    { echo "resources: there is no kernel watch"; exit 1; }
awk '$3 > 8 { exit 1 }' "$out" ||
    { echo "resources: the kernel watch needs more than 8 registers: $(cat "$out")"; exit 1; }
"$@" -o "$out.families" test/kernels/compiled/families.c kernels/choose/families.c

release=$("$@" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
recorded=$(sed -n '1s/^# nvcc //p' test/kernels/compiled/resources.txt)
if [ $update = 0 ] && [ "$release" != "$recorded" ]; then
    echo "resources: skipped: test/kernels/compiled/resources.txt is of nvcc $recorded," \
        "this is $release"
    exit 77
fi
for f in kernels/device/*.cu kernels/device/*/*.cu; do
    kernels_of "$f"
done > "$out"
sort -o "$out" "$out"
[ -s "$out" ] || { echo "resources: ptxas said nothing"; exit 1; }
most=$(awk '$9 > most { most = $9 } END { print most + 0 }' "$out")
"$out.families" |
    awk -v static="$most" '$5 + static > 227 * 1024 { print; wrong = 1 } END { exit wrong }' ||
    {
        echo "resources: with $most bytes of static shared memory these families have more" \
            "than 227 KiB"
        exit 1
    }
"$out.families" >> "$out"
sed -i "1i # nvcc $release" "$out"
if [ $update = 1 ]; then
    cp "$out" test/kernels/compiled/resources.txt
    chmod 644 test/kernels/compiled/resources.txt
elif ! diff -u test/kernels/compiled/resources.txt "$out"; then
    echo "resources: kernels changed; if that is meant:" \
        "sh test/kernels/compiled/resources.sh -u ..."
    exit 1
else
    echo "resources: $(grep -c '^_' "$out") kernels as recorded with nvcc $release"
fi

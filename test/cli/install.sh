#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh BUILD - checks what make install has installed: an installed library exports every
# function that an installed header declares. And make kernels must say in one line what a box
# lacks.
# Exit 0: all right. 1: something is not.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL $*"; failed=1; }
unset MAKEFLAGS MAKELEVEL MFLAGS
make -s install B="$1" PREFIX=/usr DESTDIR="$work/root" > "$work/log" 2>&1 || fail "make install: $(cat "$work/log")"
for library in "$work"/root/usr/lib/*.so; do nm -D --defined-only "$library"; done |
    awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u > "$work/exported"
for header in "$work"/root/usr/include/*.h; do
    # a declaration may take several lines
    grep -v '^#define' "$header" | tr '\n' ' ' | grep -oE 'SYMTUNER(_AR)?_API [^(;]*\(' | sed -E 's/.*[ *]([a-z_0-9]+)\($/\1/' > "$work/declared"
    [ -s "$work/declared" ] || fail "${header##*/} declares no function"
    for name in $(grep -vxF -f "$work/exported" "$work/declared"); do
        fail "${header##*/} declares $name, which no installed library has"
    done
done
[ -f "$work/root/usr/include/symtuner.h" ] || fail "symtuner.h is not installed"

kernels() { # kernels WANT VARIABLE=VALUE ...
    want=$1
    shift
    make -s kernels B="$work/build" CUDA_HOME="$work/none" "$@" > "$work/log" 2>&1 && fail "make kernels $* succeeds"
    # make adds a line of its own
    [ "$(grep -cv '^make' "$work/log")" = 0 ] && [ "$(grep -c '^make kernels: ' "$work/log")" = 1 ] &&
        grep -q "^make kernels: .*$want" "$work/log" || fail "make kernels $*: $(head -5 "$work/log")"
}
mkdir -p "$work/nccl/include" "$work/cuda/include" && touch "$work/nccl/include/nccl.h" "$work/cuda/include/cuda_runtime_api.h"
kernels 'cuda_runtime_api.h in CUDA_HOME=' NCCL_HOME="$work/nccl" NVCC=true
kernels 'nccl.h in NCCL_HOME=' NCCL_HOME="$work/none" NVCC=true
kernels 'a compiler NVCC=no-such-nvcc' NCCL_HOME="$work/nccl" NVCC=no-such-nvcc CUDA_HOME="$work/cuda"
[ "$failed" = 0 ] && echo "install: fine"
exit "$failed"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh BUILD - checks what make install has installed. An installed library exports every
# function that an installed header declares. pkg-config tells a compiler where libraries and
# headers are. The command runs. make uninstall leaves nothing. Also, make kernels must say in one
# line what a box lacks.
# Exit 0: all right. 1: something is not.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL $*"; failed=1; }
unset MAKEFLAGS MAKELEVEL MFLAGS
places="PREFIX=/usr LIBDIR=/usr/lib/there DESTDIR=$work/root"
# shellcheck disable=SC2086
make -s install B="$1" $places > "$work/log" 2>&1 || fail "make install: $(cat "$work/log")"
for library in "$work"/root/usr/lib/there/*.so; do nm -D --defined-only "$library"; done |
    awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u > "$work/exported"
for header in "$work"/root/usr/include/*.h; do
    # a declaration may take several lines
    grep -v '^#define' "$header" | tr '\n' ' ' | grep -oE 'SYMTUNER(_AR)?_API [^(;]*\(' |
        sed -E 's/.*[ *]([a-z_0-9]+)\($/\1/' > "$work/declared"
    [ -s "$work/declared" ] || fail "${header##*/} declares no function"
    for name in $(grep -vxF -f "$work/exported" "$work/declared"); do
        fail "${header##*/} declares $name, which no installed library has"
    done
done
[ -f "$work/root/usr/include/symtuner.h" ] || fail "symtuner.h is not installed"
for role in tuner env profiler; do # for variables such as NCCL_ENV_PLUGIN=symtuner
    [ "$(readlink -e "$work/root/usr/lib/there/libnccl-$role-symtuner.so")" \
        = "$work/root/usr/lib/there/libsymtuner.so" ] ||
        fail "libnccl-$role-symtuner.so does not lead to libsymtuner.so"
done
[ "$("$work/root/usr/bin/symtuner" --version)" = "$("$1/symtuner" --version)" ] ||
    fail "the installed command does not run"

# program NAME: compiles and links the program on standard input as pkg-config NAME says, and runs
# it
program()
{
    command -v pkg-config > /dev/null || { echo "skip $1.pc: no pkg-config here"; return; }
    # shellcheck disable=SC2086
    cc -o "$work/use" -xc - $cuda $(PKG_CONFIG_PATH=$work/root/usr/lib/there/pkgconfig \
        PKG_CONFIG_SYSROOT_DIR=$work/root pkg-config --cflags --libs "$1") ||
        { fail "a program does not compile and link as $1.pc says"; return; }
    LD_LIBRARY_PATH=$work/root/usr/lib/there "$work/use" ||
        fail "a program that was linked as $1.pc says does not run"
}
cuda=
if nm -D "$1/libsymtuner.so" | grep -q ' U __asan'; then
    echo "skip pkg-config: a library with sanitizers links into no ordinary program"
else
    program symtuner << 'END'
#include <symtuner.h>
int main(void) { return symtuner_defaults_text() == 0; }
END
fi
cuda=-I${CUDA_HOME:-/usr/local/cuda}/include
if [ -f "$1/libsymtuner_ar.so" ] && echo '#include <nccl.h>' |
        cc $cuda -fsyntax-only -xc - 2> /dev/null; then
    program symtuner_ar << 'END'
#include <symtuner_ar.h>
int main(void) { return symtuner_ar_version() == 0; }
END
fi
# shellcheck disable=SC2086
make -s uninstall B="$1" $places > "$work/log" 2>&1 || fail "make uninstall: $(cat "$work/log")"
left=$(find "$work/root" ! -type d -o -name symtuner)
[ -z "$left" ] || fail "make uninstall left:" $left

kernels() { # kernels WANT VARIABLE=VALUE ...: make kernels must fail and say WANT
    want=$1
    shift
    make -s kernels B="$work/build" CUDA_HOME="$work/none" "$@" > "$work/log" 2>&1 &&
        fail "make kernels $* succeeds"
    # make adds a line of its own
    [ "$(grep -cv '^make' "$work/log")" = 0 ] &&
        [ "$(grep -c '^make kernels: ' "$work/log")" = 1 ] &&
        grep -q "^make kernels: .*$want" "$work/log" ||
        fail "make kernels $*: $(head -5 "$work/log")"
}
mkdir -p "$work/nccl/include" "$work/cuda/include" &&
    touch "$work/nccl/include/nccl.h" "$work/cuda/include/cuda_runtime_api.h"
kernels 'cuda_runtime_api.h in CUDA_HOME=' NCCL_HOME="$work/nccl" NVCC=true
kernels 'nccl.h in NCCL_HOME=' NCCL_HOME="$work/none" NVCC=true
kernels 'a compiler NVCC=no-such-nvcc' NCCL_HOME="$work/nccl" NVCC=no-such-nvcc \
    CUDA_HOME="$work/cuda"

# After a build with an absolute B, does a later make with a relative B see that a header has
# changed?
relative=${1#"$(pwd -P)"/}/absolute object=$relative/base/board.c.o
make -s "$object" B="$(pwd -P)/$relative" > "$work/log" 2>&1 ||
    fail "make with an absolute B: $(cat "$work/log")"
make -q "$object" B="$relative" || fail "$object is out of date although nothing has changed"
make -q -W base/board.h "$object" B="$relative" && fail "$object does not depend on base/board.h"
rm -rf "$relative"
[ "$failed" = 0 ] && echo "install: fine"
exit "$failed"

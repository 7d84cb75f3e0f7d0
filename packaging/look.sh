#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# look.sh PYTHON WHEEL [NVCC] - check that a wheel runs on the platform that its name says.
# auditwheel must find no newer symbol of glibc than the platform tag allows, and no library that a
# system may lack. Exit status 0: the wheel passes; prints what it contains and needs. 1: it does
# not pass; prints why.
set -u
wheel=$2
tag=${wheel##*-py3-none-}
tag=${tag%.whl}
said=$("$1" -m auditwheel show "$wheel") || { echo "FAIL auditwheel: $said"; exit 1; }
case $(echo "$said" | tr '\n' ' ') in
*"consistent with the following platform tag: \"manylinux_2_"[0-9]*) ;;
*) echo "FAIL $wheel: $said"; exit 1 ;;
esac
oldest=$(echo "$said" | tr '\n' ' ' | sed -n 's/.*platform tag: "manylinux_2_\([0-9]*\)_.*/\1/p')
allowed=$(echo "$tag" | sed -n 's/manylinux_2_\([0-9]*\)_.*/\1/p')
[ "$oldest" -le "$allowed" ] || { echo "FAIL $wheel needs glibc 2.$oldest"; exit 1; }
echo "$wheel"
"$1" -m zipfile -l "$wheel" | awk '/\/lib\/|\/bin\// { printf "  %-40s %9d bytes\n", $1, $NF }'
echo "  runs from glibc 2.$oldest on"
"$1" -m zipfile -l "$wheel" | grep -q libsymtuner_ar || exit 0
case $("${3:-nvcc}" --version 2> /dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p') in
12) echo "  its kernels need driver 525 or later, on Blackwell 570 (made with CUDA 12)" ;;
13) echo "  its kernels need driver 580 or later (made with CUDA 13);" \
    "docs/install.md: how to serve older ones" ;;
esac

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shared-object.sh LIBRARY: checks which names libsymtuner.so exports, which libraries it needs, and
# that it is never unloaded. If something is wrong, prints a line for each fault and exits with 1.
so=$1
wrong=0

exported=$(nm -D --defined-only "$so" | awk '$3 !~ /^(__asan|__ubsan|__tsan|__sancov)/ {print $3}' |
           sed 's/@.*//' | LC_ALL=C sort)
if ! echo "$exported" | diff -u test/golden/symbols.txt - ; then
    echo "$so: the exported names differ from test/golden/symbols.txt"
    wrong=1
fi

# The library may need libc, and the libraries that older releases of glibc have beside libc. A
# sanitizer build also needs its runtime.
needed=$(readelf -d "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
         grep -v -E '^(libc\.so\.6|libpthread\.so\.0|librt\.so\.1|libdl\.so\.2)$' |
         grep -v -E '^(ld-linux[-a-z0-9_]*|lib(asan|ubsan|tsan))\.so\.[0-9]+$')
if [ -n "$needed" ]; then
    echo "$so: needs more than libc:" $needed
    wrong=1
fi

if ! readelf -d "$so" | grep -q NODELETE; then
    echo "$so: -z nodelete is missing: NCCL would keep pointers into an unloaded library"
    wrong=1
fi
# For NCCL_TUNER_PLUGIN=symtuner, NCCL looks for libnccl-tuner-symtuner.so, so make install must
# make such names.
root=$(mktemp -d) || exit 2
make -s install DESTDIR="$root" PREFIX=/usr B="$(dirname "$so")" > /dev/null || wrong=1
for role in tuner env profiler; do
    [ -s "$root/usr/lib/libnccl-$role-symtuner.so" ] ||
        { echo "make install: no libnccl-$role-symtuner.so beside the library"; wrong=1; }
done
rm -rf "$root"
[ $wrong = 0 ] && echo "$so: $(echo "$exported" | wc -l) exported names, libc only, never unloaded"
exit $wrong

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# release.sh [quick] - the checklist of a release. Run it at the commit that is to be released; it
# says what is still to do, works in a clean clone, and leaves the files to publish in
# build/release. With "quick" it leaves out .ci/run, which takes a quarter of an hour. Exit 0:
# release it. 1: not yet. 77: this box lacks something, so not all was checked.
set -u
cd "$(dirname "$0")/.." || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0 skipped=0
fail() { echo "FAIL $*"; failed=1; }
skip() { echo "skip $*"; skipped=1; }
fine() { echo "ok   $*"; }
same() # WHAT WANT GOT: check that two values are equal
{
    if [ "$2" = "$3" ]; then fine "$1: $2"; else fail "$1: \"$3\", not \"$2\""; fi
}
unset MAKEFLAGS MAKELEVEL MFLAGS PYTHONPATH SYMTUNER_LIB_DIR

version=$(sed -n 's/^#define SYMTUNER_VERSION "\(.*\)"/\1/p' include/symtuner.h)
echo "     release $version of $(git log -1 --format='%h, %s')"
same "files that are not committed" "" "$(git status --porcelain | head -3)"
same "headline of CHANGELOG.md" "## $version, $(date -u +%Y-%m-%d)" \
    "$(grep -m 1 '^## ' CHANGELOG.md)"
for page in docs/man/*.[15]; do
    same "$page" "symtuner $version" "$(sed -n '/^\.TH/s/.*"\(symtuner [0-9.]*\)".*/\1/p' "$page")"
done
same "jax/symtuner/__init__.py" "$version" \
    "$(sed -n 's/^__version__ = "\(.*\)"/\1/p' jax/symtuner/__init__.py)"
tagged=$(git rev-parse -q --verify "v$version^{commit}")
case $tagged in
"" | "$(git rev-parse HEAD)") fine "tag v$version: ${tagged:-free}" ;;
*) fail "tag v$version is another commit: $tagged" ;;
esac

git clone -q . "$work/clone" && cd "$work/clone" || exit 2
build=$work/clone/build
make -s -j"$(nproc)" > "$work/log" 2>&1 || fail "make: $(tail -3 "$work/log")"
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
if ! command -v nvcc > /dev/null; then
    skip "the kernels: no nvcc here"
elif ! make -s -j"$(nproc)" kernels AR_ARCHS="80 90 100 120" > "$work/log" 2>&1; then
    fail "make kernels: $(tail -3 "$work/log")"
fi
if [ "${1:-}" = quick ]; then
    skip ".ci/run, as asked"
else
    .ci/run > "$work/log" 2>&1 && fine ".ci/run" || fail ".ci/run: $(tail -5 "$work/log")"
fi
sh test/cli/packages.sh build # checks what each package must be
case $? in
0) fine "make test-packages" ;;
77) skip "make test-packages" ;;
*) fail "make test-packages" ;;
esac

if docker info > /dev/null 2>&1; then
    docker build -q -f packaging/Dockerfile . > "$work/log" 2>&1 && fine "docker build" ||
        fail "docker build: $(tail -3 "$work/log")"
else
    skip "docker build: no docker daemon here"
fi

# Check that the wheel has all files of a release, and kernels for all generations of GPUs. In the
# fat binary, kind 2 is code for one generation, and kind 1 is PTX.
wheel=$(ls build/dist/*-manylinux_2_28_*.whl 2> /dev/null) || fail "no wheel was made"
mkdir "$work/wheel" && python3 -m zipfile -e "${wheel:-none}" "$work/wheel" 2> /dev/null
for file in bin/symtuner lib/libsymtuner.so lib/libsymtuner_nccl.so lib/libsymtuner_ar.so \
        lib/libsymtuner_ffi.so; do
    [ -f "$work/wheel/symtuner/$file" ] || fail "the wheel has no $file"
done
for file in LICENSE packaging/third-party.txt; do
    [ -f "$work/wheel/symtuner-$version.dist-info/licenses/$file" ] || fail "the wheel has no $file"
done
same "GPU generations in the wheel" "ptx120 sm_100 sm_120 sm_80 sm_90" \
    "$(python3 - "$work/wheel/symtuner/lib/libsymtuner_ar.so" << 'END' 2> /dev/null
import struct, sys
data = open(sys.argv[1], "rb").read()
magic, found = b"\x50\xed\x55\xba", set()
at = data.find(magic)
while at >= 0:
    head, size = struct.unpack_from("<HQ", data, at + 6)
    entry = at + head
    while entry < at + head + size:
        kind, _, head_of_entry, length = struct.unpack_from("<HHIQ", data, entry)
        arch = struct.unpack_from("<I", data, entry + 28)[0]
        found.add({1: "ptx", 2: "sm_"}.get(kind, "?") + str(arch))
        entry += head_of_entry + length
    at = data.find(magic, at + 4)
print(*sorted(found))
END
)"
make -s dist sdist > "$work/log" 2>&1 || fail "make dist sdist: $(tail -3 "$work/log")"
cd - > /dev/null || exit 2
rm -rf build/release && mkdir -p build/release && cp "$build"/dist/* build/release/
(cd build/release && sha256sum -- * | tee SHA256SUMS)
[ $failed = 0 ] || { echo "release.sh: not yet"; exit 1; }
[ $skipped = 0 ] || { echo "release.sh: not all was checked here"; exit 77; }
echo "release.sh: git tag -a v$version, and publish build/release"

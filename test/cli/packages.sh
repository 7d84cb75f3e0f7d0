#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# packages.sh BUILD - makes each kind of package, and uses it as somebody does who has only the
# package.
#
#   tarball   two builds give the same bytes; it has every file of the commit
#   Debian    has all that make install installs; its command runs; lintian finds no error
#   wheel     runs from glibc 2.28 on; in a new venv its command, module and libraries are found
#             with no variable set; symtuner run starts programs with them, also a JAX program on
#             CPU devices; packaging/look.sh refuses a wheel that was linked for a newer glibc
#   Dockerfile  is read by hadolint (test/release.sh builds it where docker runs)
#   sdist     in it, README.md's commands run as printed, without nvcc
#   pages     the commands of README.md and of pages run as printed, in a clean clone (printed.sh)
#
# The wheel has the kernels that BUILD has. Wheels need tools from PyPI, which are kept in
# BUILD/wheel-tools. jax comes from JAX_PYTHON, else from BUILD/jax-venv (test/jax/run.sh makes it),
# else from python3. Exit 0: all right. 1: something is not. 77: no tools, so no wheel was made; or
# no jax, so the wheel did not run with it (the rest was run).
set -u
built=$1 build=$(cd "$1" && pwd) || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0 bad=0 skipped=0
fail() { echo "FAIL $*"; failed=1 bad=1; }
fine() { [ $bad = 1 ] || echo "ok   $*"; bad=0; }
unset MAKEFLAGS MAKELEVEL MFLAGS PYTHONPATH SYMTUNER_LIB_DIR
export DEBIAN_FROM="Jo Maker <jo@debian.org>"
version=$("$build/symtuner" --version | cut -d' ' -f2)
name=symtuner-$version

tarball()
{
    git rev-parse HEAD > /dev/null 2>&1 ||
        { echo "skip the tarball: this is no git checkout"; return; }
    for time in 1 2; do
        make -s dist B="$work/$time" > "$work/log" 2>&1 ||
            { fail "make dist: $(cat "$work/log")"; return; }
        sleep 1.1 # tar writes times in whole seconds
    done
    cmp "$work/1/dist/$name.tar.xz" "$work/2/dist/$name.tar.xz" ||
        fail "make dist makes other bytes a second later"
    tar tJf "$work/1/dist/$name.tar.xz" | grep -v '/$' | sed "s|^$name/||" | sort > "$work/packed"
    git ls-tree -r --name-only HEAD | sort | diff - "$work/packed" ||
        fail "the tarball has other files than the commit"
    fine "the tarball has $(wc -l < "$work/packed") files, and the same bytes twice"
}

debian()
{
    command -v dpkg-deb > /dev/null || { echo "skip the Debian package: no dpkg-deb here"; return; }
    make -s deb B="$built" > "$work/log" 2>&1 || { fail "make deb: $(cat "$work/log")"; return; }
    deb=$(ls "$build/dist/symtuner_${version}_"*.deb)
    dpkg-deb -x "$deb" "$work/deb" || fail "$deb cannot be unpacked"
    [ "$("$work/deb/usr/bin/symtuner" --version)" = "symtuner $version" ] ||
        fail "the command of $deb does not run"
    library=$(find "$work/deb" -name libsymtuner.so)
    VERSION=$version PREFIX=/usr LIBDIR=${library%/*} sh packaging/install.sh list "$build" |
        sed "s|^$work/deb||; s|\(/man/.*\)|\1.gz|; /LICENSE$/d" | while read -r file; do
        [ -e "$work/deb$file" ] || [ -L "$work/deb$file" ] || echo "$file"
    done > "$work/lacks"
    [ -s "$work/lacks" ] && fail "the Debian package lacks" $(cat "$work/lacks")
    if command -v lintian > /dev/null; then
        lintian --allow-root "$deb" > "$work/log" 2>&1
        grep '^E:' "$work/log" && fail "lintian finds an error in $deb"
    else
        echo "skip lintian: it is not here"
    fi
    fine "the Debian package has what make install installs"
}

# Run a program with the wheel's symtuner run, from $work, with no variable set.
run_program()
{
    (
        cd "$work" || exit 1
        $alone symtuner run -- python3 -c '
import os, sys
maps = open("/proc/self/maps").read()
print(os.environ["LD_PRELOAD"], os.environ["NCCL_ENV_PLUGIN"], os.environ["SYMTUNER_JAX"])
sys.exit(3 if os.environ["LD_PRELOAD"] in maps else 4)' > out 2> err
        [ $? = 3 ] || fail "symtuner run: python3 ended otherwise: $(cat err)"
        [ "$(cat out)" = "$libraries/libsymtuner_nccl.so $libraries/libsymtuner.so 1" ] ||
            fail "symtuner run sets $(cat out)"
        [ "$(sed '1s/; no kernels: .*//; q' err)" = "symtuner run: plugin, drop-in, JAX route" ] ||
            fail "symtuner run says $(cat err)"
        exit $bad
    ) || failed=1 bad=1
}

# Run a JAX program on two CPU devices with the wheel's symtuner run. JAX must find the package by
# its entry point and call it. Without symtuner run, JAX must not call it. On the CPU, XLA adds up
# in both cases.
run_jax()
{
    here=$("$work/venv/bin/python3" -c 'import sys; print(sys.version_info[:2])')
    # this file makes the venv find jax's packages: it names their folders
    place=$(echo "$work/venv"/lib/python3*/site-packages)/jax.pth
    for other in ${JAX_PYTHON:-"$build/jax-venv/bin/python" python3}; do
        "$other" -c 'import jax, sys; jax.__version_info__ >= (0, 9, 2) or sys.exit(1)
print(sys.version_info[:2], *[p for p in sys.path if p.endswith("-packages")], sep="\n")' \
            > "$work/paths" 2> /dev/null && break
    done
    if [ "$(head -1 "$work/paths")" != "$here" ]; then
        tried=${JAX_PYTHON:-neither $build/jax-venv/bin/python nor python3}
        echo "skip JAX with the wheel: $tried has jax for python $here"
        skipped=77
        return
    fi
    sed 1d "$work/paths" > "$place"
    cat > "$work/sum.py" <<'X'
import jax, numpy, sys
from jax.sharding import PartitionSpec as P
mesh = jax.sharding.Mesh(jax.devices(), ("i",))
add = jax.shard_map(lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
assert (numpy.asarray(jax.jit(add)(numpy.arange(8.0))) == [4, 6, 8, 10]).all()
own = sys.modules.get("symtuner._install")
print(bool(own and own._installed), own.__file__ if own else "")
X
    cpu="$alone JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count=2"
    (
        cd "$work" || exit 1
        [ "$($cpu python3 sum.py 2> err)" = "False " ] ||
            fail "JAX without symtuner run: $(tail -3 err)"
        hooked="True ${libraries%/lib}/_install.py"
        [ "$($cpu symtuner run -- python3 sum.py 2> err)" = "$hooked" ] ||
            fail "JAX with symtuner run: $(tail -3 err)"
        exit $bad
    ) || failed=1 bad=1
}

wheel()
{
    # take the architectures of BUILD's kernels from the name of their folder, for example
    # ar-80-90-100-120
    archs=$(readlink "$build/libsymtuner_ar.so" | sed -n 's|^ar-\([0-9-]*\)/.*|\1|p' | tr - ' ')
    make -s wheel B="$built" AR_ARCHS="$archs" > "$work/wheel.log" 2>&1 ||
        { fail "make wheel: $(tail -5 "$work/wheel.log")"; return; }
    wheel=$(ls "$build/dist/$name"-py3-none-manylinux*.whl)
    python3 -m venv "$work/venv" && "$work/venv/bin/pip" -q install --no-index "$wheel" ||
        fail "$wheel cannot be installed"

    # commands run with no variable set, and outside of the source tree
    alone="env -i PATH=$work/venv/bin:/usr/bin:/bin HOME=$work"
    libraries=$(cd "$work/venv"/lib/python3*/site-packages/symtuner/lib && pwd -P)
    for file in "$build"/libsymtuner*.so; do
        [ -f "$libraries/${file##*/}" ] || fail "the wheel lacks ${file##*/}"
    done
    (
        cd "$work" || exit 1
        [ "$($alone symtuner --version)" = "symtuner $version" ] || fail "symtuner --version"
        $alone symtuner doctor --json > "$work/doctor" || [ $? = 1 ] || fail "symtuner doctor"
        $alone python3 -c 'import json, sys; json.load(sys.stdin)' < "$work/doctor" ||
            fail "what symtuner doctor prints"
        [ "$($alone python3 -c 'import symtuner; print(symtuner.__version__)')" = "$version" ] ||
            fail "import symtuner"
        [ "$($alone python3 -m symtuner --version)" = "symtuner $version" ] ||
            fail "python -m symtuner"
        $alone python3 -m symtuner env > "$work/env" || fail "python -m symtuner env"
        (. "$work/env" && [ -f "$NCCL_ENV_PLUGIN" ] &&
            [ "$(cd "${NCCL_ENV_PLUGIN%/*}" && pwd -P)" = "$libraries" ]) ||
            fail "python -m symtuner env exports no path into the wheel: $(cat "$work/env")"
        if [ -n "$archs" ]; then
            $alone python3 -c 'from symtuner import _library as l; print(l._find(l._AR))' \
                > "$work/wheel.log" 2>&1
            [ "$(cat "$work/wheel.log")" = "$libraries/libsymtuner_ar.so" ] ||
                fail "the package finds $(tail -1 "$work/wheel.log")"
        fi
        man=$($alone man -w symtuner 2> /dev/null)
        [ ! -x /usr/bin/man ] || [ "$man" = "$work/venv/share/man/man1/symtuner.1" ] ||
            fail "man symtuner: $man"
        exit $bad
    ) || failed=1 bad=1
    run_program
    sh test/shared-object.sh "$libraries/libsymtuner.so" > "$work/wheel.log" ||
        fail "the wheel's plugin: $(cat "$work/wheel.log")"
    make -s "$built/check-host" B="$built" > "$work/wheel.log" 2>&1
    mkdir "$work/host" && cp "$libraries/libsymtuner.so" "$libraries/../bin/symtuner" \
        "$work/host" &&
        ln -s "$build/fakes" "$work/host/fakes"
    "$build/check-host" "$work/host/libsymtuner.so" > "$work/wheel.log" 2>&1 ||
        fail "the wheel's plugin: $(tail -5 "$work/wheel.log")"

    # A wheel with files that were linked on this box must not pass packaging/look.sh, unless this
    # box's glibc is as old as the wheel's.
    make -s install B="$built" DESTDIR="$work" PREFIX=/tree > "$work/wheel.log" ||
        fail "make install: $(cat "$work/wheel.log")"
    platform=$(basename "$wheel" .whl | sed 's/.*-//')
    SYMTUNER_WHEEL_TREE=$work/tree SYMTUNER_WHEEL_PLATFORM=$platform \
        "$python" -m hatchling build -t wheel -d "$work/dist" > "$work/wheel.log" 2>&1 ||
        fail "hatchling: $(cat "$work/wheel.log")"
    if objdump -T "$work/tree/lib/libsymtuner.so" | grep -qE 'GLIBC_2\.(29|[3-9][0-9])'; then
        sh packaging/look.sh "$python" "$work"/dist/*.whl > "$work/wheel.log" &&
            fail "a wheel for a newer glibc passes"
    fi
    run_jax
    fine "the wheel runs in a new venv: $(basename "$wheel")"
}

sdist()
{
    "$python" -m hatchling build -t sdist -d "$work/sdist" > "$work/log" 2>&1 ||
        { fail "sdist: $(cat "$work/log")"; return; }
    tar xzf "$work/sdist/$name.tar.gz" -C "$work" || { fail "the sdist"; return; }
    sh test/cli/printed.sh "$work/$name" README.md > "$work/log" 2>&1 || fail "$(cat "$work/log")"
    grep '^skip' "$work/log"
    fine "README.md's commands run in what the sdist has"
}

pages()
{
    git rev-parse HEAD > /dev/null 2>&1 ||
        { echo "skip the pages' commands: this is no git checkout"; return; }
    sh test/cli/printed.sh > "$work/pages" 2>&1 || fail "$(cat "$work/pages")"
    grep '^skip' "$work/pages"
    fine "$(grep -c '^ok' "$work/pages") commands of README.md and docs/" \
        "run as printed, in a clean clone"
}

dockerfile()
{
    hadolint=$build/wheel-tools/bin/hadolint
    [ -x "$hadolint" ] || { echo "skip the Dockerfile: no hadolint in $build/wheel-tools"; return; }
    "$hadolint" packaging/Dockerfile || fail "hadolint finds something in packaging/Dockerfile"
    fine "hadolint finds nothing in packaging/Dockerfile"
}

tarball
debian
python=$build/wheel-tools/bin/python
if make -s "$built/wheel-tools/bin/python" B="$built" > "$work/log" 2>&1; then
    dockerfile
    # check the wheel in the background, while the checks below compile
    (wheel; [ $failed = 0 ] || exit 1; exit $skipped) &
    sdist
    pages
    wait $!
    status=$?
    [ $status = 77 ] || [ $status = 0 ] || failed=1
    [ $failed = 0 ] || exit 1
    echo "packages: fine"
    exit $status
fi
[ $failed = 0 ] || exit 1
echo "packages.sh: no wheel was made, no tools from PyPI: $(tail -1 "$work/log")"
exit 77

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# start.sh BUILD - checks what symtuner run says if the kernels are missing, if a program cannot be
# started, and if a setting has odd characters. Needs neither a GPU nor a C compiler.
# Exit 0: all right. 1: something failed.
set -u
build=$(cd "$1" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 checked=0
mkdir -p "$work/bin" "$work/lib"
cp "$build/symtuner" "$work/bin/" && cp "$build/libsymtuner.so" "$work/lib/" || exit 1
cd "$work" || exit 1
asan=detect_leaks=0:verify_asan_link_order=0
clean="env -i PATH=$work/bin:$PATH LC_ALL=C HOME=$work ASAN_OPTIONS=$asan"
is() { # is WHAT EXPECTED GOT: checks that the two values are equal
    checked=$((checked + 1))
    [ "$2" = "$3" ] || { echo "FAIL $1: $3, not $2"; failed=1; }
}
starts() { # starts PROGRAM STATUS MESSAGE: checks the exit status and message of symtuner run
    $clean symtuner run --quiet --only plugin -- "$1" 2> err
    is "exit status of $1" "$2" $?
    is "message for $1" "symtuner run: $3" "$(cat err)"
}

# ---- a program that cannot be started ------------------------------------------------------------
printf '#! /none/bin/python3 -u\n' > bin/moved
printf '#!/bin/sh\r\necho hi\r\n' > windows
: > plain
chmod +x bin/moved windows
mkdir bin/folder
starts moved 127 "$work/bin/moved needs /none/bin/python3: No such file or directory"
starts ./windows 127 "./windows needs /bin/sh?: No such file or directory"
starts ./none 127 "./none: No such file or directory"
starts folder 126 "folder: Permission denied"
starts ./plain 126 "./plain: Permission denied"

# ---- --print -------------------------------------------------------------------------------------
line='x
touch ran'
$clean NCCL_ENV_PLUGIN="$line" symtuner run --print --only plugin > print 2> err
is "status with a newline in a value that is kept" 0 $?
sh ./print
is "no command from a value" no "$([ -e ran ] && echo yes || echo no)"
$clean NCCL_TUNER_PLUGIN="$line" symtuner run --print --only plugin > print 2> err
is "status with a newline in a value that is printed" 1 $?
is "settings, none rather than some" "" "$(cat print)"
why="SYMTUNER_NEXT_TUNER cannot be printed: its value has a control character or is too long"
is "why" "symtuner run: $why" "$(cat err)"
$clean NCCL_ENV_PLUGIN="$line" symtuner run --only plugin -- true 2> err
is "one line" "symtuner run: plugin; kept: NCCL_ENV_PLUGIN=x?touch ran" "$(head -1 err)"

# ---- our plugin, named without its folder --------------------------------------------------------
for name in libsymtuner.so symtuner libnccl-env-symtuner.so; do
    $clean NCCL_ENV_PLUGIN=$name NCCL_TUNER_PLUGIN=$name symtuner run --quiet --only plugin -- \
        env > env
    is "$name" "$(printf "NCCL_%s_PLUGIN=$work/lib/libsymtuner.so\n" ENV TUNER)" \
        "$(grep '^NCCL_' env | sort)"
done
$clean NCCL_ENV_PLUGIN=/opt/libsymtuner.so symtuner run --quiet --only plugin -- env > env
is "a plugin of ours with its folder" NCCL_ENV_PLUGIN=/opt/libsymtuner.so "$(grep ^NCCL_ENV env)"

# ---- no kernels ----------------------------------------------------------------------------------
# --print loads no library, so empty files are enough
: > lib/libsymtuner_nccl.so
lacks='; no kernels: libsymtuner_ar.so is not beside symtuner, so NCCL runs every call; '
lacks="${lacks}make kernels builds it, and so does pip if nvcc is there"
is "no kernels" "# symtuner run: plugin, drop-in, JAX route$lacks" \
    "$($clean symtuner run --print | head -1)"
is "no kernels, no drop-in" "# symtuner run: plugin" \
    "$($clean symtuner run --print --only plugin | head -1)"
is "another drop-in, which may have kernels" "# symtuner run: plugin, drop-in, JAX route" \
    "$($clean LD_PRELOAD=/none/libsymtuner_nccl.so symtuner run --print 2> err | head -1)"
: > lib/libsymtuner_ar.so
is "kernels" "# symtuner run: plugin, drop-in, JAX route" "$($clean symtuner run --print | head -1)"

# ---- the file of a job ---------------------------------------------------------------------------
# only root may put a read-only folder over /dev/shm, and not in every container
mkdir relative
if unshare -m mount -t tmpfs -o ro none /dev/shm 2> /dev/null; then
    # shellcheck disable=SC2016
    is "a relative TMPDIR, which the program leaves" found \
        "$($clean TMPDIR=relative unshare -m sh -c '
        mount -t tmpfs -o ro none /dev/shm
        symtuner run --quiet --only jax -- sh -c \
            "cd / && test -f \$SYMTUNER_RUN_FILE && echo found"')"
fi

[ "$failed" = 0 ] || exit 1
echo "start: $checked checks, all fine"

# SPDX-License-Identifier: Apache-2.0
#
# doctor_python.sh - the part of doctor.sh about the NCCL that jax and torch of python3 would load.
# doctor.sh includes this file, which does not run by itself.

sp=home/site
framework() { # framework FILE FLAGS: makes a library that needs libnccl.so.2
    mkdir -p "$(dirname "$1")"
    mkdir -p "$work/stub"
    [ -e "$work/stub/libnccl.so.2" ] ||
        echo 'int ncclGetVersion(int *v) { *v = 0; return 0; }' |
            "$cc" -shared -fPIC -x c -Wl,-soname,libnccl.so.2 -o "$work/stub/libnccl.so.2" - ||
            exit 1
    # shellcheck disable=SC2086
    echo 'int ncclGetVersion(int *v); int framework(void) { int v; return ncclGetVersion(&v); }' |
        "$cc" -shared -fPIC -x c $2 -o "$1" - -x none -Wl,--no-as-needed \
            "$work/stub/libnccl.so.2" || exit 1
}
origin='$ORIGIN/../../nvidia/nccl/lib'
torch_rpath() {
    framework $sp/torch/lib/libtorch_cuda.so "-Wl,--disable-new-dtags,-rpath,$origin"
    : > $sp/torch/__init__.py
}
torch_runpath() {
    framework $sp/torch/lib/libtorch_cuda.so "-Wl,--enable-new-dtags,-rpath,$origin"
    : > $sp/torch/__init__.py
}
torch_plain() { framework $sp/torch/lib/libtorch_cuda.so ""; : > $sp/torch/__init__.py; }
jax_plugin() { lib $sp/jax_plugins/xla_cuda12/xla_cuda_plugin.so 'int GetPjrtApi;'; }
package() { # package CUDA RELEASE [VERSION]: makes what pip installs of nvidia-nccl-cu$CUDA
    mkdir -p $sp/nvidia/nccl/lib "$sp/nvidia_nccl_cu$1-${3:-$2}.dist-info"
    cp "$work/nccl/$2" $sp/nvidia/nccl/lib/libnccl.so.2
    printf 'Metadata-Version: 2.1\nName: nvidia-nccl-cu%s\nVersion: %s\n' "$1" "${3:-$2}" \
        > "$sp/nvidia_nccl_cu$1-${3:-$2}.dist-info/METADATA"
}
# loads NAME WANTED COMMANDS [NAME=VALUE ...]: run COMMANDS in the root of a fresh box. The doctor
# must then report the frameworks of WANTED. WANTED has one line for each, such as "torch PATH HOW":
# which NCCL torch would load, and what leads to this NCCL.
loads() {
    name=$1 wanted=$2 commands=$3
    shift 3
    rm -rf "$work/box" && cp -r "$clean" "$work/box"
    (cd "$work/box" && eval "$commands") || { echo "FAIL $name: cannot make the box"; failed=1; }
    out=$(doctor "$work/box" -- PYTHONPATH="$work/box/$sp" "$@" 2> "$work/err")
    got=$(echo "$out" | sed -n '/"frameworks"/{s/}, {/\n/g;p}' |
        sed -n 's/.*"name": "\([a-z]*\)".*"nccl": "*\([^",]*\)"*, "by": "*\([^"}]*\).*/\1 \2 \3/p')
    [ "$got" = "$wanted" ] ||
        { echo "FAIL $name: got"; echo "$got"; echo "not"; echo "$wanted"; failed=1; }
}
judged() { # judged NAME RELEASE: checks which release the findings are about
    echo "$out" | head -n 1 | grep -q "\"nccl\": \"$2\"" ||
        { echo "FAIL $1 is not judged by $2: $(echo "$out" | head -n 1)"; failed=1; }
}
pip=/$sp/nvidia/nccl/lib/libnccl.so.2
if [ -n "$python" ]; then
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" > "$work/bin/python3"
    loads rpath "torch $pip RPATH" 'torch_rpath; package 12 2.28.9'
    judged rpath 2.28.9
    # no program loads the system's 2.27.7, so the doctor lists it, but reports no second copy
    echo "$out" | ids | grep -qx nccl-two-copies &&
        { echo "FAIL rpath: nccl-two-copies"; failed=1; }
    echo "$out" | ids | grep -qx nccl-no-wait ||
        { echo "FAIL rpath: no nccl-no-wait of 2.28.9"; failed=1; }
    echo "$out" | grep -q '"path": "/[a-z]*/*lib64/libnccl.so.2", "nccl": "2.27.7"' ||
        { echo "FAIL rpath: the system's copy is not named"; failed=1; }
    echo "$out" | grep -q '"package": "nvidia-nccl-cu12 2.28.9"' ||
        { echo "FAIL rpath: pip's package is not named"; failed=1; }
    text=$(env -i HOME=/home PATH="$python_path" PYTHONPATH="$work/box/$sp" \
        NCCL_TUNER_PLUGIN=libsymtuner.so "$symtuner" doctor --root "$work/box" | tr -s '\n ' ' ')
    says="NCCL 2.28.9, $pip (nvidia-nccl-cu12 2.28.9): loaded by torch (RPATH) 2.27.7, "
    case $text in "$says"*"python3 3."*) ;;
    *) echo "FAIL rpath: the text says $text"; failed=1 ;; esac
    loads rpath-first "torch $pip RPATH" \
        "torch_rpath; package 12 2.28.9; mkdir opt; cp $work/nccl/2.29.7 opt/libnccl.so.2" \
            LD_LIBRARY_PATH=/opt
    loads runpath-last "torch /opt/libnccl.so.2 LD_LIBRARY_PATH" \
        "torch_runpath; package 12 2.28.9; mkdir opt; cp $work/nccl/2.29.7 opt/libnccl.so.2" \
            LD_LIBRARY_PATH=/opt
    judged runpath-last 2.29.7
    loads runpath "torch $pip RUNPATH" 'torch_runpath; package 13 2.28.9'
    loads preload "jax /opt/libnccl.so.2 LD_PRELOAD
torch /opt/libnccl.so.2 LD_PRELOAD" \
    "torch_rpath; jax_plugin; package 12 2.28.9; mkdir opt; cp $work/nccl/2.30.7 opt/libnccl.so.2" \
        LD_PRELOAD=/opt/libnccl.so.2
    judged preload 2.30.7
    loads no-package "torch /lib64/libnccl.so.2 the loader's folders" \
        'torch_plain; mkdir lib64; mv usr/lib64/libnccl.so.2 lib64'
    judged no-package 2.27.7
    loads linked-in "torch /$sp/torch/lib/libtorch_cuda.so linked in" \
        "nccl $sp/torch/lib/libtorch_cuda.so 2.29.2 13.0; : > $sp/torch/__init__.py"
    judged linked-in 2.29.2
    loads jax "jax $pip by its path" \
        "jax_plugin; package 12 2.31.2; mkdir opt; cp $work/nccl/2.29.7 opt/libnccl.so.2" \
            LD_LIBRARY_PATH=/opt
    judged jax 2.31.2
    loads jax-alone "jax /opt/libnccl.so.2 LD_LIBRARY_PATH" \
        "jax_plugin; mkdir opt; cp $work/nccl/2.29.7 opt/libnccl.so.2" LD_LIBRARY_PATH=/opt
    loads cpu-torch "" "mkdir -p $sp/torch/lib; : > $sp/torch/__init__.py"
    judged cpu-torch 2.27.7
    loads package-alone "" 'package 12 2.28.9' # no program loads what is in the package
    judged package-alone 2.27.7
    loads nothing-found "torch null null" 'torch_plain; rm usr/lib64/libnccl.so.2'
    # The doctor must neither import jax and torch, nor report a torch in the current folder, which
    # the program would not load.
    ends="echo 'raise SystemExit(9)' >"
    loads not-imported "torch $pip RPATH" \
        "torch_rpath; package 12 2.28.9; $ends $sp/torch/__init__.py; mkdir -p $sp/jax
        $ends $sp/jax/__init__.py"
    # two packages installed the same file; the release in the file is what matters
    loads two-packages "torch $pip RPATH" 'torch_rpath; package 13 2.29.7; package 12 2.28.9'
    judged two-packages 2.28.9
    echo "$out" | grep -q '"nvidia-nccl-cu12 2.28.9, nvidia-nccl-cu13 2.29.7"' ||
        { echo "FAIL two-packages: not both are named"; failed=1; }
    # jax and torch load different releases: the doctor reports the findings of both, and that the
    # releases differ
    both="torch_plain; jax_plugin; package 12 2.28.9; cp $work/nccl/2.31.2 usr/lib64/libnccl.so.2"
    loads both "jax $pip by its path
torch /usr/lib64/libnccl.so.2 the loader's folders" "$both"
    for id in nccl-no-wait nccl-ll-void nccl-two-copies; do
        echo "$out" | ids | grep -qx $id || { echo "FAIL both: $id is not found"; failed=1; }
    done
    [ "$(echo "$out" | ids | sort | uniq -d)" = "" ] ||
        { echo "FAIL both: findings twice"; failed=1; }
    env -i HOME=/home PATH="$python_path" PYTHONPATH="$work/box/$sp" "$symtuner" doctor \
        --root "$work/box" |
        grep -q '^warning  nccl-no-wait with NCCL 2.28.9$' ||
        { echo "FAIL both: not said with which release"; failed=1; }
    # A torch that contains NCCL calls the drop-in only if its calls of NCCL go through the loader.
    # The doctor must warn of a torch whose calls do not.
    inside="const char version[] = \"NCCL version 2.29.2+cuda13.0\"; int ncclGetVersion, AllReduce;"
    inside="lib $sp/torch/lib/libtorch_cuda.so '$inside'; : > $sp/torch/__init__.py"
    { plant dropin-nccl-inside -s "$drop; $inside" LD_PRELOAD=$own PYTHONPATH="$work/box/$sp"
      spare dropin-nccl-inside -s "$drop; $(echo "$inside" | sed 's/ AllReduce/ ncclAllReduce/')" \
          LD_PRELOAD=$own PYTHONPATH="$work/box/$sp"
      spare dropin-nccl-inside -s "$inside" PYTHONPATH="$work/box/$sp"; } 2> /dev/null
    # an option that names the release overrules what the doctor finds
    out=$(env -i PATH="$python_path" PYTHONPATH="$work/box/$sp" "$symtuner" doctor \
        --root "$work/box" --nccl 2.30.7 --json)
    judged asked 2.30.7
fi
# the doctor reports a python3 that fails, hangs or is missing, and still checks all else
printf '#!/bin/sh\necho "Fatal Python error" >&2; exit 1\n' > "$work/bin/python3"
doctor "$clean" | grep -q '"not_checked": .*python3 fails: Fatal Python error' ||
    { echo "FAIL python3 that fails is not said"; failed=1; }
printf '#!/bin/sh\nsleep 60\n' > "$work/bin/python3"
start=$(date +%s)
doctor "$clean" | grep -q '"not_checked": .*python3 gave no answer within 5 s' ||
    { echo "FAIL python3 that hangs is not said"; failed=1; }
[ $(($(date +%s) - start)) -le 8 ] ||
    { echo "FAIL python3 that hangs holds the doctor up"; failed=1; }
# this python3 closes its output, but does not end; the doctor must not wait until it ends
printf '#!/bin/sh\nexec > /dev/null 2>&1\nsleep 60\n' > "$work/bin/python3"
start=$(date +%s)
doctor "$clean" | grep -q '"not_checked": .*python3 gave no answer within 5 s' ||
    { echo "FAIL python3 that hangs after its output is not said"; failed=1; }
[ $(($(date +%s) - start)) -le 8 ] ||
    { echo "FAIL python3 that hangs after its output holds the doctor up"; failed=1; }
mkdir "$work/empty"
env -i PATH="$work/empty" "$symtuner" doctor --root "$clean" --json |
    grep -q '"not_checked": .*there is no python3 in PATH' ||
    { echo "FAIL no python3, and it is not said"; failed=1; }
printf '#!/bin/sh\n' > "$work/bin/python3"

# Without PATH, Python does not know its own path. A python3 may also print none.
python_line() { env -i "$@" "$symtuner" doctor --root "$work" | sed -n 's/^python3 *//p'; }
line=$(python_line)
case $line in
'' | [0-9.]*", /"*": neither "*) ;;
*) echo "FAIL python3 without PATH: $line"; failed=1 ;;
esac
mkdir "$work/pathless" &&
    printf '#!/bin/sh\nprintf "python\\t3.11.0\\t\\n"\n' > "$work/pathless/python3" &&
    chmod +x "$work/pathless/python3"
line=$(python_line PATH="$work/pathless")
case $line in
"3.11.0: neither "*) ;;
*) echo "FAIL python3 that prints no path: $line"; failed=1 ;;
esac

# the user names a library; --nccl FILE is the old spelling of the option
for option in --library --nccl; do
    out=$(env -i PATH="$python_path" "$symtuner" doctor --root "$clean" $option \
        /usr/lib64/libnccl.so.2 --json 2> "$work/err")
    judged $option 2.27.7
    hints=$(grep -c 'write --library FILE instead of --nccl FILE' "$work/err")
    [ "$option $hints" = "--library 0" ] || [ "$option $hints" = "--nccl 1" ] ||
        { echo "FAIL $option: $hints hints"; failed=1; }
done
env -i "$symtuner" doctor --root "$clean" --library /etc/ld.so.conf > /dev/null 2> "$work/err"
[ $? = 2 ] && grep -q -- '--library wants a libnccl.so.2, not "/etc/ld.so.conf"' "$work/err" ||
    { echo "FAIL --library takes any file"; failed=1; }

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# here.sh BUILD - checks what symtuner why and symtuner check take for this box: its machine and its
# release of NCCL. A value of SYMTUNER_MACHINE that symtuner does not understand stands for a box
# without GPUs.
# Exit 0: all right. 1: something failed. 77: no C compiler here to make libraries with.

set -u
symtuner=$(cd "$1" && pwd)/symtuner
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
command -v "$cc" > /dev/null || { echo "here.sh: skipped, no $cc here"; exit 77; }
failed=0 passed=0
# says WHAT STATUS PATTERN NAME=VALUE ... -- ARGUMENTS: symtuner ARGUMENTS must end with STATUS and
# print a line that PATTERN matches. The variables are all that is in the environment.
says()
{
    what=$1 wanted=$2 pattern=$3
    shift 3
    variables=
    while [ "$1" != -- ]; do
        variables="$variables '$1'"
        shift
    done
    shift
    clean="env -i LC_ALL=C ASAN_OPTIONS=detect_leaks=0 PATH='$work'"
    eval "$clean $variables \"\$symtuner\" \"\$@\"" \
        > "$work/out" 2>&1
    status=$?
    if [ $status = "$wanted" ] && grep -q -e "$pattern" "$work/out"; then
        passed=$((passed + 1))
    else
        echo "FAIL $what: exit status $status, output:"
        sed 's/^/    /' "$work/out"
        failed=$((failed + 1))
    fi
}

# nccl FOLDER RELEASE: makes a library that the search takes for NCCL
nccl()
{
    mkdir -p "$work/$1"
    printf 'const char v[] = "NCCL version %s+cuda13.0";
        int ncclGetVersion(int *n) { return *n = 0; }\n' "$2" |
        "$cc" -shared -fPIC -x c -Wl,-soname,libnccl.so.2 -o "$work/$1/libnccl.so.2" - || exit 1
}
# packages NAME FILE ...: writes a python3 that prints these packages
packages()
{
    printf '#!/bin/sh\nprintf "%%s\\t%%s\\n" %s\n' "$*" > "$work/python3"
    chmod +x "$work/python3"
}
nccl loader 2.28.9
nccl torch 2.30.7
nccl jax 2.29.7
echo 'int ncclGetVersion(int *v); int torch(void) { int v; return ncclGetVersion(&v); }' |
    "$cc" -shared -fPIC -x c -Wl,--disable-new-dtags,-rpath,'$ORIGIN' \
        -o "$work/torch/libtorch_cuda.so" - -x none -Wl,--no-as-needed \
        "$work/torch/libnccl.so.2" || exit 1
echo 'int GetPjrtApi;' | "$cc" -shared -fPIC -x c -o "$work/jax/xla_cuda_plugin.so" - || exit 1
torch="torch $work/torch/libtorch_cuda.so"
jax="nccl $work/jax/libnccl.so.2 jax $work/jax/xla_cuda_plugin.so"

# ---- why: the machine ----------------------------------------------------------------------------
call='why allreduce 1MiB --nccl 2.28.9 --brief'
none=SYMTUNER_MACHINE=h200
# shellcheck disable=SC2086
{
    says "why: 8 GPUs are assumed where there is none" 0 \
        '8 x H200, NVSwitch (assumed: no GPU here; --machine)' $none -- $call
    needs='every rank needs a GPU of its own'
    says "why: the assumed machine has 8 GPUs, no more" 2 \
        "100 ranks on 1 node of 8 GPUs: $needs (8 x H200.* is assumed.*--machine" \
        $none -- $call --ranks 100
    says "why: each node of the assumed machine has 8 GPUs" 0 '16 ranks' $none -- $call \
        --ranks 16 --nodes 2
    known='SYMTUNER_MACHINE=gpu=NVIDIA H200; gpus=2; links=nvlink; multicast=no'
    other='SYMTUNER_MACHINE=gpu=NVIDIA GeForce RTX 4090; gpus=2; links=pcie; multicast=no'
    says "why: a GPU of the table is described" 0 'the box described, sm_90, NVLink, no multicast' \
        "$known" -- $call
    says "why: another GPU is described, without its compute capability" 2 \
        'the compute capability of "NVIDIA GeForce RTX 4090" is not known; give it, as in --arch' \
        "$other" -- $call
    says "why: another GPU is described, with its compute capability" 0 \
        'the box described, sm_89, no NVLink, no multicast' "$other" -- $call --arch 8.9
    says "why: ranks are the GPUs described" 0 ' 2 ranks' "$other" -- $call --arch 8.9
    says "why: more ranks than GPUs are described" 2 '8 ranks on 1 node of 2 GPUs' "$other" \
        -- $call --arch 8.9 --ranks 8
}

# ---- why: the release ----------------------------------------------------------------------------
call='why allreduce 1MiB --machine h200x8 --brief'
path=LD_LIBRARY_PATH=$work/loader
# shellcheck disable=SC2086
{
    says "why: the loader's release, without python3" 0 '^NCCL 2.28.9 on' $path -- $call
    packages $torch
    says "why: torch's release" 0 '^NCCL 2.30.7 on' $path -- $call
    says "why: --nccl overrides torch's release" 0 '^NCCL 2.29.2 on' $path -- $call --nccl 2.29.2
    packages $jax $torch
    says "why: jax's release is the first" 0 '^NCCL 2.29.7 on' $path -- $call
    says "why: it says which release it takes" 0 \
        "why: answers for NCCL 2.29.7 of jax ($work/jax/libnccl.so.2)" $path -- $call
    says "why: it names the other release" 0 \
        "why: the answer is not for NCCL 2.30.7 of torch ($work/torch/" $path -- $call
}

# ---- check: machine and release ------------------------------------------------------------------
box='SYMTUNER_MACHINE=gpu=NVIDIA H200; gpus=2; links=nvlink; multicast=no'
printf '%s\n' '[provenance]' 'nccl = 2.30.7' 'gpu = NVIDIA H200' 'links = nvlink' > "$work/a.rules"
rules=$work/a.rules
packages $torch
says "check: the rules fit torch's release" 0 'a.rules: ' "$path" "$box" -- check --here "$rules"
measured='these rules were measured on another release'
says "check: --nccl overrides torch's release" 1 \
    "a.rules:1:1: $measured: nccl = 2.30.7 (here 2.28.9); .* the same\$" \
    "$path" "$box" -- check --here --nccl 2.28.9 "$rules"
with='compared with NCCL'
another='another machine: gpu = NVIDIA H200 (here NVIDIA H100)'
says "check: the machine differs" 1 "$another; .* ($with 2.30.7 of torch ($work/torch/" \
    "$path" 'SYMTUNER_MACHINE=gpu=NVIDIA H100; links=nvlink' -- check --here "$rules"
cannot='a machine that could not be compared with this one'
says "check: the machine cannot be asked" 1 \
    "$cannot: gpu = NVIDIA H200 (here not known), links = nvlink (here not known);" \
    "$path" $none -- check --here "$rules"
packages
says "check: the rules do not fit the loader's release" 1 \
    "another release: nccl = 2.30.7 (here 2.28.9); .* ($with 2.28.9 ($work/loader/libnccl.so.2))" \
    "$path" "$box" -- check --here "$rules"
cannot='the machine could not be compared; tune again'
says "check: the release differs, and the machine cannot be asked" 1 \
    "another release: nccl = 2.30.7 (here 2.28.9), gpu = .*; $cannot" \
    "$path" $none -- check --here "$rules"
# shellcheck disable=SC2086
packages $jax $torch
says "check: the rules fit torch's release, but not jax's" 1 \
    "nccl = 2.30.7 (here 2.29.7); .* (compared with NCCL 2.29.7 of jax ($work/jax/libnccl.so.2))" \
    "$path" "$box" -- check --here "$rules"
[ "$(grep -c provenance "$work/out")" = 1 ] ||
    { echo "FAIL check: torch's release is a finding, too"; failed=1; }
says "check: JSON says so, too" 1 '"kind": "provenance", "text": ".*NCCL 2.29.7 of jax' "$path" \
    "$box" -- check --here --json "$rules"

echo "test/cli/here/here.sh: $passed passed, $failed failed"
[ $failed = 0 ]

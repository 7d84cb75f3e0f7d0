#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# doctor.sh BUILD - checks every finding of `symtuner doctor` that needs no GPU. On a clean box the
# doctor must not report the finding. After the test has planted the fault in the box, the doctor
# must report it. A box is a folder that the doctor takes for the root of the file system.
# test/cli/gpu.sh plants the faults of running GPUs.
# Exit 0: all right. 1: something failed. 77: no C compiler here to make libraries with, or no
# python3 to ask for site-packages folders (the rest was run).

set -u
symtuner=$(cd "$1" && pwd)/symtuner
plugin=$(cd "$1" && pwd)/libsymtuner.so
cc=${CC:-cc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
command -v "$cc" > /dev/null || { echo "doctor.sh: skipped, no $cc here"; exit 77; }
planted=" " failed=0 count=0

# The doctor asks python3 which packages are installed. For these boxes it must not see the packages
# of this machine. So it gets the following python3, which reports no packages.
python=$(python3 -c 'import sys; print(sys.executable)' 2> /dev/null)
mkdir "$work/bin"
printf '#!/bin/sh\nprintf "python\\t3.11.0\\t/usr/bin/python3\\n"\n' > "$work/bin/python3"
chmod +x "$work/bin/python3"
python_path=$work/bin:$PATH

lib() { # lib FILE CODE: compiles CODE into a shared object
    mkdir -p "$(dirname "$1")"
    echo "$2" | "$cc" -shared -fPIC -x c -o "$1" - || exit 1
}
nccl() { # nccl FILE RELEASE CUDA: makes a library that says it is this NCCL
    lib "$1" "const char version_text[] = \"NCCL version $2+cuda$3\"; int ncclGetVersion(int *v) { *v = 0; return 0; }"
}
pci() { # pci ROOT NAME CLASS VENDOR: makes the files of a PCI device
    mkdir -p "$1/sys/bus/pci/devices/$2"
    echo "$3" > "$1/sys/bus/pci/devices/$2/class"
    echo "$4" > "$1/sys/bus/pci/devices/$2/vendor"
}

# ---- a clean box ---------------------------------------------------------------------------------
clean=$work/clean
for release in 2.26.5 2.27.3 2.27.7 2.28.3 2.28.9 2.29.2 2.29.7 2.30.7 2.31.2 2.32.3 2.32.6 2.40.1; do
    nccl "$work/nccl/$release" "$release" 13.0
done
mkdir -p "$clean/usr/lib64" "$clean/usr/local/lib" "$clean/etc/ld.so.conf.d" "$clean/home" \
    "$clean/proc/driver/nvidia" "$clean/proc/self" "$clean/dev" "$clean/proc/sys/kernel"
cp "$work/nccl/2.27.7" "$clean/usr/lib64/libnccl.so.2"
cp "$plugin" "$clean/usr/local/lib/libsymtuner.so"
echo 'include /etc/ld.so.conf.d/*.conf' > "$clean/etc/ld.so.conf"
echo '/usr/local/lib' > "$clean/etc/ld.so.conf.d/libc.conf"
printf 'cache /usr/local/lib/libsymtuner.so end' > "$clean/etc/ld.so.cache"
echo "me:x:$(id -u):$(id -g):me:/home:/bin/sh" > "$clean/etc/passwd"
echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build' \
    > "$clean/proc/driver/nvidia/version"
: > "$clean/usr/lib64/libcuda.so.580.159.04"
: > "$clean/dev/nvidia-uvm"
echo 0 > "$clean/proc/sys/kernel/numa_balancing"
echo 'shm /dev/shm tmpfs rw,size=8388608k 0 0' > "$clean/proc/mounts"
echo 'Max locked memory         unlimited            unlimited            bytes' > "$clean/proc/self/limits"
for gpu in 0000:01:00.0 0000:02:00.0; do
    pci "$clean" $gpu 0x030200 0x10de
    mkdir -p "$clean/sys/bus/pci/devices/$gpu/iommu_group"
    echo identity > "$clean/sys/bus/pci/devices/$gpu/iommu_group/type"
done
pci "$clean" 0000:00:01.0 0x060400 0x8086
# This bridge's PCI configuration has an ACS capability at offset 0x100, whose control word is 0.
{ head -c 256 /dev/zero; printf '\015\000\001\000\000\000\000\000'; head -c 64 /dev/zero; } \
    > "$clean/sys/bus/pci/devices/0000:00:01.0/config"

doctor() { # doctor ROOT ARGUMENTS -- ENVIRONMENT: runs the doctor on the box ROOT
    root=$1
    shift
    arguments=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do arguments="$arguments $1"; shift; done
    [ $# -gt 0 ] && shift
    # shellcheck disable=SC2086
    env -i HOME=/home PATH="$python_path" NCCL_TUNER_PLUGIN=libsymtuner.so "$@" \
        "$symtuner" doctor --root "$root" $arguments --json
}
ids() { sed -n 's/.*{"id": "\([a-z0-9-]*\)".*/\1/p'; }

# For each release of NCCL the doctor reports the faults that it knows. The clean box has NCCL
# 2.27.7, for which these are two notes.
found=$(echo $(doctor "$clean" | ids))
[ "$found" = "nccl-ll-unaligned nccl-one-rank" ] || { echo "FAIL the clean box has other findings than its release's:" $found; failed=1; }
doctor "$clean" > /dev/null || { echo "FAIL the clean box: exit status $?"; failed=1; }
# after an installation no variable is set yet
doctor "$clean" -- NCCL_TUNER_PLUGIN= > /dev/null || { echo "FAIL the clean box outside of symtuner run: exit status $?"; failed=1; }

# plant ID [-n RELEASE] [-s COMMANDS] [NAME=VALUE ...]: run the commands in the root of a fresh box;
# the doctor must then report finding ID
plant() {
    id=$1 release= commands=:
    shift
    while [ "${1:-}" = -n ] || [ "${1:-}" = -s ]; do
        if [ "$1" = -n ]; then release=$2; else commands=$2; fi
        shift 2
    done
    rm -rf "$work/box" && cp -r "$clean" "$work/box"
    [ -z "$release" ] || cp "$work/nccl/$release" "$work/box/usr/lib64/libnccl.so.2"
    (cd "$work/box" && eval "$commands") || { echo "FAIL $id: cannot plant"; failed=1; }
    out=$(doctor "$work/box" -- "$@")
    status=$?
    count=$((count + 1))
    planted="$planted$id "
    if ! echo "$out" | ids | grep -qx "$id"; then
        echo "FAIL $id is not found; found:" $(echo "$out" | ids)
        failed=1
    elif [ $status != 1 ] && ! echo "$out" | grep "\"id\": \"$id\"" | grep -q '"severity": "note"'; then
        echo "FAIL $id: exit status $status"
        failed=1
    fi
}
# evidence ID PATTERN ...: like plant, and the evidence of the finding must match the pattern
evidence() {
    id=$1 pattern=$2
    shift 2
    plant "$id" "$@"
    echo "$out" | grep "\"id\": \"$id\"" | grep -q "$pattern" ||
        { echo "FAIL $id does not say \"$pattern\": $out"; failed=1; }
}
# spare ID ...: like plant, but the doctor must not report the finding
spare() {
    before=$failed
    kept=$planted
    plant "$@" > "$work/spare.out"
    failed=$before planted=$kept
    grep -q "is not found" "$work/spare.out" || { echo "FAIL $1 is found where it should not be ($*)"; failed=1; }
}

# ---- settings ------------------------------------------------------------------------------------
plant sym-kernel-typo NCCL_SYM_KERNEL=AllReduce_AGxLL
plant sym-kernel-typo NCCL_SYM_KERNEL=allreduce_agxll_r
spare sym-kernel-typo NCCL_SYM_KERNEL=AllReduce_AGxLL_R
plant sym-kernel-fatal -n 2.31.2 NCCL_SYM_KERNEL=allreduce:AllReduce_AGxLL
spare sym-kernel-fatal -n 2.31.2 NCCL_SYM_KERNEL=allreduce_agxll_r,allgather:AllGather_LL
plant sym-kernel-alone NCCL_SYM_KERNEL=AllReduce_AGxLL_R
plant sym-kernel-exclusive -n 2.31.2 NCCL_SYM_KERNEL=allreduce_agxll_r
plant algo-excludes-symmetric -n 2.31.2 NCCL_ALGO=Ring
spare algo-excludes-symmetric NCCL_ALGO=Ring
plant algo-forced NCCL_ALGO=Ring
plant proto-ll128 NCCL_PROTO=LL128
plant proto-ll128 NCCL_PROTO=simple,ll,ll128
plant proto-ll128 NCCL_PROTO=^LL
plant proto-ll128 'NCCL_PROTO=LL;allgather:LL128'
spare proto-ll128 NCCL_PROTO=^LL128
spare proto-forced NCCL_PROTO=simple,ll128
spare proto-forced NCCL_PROTO=^LL128
plant proto-forced NCCL_PROTO=Simple
plant win-disabled NCCL_WIN_ENABLE=0
# NCCL reads this variable as a number: as 0 in the first loop, as 1 or not at all in the second.
for off in 00 0x0 false true no ' 0'; do plant win-disabled "NCCL_WIN_ENABLE=$off"; done
for on in 1 0x1 '' 99999999999999999999; do spare win-disabled "NCCL_WIN_ENABLE=$on"; done
evidence cumem-disabled 'NCCL_CUMEM_ENABLE=true (environment); NCCL reads it as 0' NCCL_CUMEM_ENABLE=true
plant p2p-disabled NCCL_P2P_DISABLE=0x1
spare p2p-disabled NCCL_P2P_DISABLE=2
spare max-ctas-low NCCL_MAX_CTAS=0x20
spare sym-ctas-range NCCL_SYM_CTAS=0x10
evidence number-expected 'NCCL_P2P_DISABLE=yes (environment): NCCL reads 0' NCCL_P2P_DISABLE=yes
evidence number-expected 'NCCL_BUFFSIZE=4M (/etc/nccl.conf:1): NCCL reads 4"' -s 'echo NCCL_BUFFSIZE=4M > etc/nccl.conf'
spare number-expected NCCL_BUFFSIZE=4194304 NCCL_ALGO=Ring NCCL_NTHREADS=0x100 NCCL_MAX_CTAS=
plant cumem-disabled -s 'echo NCCL_CUMEM_ENABLE=0 > home/.nccl.conf'
plant tuner-not-found -s 'mkdir opt; mv usr/local/lib/libsymtuner.so opt; echo LD_LIBRARY_PATH=/opt > etc/nccl.conf'
# Up to 2.29 NCCL takes the home folder from the password file, and from 2.30.3 on from HOME.
for folder in home other; do
    for release in 2.29.7 2.30.7; do
        finds=spare
        case $folder-$release in home-2.29.7 | other-2.30.7) finds=plant ;; esac
        $finds cumem-disabled -n $release -s "mkdir -p other; echo NCCL_CUMEM_ENABLE=0 > $folder/.nccl.conf" HOME=/other
    done
done
spare cumem-disabled -n 2.29.7 -s 'rm etc/passwd; echo NCCL_CUMEM_ENABLE=0 > home/.nccl.conf'
plant p2p-disabled -s 'echo NCCL_P2P_DISABLE=1 > etc/nccl.conf'
for level in NVL C2C 0 3 0x1; do plant p2p-level NCCL_P2P_LEVEL=$level; done
for level in SYS 4 5 nvl ''; do spare p2p-level NCCL_P2P_LEVEL=$level; done
for level in nvl 'PIX '; do plant p2p-level-unknown "NCCL_P2P_LEVEL=$level"; done
for level in SYS 9 PXN ''; do spare p2p-level-unknown NCCL_P2P_LEVEL=$level; done
plant p2p-memcpy -n 2.30.7 NCCL_P2P_USE_CUDA_MEMCPY=1
plant local-register-off NCCL_LOCAL_REGISTER=0
plant graph-register-off NCCL_GRAPH_REGISTER=0
plant copy-engine-policy -n 2.30.7 NCCL_CTA_POLICY=zero
plant efficiency-policy NCCL_CTA_POLICY=1
# From 2.29 on NCCL reads one or several words from NCCL_CTA_POLICY. No release knows the number 3.
plant copy-engine-policy -n 2.29.7 'NCCL_CTA_POLICY=EFFICIENCY|zero'
plant efficiency-policy -n 2.29.7 'NCCL_CTA_POLICY=EFFICIENCY|zero'
plant copy-engine-policy -n 2.28.9 NCCL_CTA_POLICY=2
spare copy-engine-policy -n 2.28.9 NCCL_CTA_POLICY=ZERO
evidence number-expected 'NCCL_CTA_POLICY=ZERO (environment): NCCL reads 0' -n 2.28.9 NCCL_CTA_POLICY=ZERO
for release in 2.28.9 2.29.7; do spare copy-engine-policy -n $release NCCL_CTA_POLICY=3; done
plant sym-ctas-range NCCL_SYM_CTAS=128
plant sym-ctas-user NCCL_SYM_CTAS=16
plant max-ctas-low NCCL_MAX_CTAS=4
plant max-channels-low NCCL_MAX_NCHANNELS=2
plant nvls-off NCCL_NVLS_ENABLE=0
plant lsa-team-size -n 2.30.7 NCCL_LSA_TEAM_SIZE=2
plant rearch -n 2.31.2 NCCL_ENQUEUE_REARCH_ENABLE=1
plant launch-blocking CUDA_LAUNCH_BLOCKING=1
plant no-gpu-visible CUDA_VISIBLE_DEVICES=
plant debug-trace NCCL_DEBUG=TRACE
plant variable-typo NCCL_SYM_CTA=16
plant variable-typo -s 'echo NCCL_PROT=LL > etc/nccl.conf'
plant conf-file-missing NCCL_CONF_FILE=/home/none.conf
plant conf-file-missing NCCL_CONF_FILE=/home
spare conf-file-missing -s ": > home/empty.conf" NCCL_CONF_FILE=/home/empty.conf
for line in 'NCCL_DEBUG = INFO' 'NCCL_DEBUG=INFO\r' 'export NCCL_DEBUG=INFO' 'NCCL_DEBUG="INFO"' "NCCL_DEBUG='INFO'" \
    'NCCL_DEBUG=INFO ' 'NCCL_DEBUG=INFO # x' '\357\273\277NCCL_DEBUG=INFO'; do
    plant conf-line -s 'printf "$line\n" > etc/nccl.conf'
done
spare conf-line -s 'printf "# a comment = 1\n\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==eth0,eth1\n" > etc/nccl.conf'
spare conf-line -n 2.30.7 -s 'printf "\r\n# x\r\nNCCL_DEBUG=INFO\r\n" > etc/nccl.conf'
plant win-disabled -n 2.30.7 -s 'printf "NCCL_WIN_ENABLE=0\r\n" > etc/nccl.conf'
plant conf-overridden -s 'echo NCCL_DEBUG=WARN > etc/nccl.conf' NCCL_DEBUG=INFO
plant symtuner-variable SYMTUNER_RULEZ=x
plant symtuner-variable SYMTUNER_AR_KERNL=pull
plant symtuner-variable SYMTUNER_AR_kernel=pull
spare symtuner-variable $(grep -o '"SYMTUNER_AR_[A-Z][A-Z_]*' kernels/host/options.c | sort -u | sed 's/^"//; s/$/=1/')
for wrong in AR_KERNEL=x AR_CTAS=0 AR_MAX_CTAS=513 AR_LINKS=NVLINK AR_IPC=yes AR_TIMEOUT_MS=10s VERIFY=501 MAX_COMMS=-1 \
    ONLY=allreduce,allgahter; do plant symtuner-value "SYMTUNER_$wrong"; done
evidence symtuner-value 'AR_CTAS=+8 (environment): write a number from 1 to 512; .*AR_LINKS=x .* write one of nvlink pcie; .*ONLY=x .*: write some of allreduce,' \
    SYMTUNER_AR_CTAS=+8 SYMTUNER_AR_LINKS=x SYMTUNER_ONLY=x
spare symtuner-value SYMTUNER_AR_KERNEL=pull SYMTUNER_AR_CTAS=512 SYMTUNER_AR_IPC=auto SYMTUNER_AR_PROBE_FILE=x SYMTUNER_AR_LAG= \
    SYMTUNER_VERIFY=500 SYMTUNER_MAX_COMMS=0 SYMTUNER_ONLY=allgather,allreduce
plant symtuner-value SYMTUNER_MODE=stear
plant symtuner-value SYMTUNER_MODE=OFF
plant symtuner-value SYMTUNER_MACHINE=h200
spare symtuner-value SYMTUNER_MACHINE=gpu=x
for command in 'decide allreduce 1' 'why allreduce 4' 'table docs/example.rules' 'check --here docs/example.rules'; do
    env -i SYMTUNER_MACHINE=h200 "$symtuner" $command 2>&1 > /dev/null |
        grep -q 'SYMTUNER_MACHINE=h200 is not understood' ||
        { echo "FAIL symtuner $command says nothing about SYMTUNER_MACHINE=h200"; failed=1; }
done
for option in '' --json; do
    env -i SYMTUNER_MODE=stear SYMTUNER_RULS=x SYMTUNER_JAX=yes SYMTUNER_LEDGER_SIGNAL=9 SYMTUNER_AR_LAG=9 SYMTUNER_AR_KERNL=x "$symtuner" env $option \
        2> "$work/env.err" > /dev/null
    diff -u - "$work/env.err" << 'X' || failed=1
symtuner env: SYMTUNER_MODE=stear: write one of steer|observe|off; symtuner uses "steer"
symtuner env: SYMTUNER_LEDGER_SIGNAL=9: write one of unset|USR1|USR2; symtuner uses "unset"
symtuner env: SYMTUNER_JAX=yes: write one of 0|1|report; JAX stops here, default "0"
symtuner env: SYMTUNER_AR_LAG=9: write a number from 1 to 8
symtuner env: SYMTUNER_RULS: no such variable; did you mean SYMTUNER_RULES?
symtuner env: SYMTUNER_AR_KERNL: no such variable; did you mean SYMTUNER_AR_KERNEL?
X
done
[ -z "$(env -i SYMTUNER_MODE=off SYMTUNER_AR_LAG=8 "$symtuner" env 2>&1 > /dev/null)" ] ||
    { echo "FAIL symtuner env complains about legal values"; failed=1; }
env -i SYMTUNER_AR_NODES=1 "$symtuner" why allreduce 64KiB --machine h200x8 --nodes 2 --brief |
    grep -q '^  with libsymtuner_ar.so: box by box or NCCL alone, by times that are measured' ||
    { echo "FAIL symtuner why does not say who decides with SYMTUNER_AR_NODES=1"; failed=1; }
env -i NCCL_SYM_CTAS=8x "$symtuner" why allreduce 4KiB --machine h200x8 2>&1 > /dev/null |
    grep -q 'NCCL_SYM_CTAS of the environment: "8x" is no number .*; NCCL reads it as 8$' ||
    { echo "FAIL symtuner why does not say what is wrong with NCCL_SYM_CTAS=8x"; failed=1; }
cp "$plugin" "$work/libhere.so"
here() { # here [NAME=VALUE]: prints the line of symtuner why that says whether symtuner is loaded
    env -i NCCL_ENV_PLUGIN=libhere.so "$@" "$symtuner" why allreduce 4KiB --machine h200x8 --nccl 2.28.9 | grep '^symtuner'
}
here | grep -q 'not loaded in this environment (symtuner doctor says why)' ||
    { echo "FAIL symtuner why takes symtuner for loaded without LD_LIBRARY_PATH"; failed=1; }
[ "$(here LD_LIBRARY_PATH="/none:$work")" = symtuner ] ||
    { echo "FAIL symtuner why does not see that LD_LIBRARY_PATH leads to symtuner"; failed=1; }
# the plugin reads rules from three sources; symtuner decide must use the rules of all three
echo '[rule file]
coll = reduce
channels = 9' > "$work/file.rules"
echo 'broadcast,0,4096,ring,ll,2,-1,-1' > "$work/a.csv"
for coll in allgather:inline:1 reduce:file broadcast:csv:1; do
    env -i SYMTUNER_RULE='allgather channels=8' SYMTUNER_RULES="$work/file.rules" NCCL_TUNER_CONFIG_FILE="$work/a.csv" \
        "$symtuner" decide "${coll%%:*}" 4096 --json | grep -q "\"rule\": \"${coll#*:}\"" ||
        { echo "FAIL symtuner decide ${coll%%:*} misses the rule ${coll#*:}"; failed=1; }
done
spare symtuner-value SYMTUNER_MODE=off SYMTUNER_LEDGER_SIGNAL= SYMTUNER_DEFAULTS=0
evidence symtuner-value 'SYMTUNER_MODE=of .*SYMTUNER_STRICT=2' SYMTUNER_MODE=of SYMTUNER_STRICT=2
evidence symtuner-variable 'RULEZ.*LEGER' SYMTUNER_RULEZ=x SYMTUNER_LEGER=x
plant mode-off SYMTUNER_MODE=observe
spare mode-off SYMTUNER_MODE=OFF
evidence symtuner-value 'SYMTUNER_MODE=OFF .*using .*steer' SYMTUNER_MODE=OFF
evidence symtuner-value 'SYMTUNER_JAX_COMM=Xla .*JAX stops here' SYMTUNER_JAX_COMM=Xla
plant defaults-off SYMTUNER_DEFAULTS=0
flag=--xla_gpu_experimental_enable_nccl_symmetric_buffers=true
plant xla-starved NCCL_TUNER_PLUGIN= XLA_FLAGS="$flag"
spare xla-starved XLA_FLAGS="$flag"
plant xla-half XLA_FLAGS="$flag"

# ---- plugins, rules, releases --------------------------------------------------------------------
plant tuner-not-asked NCCL_TUNER_PLUGIN=
spare tuner-not-asked -n 2.28.9 NCCL_TUNER_PLUGIN= NCCL_ENV_PLUGIN=libsymtuner.so
evidence tuner-not-found 'NCCL_TUNER_PLUGIN=lost (environment); tried .*libnccl-tuner-lost.so' NCCL_TUNER_PLUGIN=lost
spare tuner-not-found -s 'mv usr/local/lib/libsymtuner.so usr/local/lib/libnccl-tuner-symtuner.so' NCCL_TUNER_PLUGIN=symtuner
spare tuner-not-found -s 'mkdir opt; mv usr/local/lib/libsymtuner.so opt' LD_LIBRARY_PATH=/none:/opt
# LD_LIBRARY_PATH with 60 folders of 30 bytes, as module systems set it, must be read to its end. So
# must rules on one line of more than 512 bytes.
folders=$(printf '/modules/of/a/cluster/%05d/lib:' $(seq 60))
spare tuner-not-found -s 'mkdir opt; mv usr/local/lib/libsymtuner.so opt' "LD_LIBRARY_PATH=$folders/opt"
spare rules-wrong "SYMTUNER_RULE=$(printf 'allreduce bytes=..%dKiB prefer=general:ring/ll; ' $(seq 20))"
spare tuner-not-found NCCL_TUNER_PLUGIN=/usr/local/lib/libsymtuner.so
net='int ncclNetPlugin_v10;'
plant tuner-no-symbol -s "lib usr/lib64/libnet.so '$net'" NCCL_TUNER_PLUGIN=libnet.so
evidence tuner-no-symbol 'libnew.so exports tuner v7; this NCCL looks for ncclTunerPlugin_v4 down to 2' -s "lib usr/lib64/libnew.so 'int ncclTunerPlugin_v7;'" NCCL_TUNER_PLUGIN=libnew.so
spare tuner-no-symbol -s "lib usr/lib64/libnet.so '$net'; lib usr/lib64/libnccl-net.so 'int ncclTunerPlugin_v4;'" NCCL_TUNER_PLUGIN=libnet.so
evidence tuner-bad-file '=libsymtuner.so .*; /usr/local/lib/libsymtuner.so is no shared object' -s 'echo text > usr/local/lib/libsymtuner.so'
evidence tuner-bad-file 'libsymtuner.so cannot be read' -s 'rm usr/local/lib/libsymtuner.so; mkdir usr/local/lib/libsymtuner.so'
plant tuner-path-mangled -n 2.27.3 NCCL_TUNER_PLUGIN=/usr/local/lib/libsymtuner.so
plant tuner-static-name NCCL_TUNER_PLUGIN=s
plant tuner-disabled -n 2.28.9 NCCL_TUNER_PLUGIN=none
plant tuner-none-means-file NCCL_TUNER_PLUGIN=none
for variable in TUNER PROFILER ENV; do
    evidence tuner-name-long "NCCL_${variable}_PLUGIN has 301" -n 2.28.9 NCCL_${variable}_PLUGIN=/$(printf '%0300d' 0)
done
spare tuner-name-long NCCL_ENV_PLUGIN=/$(printf '%0300d' 0)
plant tuner-other -s "lib usr/lib64/libother.so 'int ncclTunerPlugin_v4;'" NCCL_TUNER_PLUGIN=libother.so
spare tuner-other -n 2.28.9 -s "lib usr/lib64/libother.so 'int ncclTunerPlugin_v4;'" NCCL_TUNER_PLUGIN=libother.so NCCL_ENV_PLUGIN=libsymtuner.so
plant tuner-old-abi -s "lib usr/lib64/libold.so 'int ncclTunerPlugin_v2;'" NCCL_TUNER_PLUGIN=libold.so
plant env-plugin-lost -n 2.28.9 NCCL_ENV_PLUGIN=libnone.so
spare env-plugin-lost -n 2.28.9 NCCL_ENV_PLUGIN=libsymtuner.so

# If the loader does not find libsymtuner.so by its name, cures and `symtuner why` give the path of
# the file beside the command. This is tested without --root, so only where the loader of this box
# does not find the file. NCCL 2.27.3 takes no path.
names() { # names WANTED NCCL [NAME=VALUE ...]: doctor and why must name the plugin so
    want=$1 release=$2
    shift 2
    env -i PATH="$python_path" "$@" "$venv/bin/symtuner" doctor --no-gpu --nccl "$release" --json |
        grep -q "\"cure\": \".*set NCCL_ENV_PLUGIN=$want[ ,]" ||
        { echo "FAIL doctor does not name the plugin $want with NCCL $release $*"; failed=1; }
    env -i PATH="$python_path" "$@" "$venv/bin/symtuner" why allreduce 1MiB f32 --nccl "$release" \
        --machine h200x2 > "$work/why.out"
    # if a variable names a plugin, why leaves the cure to the doctor
    case $* in NCCL_*) want="" ;; *) want="NCCL_[A-Z]*_PLUGIN=$want loads it" ;; esac
    tr -s '\n ' ' ' < "$work/why.out" | grep -q "not loaded in this environment (${want:-symtuner doctor says why})" ||
        { echo "FAIL why does not say ${want:-symtuner doctor says why} with NCCL $release $*"; failed=1; }
}
venv=$work/venv
mkdir -p "$venv/bin" "$venv/lib"
cp "$symtuner" "$venv/bin"
if [ -e /usr/local/lib/libsymtuner.so ] || [ -e /usr/lib/libsymtuner.so ]; then
    echo "doctor.sh: the path of the plugin was not tested: it is installed here"
else
    names libsymtuner.so 2.28.9
    cp "$plugin" "$venv/lib"
    names "$venv/lib/libsymtuner.so" 2.28.9
    names "$venv/lib/libsymtuner.so" 2.28.9 NCCL_ENV_PLUGIN=libsymtuner.so
    names libsymtuner.so 2.27.3
    names libsymtuner.so 2.28.9 LD_LIBRARY_PATH="$venv/lib"
fi
plant env-plugin-too-old -n 2.28.3 NCCL_ENV_PLUGIN=libsymtuner.so
plant profiler-missing SYMTUNER_LEDGER=/tmp/ledger
spare profiler-missing SYMTUNER_LEDGER=/tmp/ledger NCCL_PROFILER_PLUGIN=libsymtuner.so
plant ledger-folder SYMTUNER_LEDGER=/nosuch/l
evidence ledger-folder 'there is no folder /home/[^%/]*/"' SYMTUNER_LEDGER=/home/%h/%p.ledger
plant ledger-folder -s ': > home/file' SYMTUNER_LEDGER=/home/file/l
spare ledger-folder -s 'mkdir home/%' SYMTUNER_LEDGER=/home/%%/l
for ledger in /home/l /l ''; do spare ledger-folder "SYMTUNER_LEDGER=$ledger"; done
plant ldcache-stale -s 'echo empty > etc/ld.so.cache'
spare ldcache-stale -s 'mkdir opt; mv usr/local/lib/libsymtuner.so opt' LD_LIBRARY_PATH=/opt
spare ldcache-stale -s 'mv usr/local/lib/libsymtuner.so usr/lib64'
evidence rules-unread 'SYMTUNER_RULES: .*/home/none.rules: No such file or directory"' SYMTUNER_RULES=/home/none.rules
evidence rules-unread 'none.rules: .*; NCCL_TUNER_CONFIG_FILE: .*/home: Is a directory' SYMTUNER_RULES=/home/none.rules NCCL_TUNER_CONFIG_FILE=/home
spare rules-wrong SYMTUNER_RULES=/home/none.rules
spare csv-wrong NCCL_TUNER_CONFIG_FILE=/home/none.csv
spare rules-unread -s 'echo "[rule" > home/a.rules' SYMTUNER_RULES=/home/a.rules
plant rules-wrong -s 'echo "[rule" > home/a.rules' SYMTUNER_RULES=/home/a.rules
evidence rules-unread 'a pipe or a device' -s 'mkfifo home/a.rules' SYMTUNER_RULES=/home/a.rules
plant rule-wrong SYMTUNER_RULE='allredcue prefer=symmetric'
plant rules-lint -s 'printf "[rule a]\nprefer = symmetric\n[rule b]\nprefer = leave\n" > home/a.rules' SYMTUNER_RULES=/home/a.rules
plant rules-misfit -s 'printf "[provenance]\nnccl = 2.30..\n[rule a]\nprefer = symmetric\n" > home/a.rules' SYMTUNER_RULES=/home/a.rules
plant csv-wrong -s 'echo allredcue,0,1,ring,ll,1,1,1 > home/a.csv' NCCL_TUNER_CONFIG_FILE=/home/a.csv
plant nccl-missing -s 'rm usr/lib64/libnccl.so.2'
plant nccl-no-symmetric -n 2.26.5
plant nccl-unknown -n 2.40.1
plant nccl-ll-unaligned -n 2.27.3
plant nccl-ll-unaligned -n 2.29.7
spare nccl-ll-unaligned -n 2.30.7
plant nccl-no-wait -n 2.28.3
plant nccl-no-wait -n 2.28.9
spare nccl-no-wait -n 2.30.7
plant nccl-ll-dropped -n 2.29.2
plant nccl-ll-void -n 2.31.2
plant nccl-avg -n 2.30.7
plant nccl-avg -n 2.32.6
spare nccl-avg -n 2.29.7
plant nccl-pat-avg -n 2.31.2
plant nccl-pat-avg -n 2.32.6
spare nccl-pat-avg -n 2.30.7
plant nccl-one-rank -n 2.28.9
spare nccl-one-rank -n 2.29.7
plant nccl-xla-pool -n 2.30.7
spare nccl-xla-pool -n 2.31.2
plant nccl-two-copies -s 'd=home/.local/lib/python3.12/site-packages/nvidia/nccl/lib; mkdir -p $d; cp '"$work"'/nccl/2.28.9 $d/libnccl.so.2'
plant driver-too-old -s 'echo "Kernel Module  535.54.03  x" > proc/driver/nvidia/version; rm usr/lib64/libcuda.so.580.159.04'

# ---- the drop-in (stderr is dropped: the loader of this test does not find the box's files) ------
drop='lib opt/libsymtuner_nccl.so "int ncclAllReduce, dlsym;"; : > opt/libsymtuner_ar.so'
other='lib opt/libother.so "int ncclAllReduce;"; lib opt/libdl.so "int dlsym;"; lib opt/libplain.so "int plain;"'
own=/opt/libsymtuner_nccl.so
{
    plant dropin-not-loaded LD_PRELOAD=$own
    plant dropin-not-loaded -s 'mkdir opt; echo text > opt/libsymtuner_nccl.so' LD_PRELOAD=/opt/libother.so:$own
    evidence dropin-not-loaded '/etc/ld.so.preload names /none/libsymtuner_nccl.so' \
        -s 'printf "/lib/a.so /lib/b.so\n/none/libsymtuner_nccl.so\n" > etc/ld.so.preload'
    spare dropin-not-loaded -s "$drop" LD_PRELOAD=$own
    spare dropin-not-loaded LD_PRELOAD=/opt/libother.so
    plant dropin-nccl-old -n 2.27.7 -s "$drop" LD_PRELOAD=$own
    spare dropin-nccl-old -n 2.28.3 -s "$drop" LD_PRELOAD=$own
    spare dropin-nccl-old -n 2.27.7
    plant dropin-no-kernels -s "$drop; rm opt/libsymtuner_ar.so" LD_PRELOAD=$own
    spare dropin-no-kernels -s "$drop" LD_PRELOAD=$own
    spare dropin-no-kernels -s "$drop; mv opt/*.so usr/lib64" LD_PRELOAD=libsymtuner_nccl.so
    evidence dropin-hidden '/opt/libother.so (LD_PRELOAD) defines ncclAllReduce' -s "$drop; $other" LD_PRELOAD="/opt/libother.so $own"
    evidence dropin-hidden '/opt/libdl.so (LD_PRELOAD) defines dlsym' -s "$drop; $other" LD_PRELOAD=/opt/libplain.so:/opt/libdl.so:$own
    spare dropin-hidden -s "$drop; $other" LD_PRELOAD=/opt/libplain.so:$own:/opt/libdl.so:/opt/libother.so
    plant dropin-hides -s "$drop; $other" LD_PRELOAD=$own:/opt/libother.so
    spare dropin-hides -s "$drop; $other" LD_PRELOAD=/opt/libother.so:$own:/opt/libdl.so
    spare dropin-hides -s "$other" LD_PRELOAD=/opt/libother.so
    if [ "$(id -u)" = 0 ]; then
        plant dropin-ignored -s "$drop; mkdir usr/bin; : > usr/bin/python3; chown 65534 usr/bin/python3; chmod 4755 usr/bin/python3" LD_PRELOAD=$own
    else
        planted="$planted dropin-ignored "
    fi
    spare dropin-ignored -s "$drop; mkdir usr/bin; : > usr/bin/python3; chmod 4755 usr/bin/python3" LD_PRELOAD=$own
    rm -rf "$work/box" && cp -r "$clean" "$work/box" && (cd "$work/box" && eval "$drop")
    doctor "$work/box" -- LD_PRELOAD=$own | grep -q '^ "dropin": "/opt/libsymtuner_nccl.so",$' ||
        { echo "FAIL the doctor does not say which drop-in is loaded"; failed=1; }
    said() { env -i "$@" "$symtuner" doctor --root "$work/box" | grep -q '^ *SYMTUNER_AR_IPC=auto: two ranks '; }
    said LD_PRELOAD=$own SYMTUNER_AR_IPC=auto || { echo "FAIL the doctor does not say what SYMTUNER_AR_IPC=auto does"; failed=1; }
    ! said LD_PRELOAD=$own SYMTUNER_AR_IPC=1 || { echo "FAIL the doctor speaks of SYMTUNER_AR_IPC=auto, which is not set"; failed=1; }
    doctor "$work/box" | grep -q '^ "dropin": null,$' || { echo "FAIL the doctor names a drop-in that is not preloaded"; failed=1; }
} 2> /dev/null

# ---- which NCCL: what jax and torch of this python3 would load -----------------------------------
. "$(dirname "$0")/doctor_python.sh"

# ---- findings that the user knows ----------------------------------------------------------------
# accepted NAME STATUS IDS ARGUMENT [NAME=VALUE]: run the doctor with the option ARGUMENT on a box
# with NCCL 2.28.9 and two warnings. It must exit with STATUS, and mark the findings IDS as
# accepted.
rm -rf "$work/box" && cp -r "$clean" "$work/box"
cp "$work/nccl/2.28.9" "$work/box/usr/lib64/libnccl.so.2"
accepted() {
    name=$1 wanted=$2 which=$3 arguments=$4
    shift 4
    out=$(doctor "$work/box" $arguments -- "$@" 2> "$work/err")
    status=$?
    [ $status = "$wanted" ] || { echo "FAIL accept: $name: exit status $status"; failed=1; }
    got=$(echo "$out" | sed -n 's/.*{"id": "\([a-z0-9-]*\)".*"accepted": true.*/\1/p' | tr '\n' ' ')
    [ "$got" = "$which" ] || { echo "FAIL accept: $name: \"$got\" are accepted, not \"$which\""; failed=1; }
}
accepted without 1 "" ""
accepted one 0 "nccl-no-wait " "--accept nccl-no-wait"
accepted variable 0 "nccl-no-wait " "" SYMTUNER_DOCTOR_ACCEPT=nccl-no-wait
accepted case 0 "nccl-no-wait " "" SYMTUNER_DOCTOR_ACCEPT=NCCL-No-Wait,
accepted of-two 1 "nccl-no-wait " "--accept nccl-no-wait" SYMTUNER_MODE=observe
accepted two 0 "mode-off nccl-no-wait " "--accept nccl-no-wait,mode-off" SYMTUNER_MODE=observe
accepted both 0 "mode-off nccl-no-wait " "--accept nccl-no-wait" SYMTUNER_MODE=observe SYMTUNER_DOCTOR_ACCEPT=mode-off
accepted an-error 0 "win-disabled nccl-no-wait " "--accept nccl-no-wait,win-disabled" NCCL_WIN_ENABLE=0
accepted not-there 0 "nccl-no-wait " "--accept acs-on,nccl-no-wait"
accepted unknown 2 "" "--accept nccl-no-wiat"
grep -q '^symtuner doctor: --accept: no finding is called "nccl-no-wiat"; did you mean nccl-no-wait?$' "$work/err" || { echo "FAIL accept: unknown: $(cat "$work/err")"; failed=1; }
accepted unknown-variable 2 "" "" SYMTUNER_DOCTOR_ACCEPT=nccl-no-wait,xx
grep -q '^symtuner doctor: SYMTUNER_DOCTOR_ACCEPT: no finding is called "xx"; symtuner doctor --list names them' "$work/err" || { echo "FAIL accept: unknown-variable: $(cat "$work/err")"; failed=1; }
env -i PATH="$PATH" NCCL_TUNER_PLUGIN=libsymtuner.so "$symtuner" doctor --root "$work/box" --accept nccl-no-wait |
    grep -q '^accepted nccl-no-wait (warning)$' || { echo "FAIL accept: the text does not say so"; failed=1; }

# ---- the box -------------------------------------------------------------------------------------
plant driver-missing -s 'rm proc/driver/nvidia/version'
plant driver-mismatch -s ': > usr/lib64/libcuda.so.570.10.01'
# The container toolkit adds the folder of CUDA's forward compatibility. The libcuda there also
# works with older drivers, so it is no mismatch if it is newer than the kernel module.
compat='mkdir -p usr/local/cuda/compat; echo /usr/local/cuda/compat > etc/ld.so.conf.d/00-compat.conf; : > usr/local/cuda/compat'
spare driver-mismatch -s "$compat/libcuda.so.590.44.01"
plant driver-mismatch -s "$compat/libcuda.so.570.86.15"
plant driver-mismatch -s ': > usr/lib64/libcuda.so.590.44.01'
plant uvm-missing -s 'rm dev/nvidia-uvm'
plant fabric-manager -s 'mkdir -p proc/driver/nvidia-nvswitch/devices run/systemd/system'
# a container has no systemd, so the doctor does not look for the fabric manager in it
spare fabric-manager -s 'mkdir -p proc/driver/nvidia-nvswitch/devices run'
spare fabric-manager -s 'mkdir -p run/systemd/system'
spare fabric-manager -s 'mkdir -p proc/driver/nvidia-nvswitch/devices run/systemd/system run/nvidia-fabricmanager; : > run/nvidia-fabricmanager/nv-fabricmanager.pid'
plant iommu-translates -s 'echo DMA-FQ > sys/bus/pci/devices/0000:02:00.0/iommu_group/type'
plant acs-on -s '{ head -c 256 /dev/zero; printf "\015\000\001\000\000\000\035\000"; head -c 64 /dev/zero; } > sys/bus/pci/devices/0000:00:01.0/config'
plant shm-small -s 'echo "shm /dev/shm tmpfs rw,nosuid,size=65536k 0 0" > proc/mounts'
plant memlock-low -s 'mkdir -p sys/class/infiniband; echo "Max locked memory         65536                65536                bytes" > proc/self/limits'
plant p2p-module-off -s 'echo "RegistryDwords: ForceP2P=0x11" > proc/driver/nvidia/params'
plant numa-balancing -s 'echo 1 > proc/sys/kernel/numa_balancing'

# ---- nothing forgotten, nothing slow -------------------------------------------------------------
gpu=" gpu-fails gpus-differ peer-missing write-lost peer-staged write-collapse slow-pair window-null window-failed multicast-unused "
for id in $("$symtuner" doctor --list | sed -n 's/^| `\([a-z0-9-]*\)` .*/\1/p'); do
    case $planted$gpu in *" $id "*) ;; *) echo "FAIL no fault is planted for $id"; failed=1 ;; esac
    grep -q "\`$id\`" docs/reference/findings.md || { echo "FAIL docs/reference/findings.md does not name $id"; failed=1; }
done
[ -z "$python" ] || "$python" test/nccl/hazards.py "$symtuner" || failed=1
start=$(date +%s)
env -i "$symtuner" doctor --no-gpu > /dev/null
[ $(($(date +%s) - start)) -le 2 ] || { echo "FAIL doctor --no-gpu takes more than 2 s"; failed=1; }
echo "doctor: $count faults planted, $(echo "$planted" | tr ' ' '\n' | sort -u | grep -c .) findings"
[ -n "$python" ] || { echo "doctor: no python3 here: what jax and torch load was not tested"; [ $failed = 1 ] || exit 77; }
exit $failed

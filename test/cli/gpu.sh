#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gpu.sh BUILD - runs doctor, tune and bench on GPUs made of host memory (test/cli/fake_gpu.h). It
# plants faults for the findings about GPUs, interrupts and resumes a tune run, and checks that the
# commands notice wrong results and hangs. It says nothing about real GPUs; test/gpu/doctor.sh and
# test/gpu/tune.sh do.
# Exit 0: all right. 1: something failed. 77: no C compiler here to make the libraries with.

set -u
build=$(cd "$1" && pwd)
cc=${CC:-cc}
command -v "$cc" > /dev/null || { echo "gpu.sh: skipped, no $cc here"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 passed=0
ok() { # ok WHAT STATUS: counts a check, which has failed unless STATUS is 0
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else echo "FAIL $1"; failed=$((failed + 1)); fi
}
json() { # json WHAT FILE: checks the file only if python3 is here, since a fresh Debian has none
    if command -v python3 > /dev/null; then
        cp "$2" "$work/parsed.json" && python3 test/cli/parse.py "$work/parsed.json"
        ok "$1" $?
    else
        echo "skip $1: python3 is not here"
    fi
}

fake="$cc -O3 -shared -fPIC -fvisibility=hidden -pthread"
selection=$(ls kernels/choose/*.c 2> /dev/null) # fake_ar.c calls these files, which need no CUDA
mkdir "$work/bin" && cp "$build/symtuner" "$work/bin/"
$fake -I. -DFAKE_CUDA -o "$work/bin/libcuda.so.1" test/cli/fake_gpu.c &&
    $fake -I. -DFAKE_NCCL -o "$work/bin/libnccl.so.2" test/cli/fake_gpu.c &&
    $fake -I. -DFAKE_CUBLAS -o "$work/bin/libcublas.so.12" test/cli/fake_gpu.c &&
    $fake -D_GNU_SOURCE -Iinclude -I. -o "$work/bin/libsymtuner_ar.so" test/cli/fake_ar.c $selection \
        base/open_file.c nccl/*.c rules/*.c -ldl || exit 1
cp "$build/libsymtuner.so" "$work/bin/"

# A python3 without packages, because the fake GPUs do not run with a real NCCL that torch or jax of
# this machine would load.
mkdir "$work/py" && printf '#!/bin/sh\n' > "$work/py/python3" && chmod +x "$work/py/python3"
run() { # run NAME=VALUE ... COMMAND: runs COMMAND in an environment of its own
    env -i PATH="$work/py:$PATH" LC_ALL=C LD_LIBRARY_PATH="$work/bin" \
        SYMTUNER_MACHINE='gpu=NVIDIA Fake; links=nvlink; multicast=no' ASAN_OPTIONS=detect_leaks=0 "$@"
}
symtuner=$work/bin/symtuner

# ---- doctor --------------------------------------------------------------------------------------
ids() { sed -n 's/.*{"id": "\([a-z0-9-]*\)".*/\1/p'; }
about_gpus='^(gpu-fails|gpus-differ|peer-missing|write-lost|peer-staged|write-collapse|slow-pair|window-null|window-failed|multicast-unused)$'
doctor() { run FAKE_GPUS=3 "$@" "$symtuner" doctor --json; }
found=$(doctor | ids | grep -E "$about_gpus")
[ -z "$found" ]
ok "doctor: nothing is wrong with good GPUs, found: $found" $?
run "$symtuner" doctor | grep -q '^kernel stores, GB/s'
ok "doctor: the table of pairs is printed" $?
for id in gpu-fails gpus-differ peer-missing write-lost peer-staged write-collapse slow-pair window-null window-failed; do
    doctor FAKE_FAULT=$id | sed -n "s/.*{\"id\": \"$id\".*\"evidence\": \"\([^\"]*\)\".*/$id: \1/p"
done > "$work/evidence"
diff -u - "$work/evidence" << 'X'
gpu-fails: GPU 0: no context, memory or kernel
gpus-differ: GPU 0 is NVIDIA Fake, GPU 1 is NVIDIA Other
peer-missing: GPU 0 to 1, 1 to 0
write-lost: what GPU 0 wrote by copy engine into GPU 1's memory is not what was read there
peer-staged: GPU 0 to 1: kernels 20.0 GB/s, copy engine 390.0 GB/s
write-collapse: GPU 0 to 1: stores 50.0 GB/s, loads 350.0 GB/s
slow-pair: GPU 0 to 1: 60.0 GB/s, the median pair has 390.0
window-null: ncclCommWindowRegister on all 3 GPUs: success, and a NULL window
window-failed: registering a window: comm_init: fake NCCL error
X
ok "doctor: each fault is found, and what shows it is named" $?
doctor FAKE_FAULT=write-lost-engine | ids | grep -qx write-lost
ok "doctor: bytes that the copy engine loses are found" $?
doctor FAKE_FAULT=peers-full | grep '"id": "peer-missing"' | grep -q 'GPU 0 to 1, 1 to 0'
ok "doctor: a GPU that the driver takes no further peer for is named" $?
doctor NCCL_NVLS_ENABLE=0 | ids | grep -qx multicast-unused
ok "doctor: multicast-unused is found" $?
doctor FAKE_FAULT=init | grep -q '"not_checked": \["GPUs: the CUDA driver does not start'
ok "doctor: a driver that does not start is named, not a finding" $?
# a GPU or a driver that hangs must not hang the doctor
for fault in gpu-hangs driver-hangs driver-crashes; do
    run FAKE_GPUS=3 FAKE_FAULT=$fault timeout 60 "$symtuner" doctor --gpu-limit 2 > "$work/hang" 2> /dev/null
    [ $? = 1 ] && sed -n '/^error    gpu-fails/{n;s/^ */'$fault': /p;}' "$work/hang"
done > "$work/evidence"
diff -u - "$work/evidence" << 'X'
gpu-hangs: GPU 1 to 0: no answer within 2 s
driver-hangs: the driver: no answer within 2 s
driver-crashes: GPU 0 to 1: the measuring process ended by signal 6
X
ok "doctor: it ends although a GPU or the driver hangs, and says which" $?

# ---- tune ----------------------------------------------------------------------------------------
tune() { run "$@" "$symtuner" tune --bytes 1KiB..4MiB --out "$work/a.rules"; }
tune FAKE_GPUS=2 > "$work/tune.out" 2> "$work/tune.err"
ok "tune: exit status: $(tail -2 "$work/tune.err")" $?
"$symtuner" check "$work/a.rules" > /dev/null
ok "tune: its rules are legal and without findings" $?
grep -q '^sym-ctas  = ' "$work/a.rules" && grep -q '^gpu       = NVIDIA Fake' "$work/a.rules"
ok "tune: the rules name a CTA count and the GPU" $?
[ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' "$work/tune.out")" -le 104 ]
ok "tune: the table fits 100 columns (some characters have two bytes)" $?
grep -q '</html>' "$work/a.rules.html" && ! grep -qE '(src|href)=|https?://' "$work/a.rules.html"
ok "tune: the report is complete and refers to nothing else" $?
! command -v python3 > /dev/null || python3 test/cli/parse.py "$work/a.rules.html" "$work/a.rules.csv"
ok "tune: parsers of HTML and CSV read what it wrote" $?
[ "$(grep -c '^done,' "$work/a.rules.csv")" = 18 ]
ok "tune: 3 rounds of 6 settings are in the raw data" $?
cp "$work/a.rules" "$work/whole.rules"
cp "$work/a.rules.csv" "$work/whole.csv"

! grep -q '^kernel  *= [^n]' "$work/a.rules" && [ "$(grep -c ',5,allreduce,.*,1024,' "$work/a.rules.csv")" -ge 6 ]
ok "tune: no rule for a kernel where the library's own choice is as good as the others" $?

for one in one two; do
    conf= && [ $one = one ] || conf=FAKE_CONF=1
    run FAKE_NOISE=0 $conf "$symtuner" tune --bytes 1MiB..2MiB --out "$work/$one.rules" > /dev/null 2>&1
    sed '/^# date/d; $d' "$work/$one.rules.csv" > "$work/$one"
done
[ -s "$work/one" ] && cmp -s "$work/one" "$work/two"
ok "tune: NCCL is measured without the plugin that an nccl.conf names" $?

# A user may have the drop-in preloaded everywhere. Even then, our kernels must not run where tune
# measures NCCL.
$cc -shared -fPIC -x c -o "$work/see.so" - << 'X' || exit 1
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void see(void)
{
    const char *comms = getenv("SYMTUNER_MAX_COMMS");
    FILE *file = fopen(getenv("SEEN"), "a");
    fprintf(file, "%s\n", comms ? comms : "unset");
    fclose(file);
}
X
run LD_PRELOAD="$work/see.so" SEEN="$work/seen" ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 \
    "$symtuner" tune --bytes 1KiB..2KiB --out "$work/seen.rules" > /dev/null 2>&1
[ "$(grep -c '^0$' "$work/seen")" = 18 ]
ok "tune: the drop-in has no communicator in any of 18 processes: $(sort "$work/seen" | uniq -c)" $?

# FAKE_BEST makes another kernel than the library's choice the fastest: tune must write rules for
# the library, and tune --verify must confirm them
run FAKE_GPUS=4 FAKE_BEST=two_ll128 "$symtuner" tune --bytes 1KiB..4MiB --out "$work/k.rules" > "$work/k.out" 2> "$work/k.err"
ok "tune: other kernels: exit status: $(tail -2 "$work/k.err")" $?
"$symtuner" check "$work/k.rules" > "$work/k.check" && grep -q '^kernel     = two_ll128' "$work/k.rules"
ok "tune: they are in the rules, without findings: $(head -3 "$work/k.check")" $?
grep -q '^64 KiB .* two_ll128/' "$work/k.out"
ok "tune: the table names the kernel" $?
[ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' "$work/k.out")" -le 104 ]
ok "tune: that table fits 100 columns, too" $?
run FAKE_GPUS=4 FAKE_BEST=two_ll128 "$symtuner" tune --bytes 1KiB..4MiB --out "$work/l.rules" > /dev/null 2>&1
verify() { run FAKE_GPUS=4 "$@" "$symtuner" tune --verify "$work/k.rules,$work/l.rules" 2> "$work/v.err" > "$work/v.out"; }
verify FAKE_BEST=two_ll128
ok "tune --verify: both runs' rules hold: $(tail -3 "$work/v.out")" $?
grep -q '^64 KiB  *[0-9.]* two_ll128/.* two_ll128/' "$work/v.out" && grep -q '^A and B against each other' "$work/v.out"
ok "tune --verify: what the library ran is named, and the two runs are compared" $?
[ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' "$work/v.out")" -le 100 ]
ok "tune --verify: the table fits 100 columns" $?
sed 's/^kernel     = two_ll128/kernel     = two_ll8/' "$work/k.rules" > "$work/m.rules" && cp "$work/k.rules.csv" "$work/m.rules.csv"
run FAKE_GPUS=4 FAKE_BEST=two_ll128 "$symtuner" tune --verify "$work/m.rules" > "$work/v.out" 2>&1
[ $? = 1 ] && grep -q '^A against the best.*TOO MUCH' "$work/v.out" && grep -q ' two_ll8/' "$work/v.out"
ok "tune --verify: rules that are slower are told" $?
sed 's/^gpu  .*/gpu       = NVIDIA Other/' "$work/k.rules" > "$work/m.rules"
run FAKE_GPUS=4 "$symtuner" tune --verify "$work/m.rules" 2>&1 | grep -q 'measured on another machine'
ok "tune --verify: rules of another box are refused" $?
run "$symtuner" tune --verify "$work/none.rules" 2>&1 | grep -q 'none.rules.csv: No such file'
ok "tune --verify: rules without raw data are named" $?

# kernel chunked is the fastest for all collectives: the rules must name it for each, tune --verify
# must confirm them, and the raw data alone must give the same rules
colls='allreduce reducescatter allgather'
run FAKE_GPUS=4 FAKE_BEST=chunked "$symtuner" tune --coll all --bytes 1KiB..8MiB --out "$work/e.rules" > "$work/e.out" 2>&1
ok "tune --coll all: exit status: $(tail -2 "$work/e.out")" $?
for coll in $colls; do
    [ "$(grep -c "^[012],5,$coll,chunked/[0-9/]*,1048576,[0-9.]*$" "$work/e.rules.csv")" -ge 3 ]
    ok "tune: symtuner's $coll is measured in several ways" $?
    awk -v coll=$coll '$1 == coll { table = 1 } table && $1 == "1" && $2 == "MiB" { print $0; exit }' "$work/e.out" | grep -q chunked/32/256
    ok "tune: the table of $coll names the kernel" $?
done
for coll in reducescatter allgather; do
    awk '/^\[/ { head = $0 } /^(coll|op) / { head = head " " $1 "=" $3 } /^kernel / { print head " " $3 }' "$work/e.rules" |
        grep -q "^\[kernels $coll-1\?[0-9]*[KM]iB\] coll=$coll $([ $coll = allgather ] || echo 'op=sum ')chunked$"
    ok "tune: a rule is for $coll" $?
done
! grep -q 'engines/' "$work/e.rules.csv"
ok "tune: kernels engines and tma_engines, which are for calls beside computation, are left out" $?
run "$symtuner" check "$work/e.rules" > "$work/e.check"
ok "tune: rules of three collectives are without findings: $(cat "$work/e.check")" $?
run FAKE_GPUS=4 FAKE_BEST=chunked "$symtuner" tune --verify "$work/e.rules" > "$work/v.out" 2> "$work/v.err"
ok "tune --verify: they hold: $(tail -2 "$work/v.out")" $?
[ "$(grep -cE '^(allreduce|reducescatter|allgather)$' "$work/v.out")" = 3 ] && [ "$(grep -c '^1 MiB .* chunked/32/256' "$work/v.out")" = 3 ]
ok "tune --verify: it has a table for each collective" $?
cp "$work/e.rules.csv" "$work/m.rules.csv"
awk '/^\[/ { gather = 0 } /^coll .*allgather/ { gather = 1 } gather { sub(/= chunked/, "= one_ll8") } 1' "$work/e.rules" > "$work/m.rules"
run FAKE_GPUS=4 FAKE_BEST=chunked "$symtuner" tune --verify "$work/m.rules" > "$work/v.out" 2>&1
[ $? = 1 ] && grep -q '^A against the best.*(allgather of [0-9]* [KM]iB).*TOO MUCH' "$work/v.out"
ok "tune --verify: rules that are slower for one collective are told: $(tail -1 "$work/v.out")" $?
run "$symtuner" tune --from "$work/e.rules.csv" --out "$work/f.rules" > /dev/null 2>&1
grep -v '^#' "$work/e.rules" > "$work/one" && grep -v '^#' "$work/f.rules" > "$work/two" && cmp -s "$work/one" "$work/two"
ok "tune --from: the same rules for three collectives" $?
run "$symtuner" tune --from "$work/e.rules.csv" --ledger test/data/ledger/mix.ledger --out "$work/f.rules" > "$work/e.txt" 2> /dev/null &&
    run "$symtuner" tune --from "$work/e.rules.csv" --ledger test/data/ledger/mix.ledger --out "$work/f.rules" --json > "$work/e.json" 2> /dev/null
ok "tune --from --ledger: three collectives" $?
! command -v python3 > /dev/null || python3 test/cli/gain.py "$work/e.rules.csv" test/data/ledger/mix.ledger "$work/e.json" "$work/e.txt"
ok "tune: the gain counts our kernels of every collective" $?
# raw data of earlier versions have ways (kernel, blocks, threads) of all-reduces only
sed -e 's/ own=3 / own=2 /' -e '/^[0-9],5,allreduce/!{/^[0-9],5,/d}' -e '/^done,[0-9],5,[^a]/d' -e '/^done,[0-9],5,allg/d' "$work/e.rules.csv" > "$work/old.csv"
run "$symtuner" tune --from "$work/old.csv" --out "$work/f.rules" > /dev/null 2> "$work/f.err" && grep -q '^\[kernels 1MiB\]' "$work/f.rules" && ! grep -q '^coll ' "$work/f.rules"
ok "tune --from: raw data with ways of all-reduces only: $(tail -1 "$work/f.err")" $?
sed '/^done,2,5,allgather/d' "$work/e.rules.csv" > "$work/cut.csv"
run "$symtuner" tune --from "$work/cut.csv" --out "$work/x.rules" 2>&1 | grep -q '53 of 54\|1 of 54 measurements are missing'
ok "tune --from: ways of one collective are missing" $?

run FAKE_SLEEP_MS=200 "$symtuner" tune --bytes 1KiB..2KiB --budget 6 --out "$work/t.rules" > "$work/t.out" 2>&1
rounds=$(sed -n 's/^# plan .*rounds=\([0-9]\).*/\1/p' "$work/t.rules.csv")
[ "$rounds" -ge 3 ] && [ "$rounds" -lt 9 ] && [ "$(grep -c '^done,' "$work/t.rules.csv")" = $((6 * rounds)) ]
ok "tune --budget: $rounds whole rounds of 1.3 s or more in 6 s" $?
run "$symtuner" tune --bytes 1KiB..2KiB --budget 6 --out "$work/t.rules" 2>&1 | grep -q "$((6 * rounds)) of $((6 * rounds)) measurements are there already"
ok "tune --budget: the same command again has nothing left to do" $?
for type in f32 f16; do
    run FAKE_GPUS=4 FAKE_BEST=two_ll128 "$symtuner" tune --bytes 32KiB..64KiB --dtype $type --out "$work/$type.rules" > "$work/d.out" 2>&1
    ok "tune: $type: $(tail -1 "$work/d.out")" $?
    grep -q "^dtype      = $type" "$work/$type.rules"
    ok "tune: $type is in the rules" $?
done
run FAKE_GPUS=4 "$symtuner" tune --bytes 32KiB..64KiB --out "$work/f32.rules" 2>&1 | grep -q 'another plan; --fresh'
ok "tune: another type is another plan" $?

# tune --from must make the same rules from the raw data alone
run "$symtuner" tune --from "$work/whole.csv" --out "$work/again.rules" > /dev/null 2>&1
grep -v '^#' "$work/whole.rules" > "$work/one" && grep -v '^#' "$work/again.rules" > "$work/two"
cmp -s "$work/one" "$work/two"
ok "tune --from: the same rules" $?
run "$symtuner" tune --json --from "$work/whole.csv" --out "$work/again.rules" 2> /dev/null > "$work/t.json"
json "tune --json is JSON" "$work/t.json"

# a tune run is interrupted, then resumed
rm -f "$work"/a.rules*
env -i PATH="$work/py:$PATH" LD_LIBRARY_PATH="$work/bin" FAKE_SLEEP_MS=400 ASAN_OPTIONS=detect_leaks=0 \
    SYMTUNER_MACHINE='gpu=NVIDIA Fake; links=nvlink; multicast=no' \
    "$symtuner" tune --bytes 1KiB..4MiB --out "$work/a.rules" > /dev/null 2> "$work/stop.err" &
pid=$!
sleep 2
kill -INT $pid
wait $pid
[ $? = 1 ] && grep -q 'goes on from here' "$work/stop.err" && [ ! -e "$work/a.rules" ]
ok "tune: an interrupt stops it, and it says how to go on" $?
before=$(grep -c '^done,' "$work/a.rules.csv")
[ "$before" -gt 0 ] && [ "$before" -lt 18 ]
ok "tune: $before of 18 measurements were kept" $?
tune > /dev/null 2> "$work/resume.err"
ok "tune: the resumed run ends well" $?
grep -q "$before of 18 measurements are there already" "$work/resume.err"
ok "tune: it did not start over" $?
grep -v '^#' "$work/a.rules" > "$work/two"
cmp -s "$work/one" "$work/two"
ok "tune: interrupted and resumed, it gives the same rules" $?

# tune must refuse each of these calls
run "$symtuner" tune --bytes 1KiB..8MiB --out "$work/a.rules" 2>&1 | grep -q 'another plan; --fresh'
ok "tune: another plan is not mixed in" $?
sed 's/^\(0,0,allreduce,general,1024,\).*/\1-3/' "$work/whole.csv" > "$work/bad.csv"
run "$symtuner" tune --from "$work/bad.csv" --out "$work/x.rules" 2>&1 | grep -q 'bad.csv:[0-9]*: not a time'
ok "tune --from: a wrong number is named with its line" $?
sed 's/^0,0,allreduce,general,1024,.*/&x/' "$work/whole.csv" > "$work/bad.csv"
run "$symtuner" tune --from "$work/bad.csv" --out "$work/x.rules" 2>&1 | grep -q 'bad.csv:[0-9]*: not a measurement'
ok "tune --from: what follows a number is named" $?
sed 's/^0,0,allreduce,general,1024,.*/&'"$(printf '%01100d' 0)/" "$work/whole.csv" > "$work/bad.csv"
run "$symtuner" tune --from "$work/bad.csv" --out "$work/x.rules" 2>&1 | grep -q 'bad.csv:[0-9]*: a line that is too long'
ok "tune --from: a long line is named" $?
head -40 "$work/whole.csv" > "$work/cut.csv"
run "$symtuner" tune --from "$work/cut.csv" --out "$work/x.rules" 2>&1 | grep -q 'measurements are missing'
ok "tune --from: half a run is refused" $?
run FAKE_FAULT=wrong-result "$symtuner" tune --bytes 1KiB..8KiB --out "$work/w.rules" > /dev/null 2> "$work/w.err"
[ $? = 1 ] && grep -q 'wrong result: element 0' "$work/w.err" && [ ! -e "$work/w.rules" ]
ok "tune: a wrong result ends it without rules: $(tail -1 "$work/w.err")" $?
run FAKE_FAULT=window-null "$symtuner" tune --bytes 1KiB..8KiB --out "$work/w.rules" --fresh 2>&1 | grep -q 'NULL window'
ok "tune: a NULL window is named" $?
for call in create reserve register; do
    run FAKE_FAULT=ar-$call "$symtuner" tune --bytes 1KiB..8KiB --out "$work/w.rules" --fresh > "$work/w.err" 2>&1
    [ $? = 1 ] && grep -q "symtuner_ar_$call: fake" "$work/w.err" && [ ! -e "$work/w.rules" ]
    ok "tune: symtuner_ar_$call that fails ends it: $(tail -1 "$work/w.err")" $?
done
run FAKE_GPUS=1 "$symtuner" tune > /dev/null 2>&1
[ $? = 77 ]
ok "tune: one GPU is exit status 77" $?
run "$symtuner" tune --coll allgather,reducescatter --bytes 1KiB..64KiB --no-kernels --fresh --out "$work/b.rules" > "$work/b.out" 2>&1
ok "tune: gathers and scatters: $(tail -1 "$work/b.out")" $?
run FAKE_GPUS=3 "$symtuner" tune --coll allgather,reducescatter,allreduce --bytes 256..4KiB --fresh --out "$work/c.rules" > "$work/c.out" 2>&1
ok "tune: three ranks: $(tail -1 "$work/c.out")" $?

# ---- tune and bench beside GEMMs -----------------------------------------------------------------
# alone, calls on 64 CTAs are the fastest, but calls on more than FAKE_FREE CTAs slow down GEMMs
beside() { # beside OUT NAME=VALUE ...: runs tune --beside, which writes OUT.rules
    out=$work/$1.rules && shift
    run "$@" "$symtuner" tune --beside --bytes 4MiB..16MiB --force --out "$out" > "$work/g.out" 2> "$work/g.err"
}
ctas_of() { sed -n 's/^sym-ctas  = //p' "$work/$1.rules"; }
run "$symtuner" tune --bytes 4MiB..16MiB --out "$work/g.rules" > /dev/null 2>&1
[ "$(ctas_of g)" = 64 ] && ! grep -q GEMM "$work/g.rules"
ok "tune: 64 CTAs are the best alone: $(ctas_of g)" $?
beside g
ok "tune --beside: exit status: $(tail -1 "$work/g.err")" $?
grep -q '18 of 39 measurements are there already' "$work/g.err" && grep -q 'beside GEMMs: about [0-9]*:[0-9][0-9] ' "$work/g.err"
ok "tune --beside: it completes a run without it, and says how long that takes" $?
[ "$(grep -c '^done,' "$work/g.rules.csv")" = 39 ] && [ "$(grep -c '^done,[012],28,' "$work/g.rules.csv")" = 3 ]
ok "tune --beside: 3 rounds of 6 settings alone, 6 beside GEMMs and A/A are in the raw data" $?
[ "$(ctas_of g)" = 16 ] && grep -q '^# 64 CTAs are faster alone, but the rules do not set them:$' "$work/g.rules"
ok "tune --beside: the rules have the CTA count that holds in both: $(ctas_of g)" $?
grep -q '^# beside GEMMs one allreduce of 16 MiB adds [0-9.]* us, with NCCL.s own count [0-9.]* us$' "$work/g.rules"
ok "tune --beside: they say why not another" $?
run "$symtuner" check "$work/g.rules" > "$work/g.check"
ok "tune --beside: the rules are without findings: $(cat "$work/g.check")" $?
awk '/^\[/ { head = $0 } /^when-beside/ { head = head " " $3 } /^ctas/ { print head " " $3 }' "$work/g.rules" |
    grep -q '^\[kernels 4MiB-compute\] compute \(8\|16\)$'
ok "tune --beside: calls beside GEMMs get a kernel with few CTAs" $?
grep -q '^16 MiB .* 0\.[0-9][0-9]  nccl/0/0$' "$work/g.out" && [ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' "$work/g.out")" -le 104 ]
ok "tune --beside: the table fits 100 columns" $?
# a fake GEMM of 8192 rows takes 1571 us, so eight of them take 12.6 ms
awk -F, '$2 == 15 && $4 == "gemms" { n++; if ($6 < 12000 || $6 > 13500) bad++ } END { exit !(n == 9 && !bad) }' "$work/g.rules.csv"
ok "tune --beside: the GEMMs take about 12 ms" $?
! command -v python3 > /dev/null || python3 test/cli/parse.py "$work/g.rules.html" "$work/g.rules.csv"
ok "tune --beside: parsers of HTML and CSV read what it wrote" $?
run "$symtuner" tune --from "$work/g.rules.csv" --json --out "$work/h.rules" > "$work/h.json" 2> /dev/null
grep -v '^#' "$work/g.rules" > "$work/one" && grep -v '^#' "$work/h.rules" > "$work/two" && cmp -s "$work/one" "$work/two"
ok "tune --from: the same rules beside GEMMs" $?
json "tune --beside --json is JSON" "$work/h.json"
sed '/^done,2,20,/d' "$work/g.rules.csv" > "$work/cut.csv"
run "$symtuner" tune --from "$work/cut.csv" --out "$work/x.rules" 2>&1 | grep -q '1 of 39 measurements are missing'
ok "tune --from: a unit beside GEMMs is missing" $?
grep -v -e '^done,2,20,' -e '^# symtuner wrote' "$work/g.rules.csv" > "$work/i.rules.csv"
beside i
grep -q '38 of 39 measurements are there already' "$work/g.err" && [ "$(grep -c '^done,' "$work/i.rules.csv")" = 39 ]
ok "tune --beside: an interrupted run goes on: $(tail -1 "$work/g.err")" $?
run "$symtuner" tune --bytes 4MiB..16MiB --out "$work/i.rules" 2>&1 | grep -q 'another plan; --fresh'
ok "tune: without --beside it does not drop what was measured beside GEMMs" $?
sed 's/^\(0,15,allreduce,general,4194304,\).*/\1nan/' "$work/g.rules.csv" > "$work/bad.csv"
run "$symtuner" tune --from "$work/bad.csv" --out "$work/x.rules" 2>&1 | grep -q 'bad.csv:[0-9]*: not a time'
ok "tune --from: a figure that is no number" $?
run "$symtuner" tune --bytes 4MiB..4MiB --out "$work/j.rules" > /dev/null 2>&1
run FAKE_FREE=132 "$symtuner" tune --beside --bytes 4MiB..4MiB --fresh --out "$work/k.rules" > "$work/k.out" 2>&1
[ "$(ctas_of k)" = 64 ] && ! grep -q 'faster alone' "$work/k.rules" && grep -q 'Beside GEMMs it is at no size' "$work/k.rules"
ok "tune --beside: where calls cost GEMMs nothing, 64 CTAs stay: $(tail -1 "$work/k.out")" $?
! grep '^ctas' "$work/k.rules" "$work/j.rules" | grep -v 128
ok "tune --beside: and no kernel is chosen for having few CTAs" $?
# kernel pull, on many CTAs, is the fastest alone, but not beside GEMMs; so the rules must name it
# only for calls that are known to run alone
run FAKE_BEST=pull FAKE_FREE=8 "$symtuner" tune --beside --bytes 8MiB..8MiB --out "$work/y.rules" > "$work/y.out" 2>&1
awk '/^\[/ { head = $0 } /^when-beside/ { $1 = $2 = ""; head = head $0 } /^kernel/ { print head " " $3 }' "$work/y.rules" > "$work/y"
grep -q '^\[kernels 8MiB-alone\]  alone pull$' "$work/y" && grep -q '^# 8 MiB *not for calls beside GEMMs' "$work/y.rules"
ok "tune --beside: a kernel that is slower beside GEMMs is for calls alone: $(cat "$work/y") $(tail -1 "$work/y.out")" $?

# libcublas.so.12 is an empty file here. Without it, the loader might find a real cuBLAS in its own
# folders.
mkdir "$work/none" && cp "$work"/bin/libcuda.so.1 "$work"/bin/libnccl.so.2 "$work/none" && : > "$work/none/libcublas.so.12"
cp "$work/g.rules.csv" "$work/g.keep"
for command in "tune --out $work/g.rules" bench; do
    run LD_LIBRARY_PATH="$work/none" "$symtuner" $command --beside --bytes 4MiB..16MiB > "$work/n.out" 2>&1
    [ $? = 77 ] && [ "$(wc -l < "$work/n.out")" = 1 ] && grep -q 'cannot measure beside GEMMs: .*libcublas.so.12: .*CUDA toolkit.*LD_LIBRARY_PATH' "$work/n.out"
    ok "${command%% *} --beside: a cuBLAS that is missing is named: $(cat "$work/n.out")" $?
done
cp "$work/bin/libcublas.so.12" "$work/none/libcublas.so.13"
for driver in 12080:77 13000:0; do
    run LD_LIBRARY_PATH="$work/none" FAKE_DRIVER=${driver%:*} "$symtuner" bench --beside --no-kernels --bytes 4MiB..4MiB > "$work/n.out" 2>&1
    [ $? = ${driver#*:} ]
    ok "bench --beside: cuBLAS 13 is for drivers of CUDA 13: ${driver%:*}: $(tail -1 "$work/n.out")" $?
done
run FAKE_FLOPS=100 "$symtuner" bench --beside --no-kernels --bytes 4MiB..4MiB --csv "$work/slow.csv" > /dev/null 2>&1
awk -F, '$4 == "gemms" { n++; if ($6 < 11000 || $6 > 13500) bad++ } END { exit !(n == 3 && !bad) }' "$work/slow.csv"
ok "bench --beside: slow GPUs multiply smaller matrices: $(grep gemms "$work/slow.csv" | head -1)" $?
cmp -s "$work/g.keep" "$work/g.rules.csv"
ok "tune --beside: without cuBLAS the earlier data stay" $?
run LD_LIBRARY_PATH="$work/none" "$symtuner" tune --bytes 4MiB..4MiB --out "$work/n.rules" > /dev/null 2>&1
ok "tune: it needs no cuBLAS" $?
for fault in cublas-create:cublasCreate:1 gemm:cublasGemmEx:13; do
    beside o FAKE_FAULT=${fault%%:*}
    [ $? = 1 ] && grep -q "$(echo "${fault#*:}" | sed 's/:/: status /')" "$work/g.err"
    ok "tune --beside: ${fault%%:*} fails: $(tail -1 "$work/g.err")" $?
    rm -f "$work"/o.rules*
done
for word in scatter gather; do
    run FAKE_FAULT=ar-wrong-$word "$symtuner" bench --beside --bytes 8KiB..8KiB --coll all > "$work/c.out" 2>&1
    [ $? = 1 ] && grep -q 'wrong result: element 0 of rank [01], 8192 bytes, mode o' "$work/c.out"
    ok "bench --beside: a wrong $word of symtuner's is noticed: $(tail -1 "$work/c.out")" $?
done
run "$symtuner" bench --beside --bytes 8MiB..16MiB --coll all > "$work/bb.out" 2> "$work/bb.err" &&
    sed -n '/^Beside GEMMs/,$p' "$work/bb.out" > "$work/bb" && [ "$(grep -c '^[a-z]*  *general  *symmetric/NCCL  *with plugin  *symtuner  *A/A$' "$work/bb")" = 3 ] &&
    [ "$(grep -c '^\(8\|16\) MiB .* 0\.[0-9][0-9]$' "$work/bb")" = 6 ]
ok "bench --beside: a table for each collective: $(tail -1 "$work/bb.err")" $?

# ---- bench ---------------------------------------------------------------------------------------
run "$symtuner" bench --bytes 1KiB..1MiB --coll allreduce,allgather --csv "$work/b.csv" > "$work/bench.out" 2> "$work/bench.err"
ok "bench: exit status: $(tail -1 "$work/bench.err")" $?
grep -q '^allreduce  *general  *symmetric/NCCL  *with plugin  *symtuner' "$work/bench.out" && [ "$(grep -c '^done,' "$work/b.csv")" = 12 ]
ok "bench: four columns, and the raw data" $?
for coll in allreduce reducescatter allgather; do
    run "$symtuner" bench --bytes 1KiB..4MiB --coll $coll --csv "$work/c.csv" --force > "$work/c.out" 2>&1
    [ "$(grep -c "^[012],0,$coll,symtuner,[0-9]*,[0-9.]*$" "$work/c.csv")" = 39 ] &&
        awk -v coll=$coll '$1 == coll { table = 1 } table && $1 == "64" { ok = $6 > 0 } END { exit !ok }' "$work/c.out"
    ok "bench: symtuner's $coll is timed: $(tail -2 "$work/c.out")" $?
done
for word in scatter gather; do
    run FAKE_FAULT=ar-wrong-$word "$symtuner" bench --bytes 4KiB..8KiB --coll all > "$work/c.out" 2>&1
    [ $? = 1 ] && grep -q 'wrong result: element 0 of rank [01], 8192 bytes, mode o' "$work/c.out"
    ok "bench: a wrong $word of symtuner's is noticed: $(tail -1 "$work/c.out")" $?
done
run "$symtuner" bench --bytes 1KiB..2KiB --json 2> /dev/null > "$work/b.json"
json "bench --json is JSON" "$work/b.json"
printf '[provenance]\ngpu = NVIDIA Other\n[process]\nsym-ctas = 16\n' > "$work/other.rules"
printf '[process]\nsym-ctas = many\n' > "$work/wrong.rules"
bench_rules() { # bench_rules RULES WORDS [STATUS]: checks that bench fails and prints WORDS
    run "$symtuner" bench --bytes 1KiB..1KiB --rules "$work/$1" > "$work/rules.out" 2>&1
    [ $? = "${3:-1}" ] && grep -q "$2" "$work/rules.out"
    ok "bench: rules that do not act are named: $1: $(tail -2 "$work/rules.out")" $?
}
bench_rules none.rules 'none.rules: No such file' 2
bench_rules wrong.rules 'wrong.rules:2:.*many'
bench_rules other.rules 'measured on another machine'
grep -q '^1 KiB ' "$work/rules.out" && grep -q 'these times are without the rules' "$work/rules.out"
ok "bench: the times are printed all the same" $?
mkdir "$work/bare" && cp "$work"/bin/symtuner "$work"/bin/libcuda.so.1 "$work"/bin/libnccl.so.2 "$work/bare"
run LD_LIBRARY_PATH="$work/bare" "$work/bare/symtuner" bench --bytes 1KiB..1KiB > /dev/null 2> "$work/bare.err"
[ $? = 77 ] && grep -q 'no plugin: .*libsymtuner.so' "$work/bare.err"
ok "bench: a plugin that is missing is named: $(tail -1 "$work/bare.err")" $?
# NCCL cuts the names of plugins at 254 bytes, so bench must say that NCCL would not find this one
deep=$work/$(printf '%0250d' 0) && mkdir "$deep" && cp "$work"/bin/* "$deep"
run "$deep/symtuner" bench --bytes 1KiB..2KiB > /dev/null 2> "$work/deep.err"
[ $? = 77 ] && grep -q 'NCCL cuts the name .*/libsymtuner.so at 254 bytes' "$work/deep.err"
ok "bench: a plugin that NCCL would not find is named: $(cat "$work/deep.err")" $?
run "$deep/symtuner" tune --bytes 1KiB..2KiB --out "$work/deep.rules" > /dev/null 2>&1
ok "tune: it needs no plugin" $?
run "$symtuner" tune --out "/tmp/$(printf '%0600d' 0)" 2>&1 | grep -q 'a file name has at most 490 bytes here'
ok "tune: a file name that does not fit is refused" $?
run "$symtuner" tune --out "/tmp/$(printf '%0300d,%0200d' 0 0)" 2>&1 | grep -q 'a file name has at most 490 bytes here'
ok "tune: so it is if there is a comma in the name" $?
run FAKE_GPUS=1 "$symtuner" bench > /dev/null 2>&1
[ $? = 77 ]
ok "bench: one GPU is exit status 77" $?

# ---- which NCCL ----------------------------------------------------------------------------------
# tune and bench measure the NCCL that torch or jax loads, not the loader's 2.28.9. ${work}/torch has
# a fake torch that finds NCCL 2.30.7 by its RPATH; jax loads 2.29.7 by its path.
mkdir "$work/torch" "$work/jax"
other() { # other FOLDER NUMBER RELEASE: makes a fake NCCL
    $fake -I. -DFAKE_NCCL "-DFAKE_RELEASE=$2" "-DFAKE_RELEASE_TEXT=\"$3\"" -Wl,-soname,libnccl.so.2 \
        -o "$work/$1/libnccl.so.2" test/cli/fake_gpu.c || exit 1
}
other torch 23007 2.30.7 && other jax 22907 2.29.7
echo 'int ncclGetVersion(int *v); int torch(void) { int v; return ncclGetVersion(&v); }' |
    "$cc" -shared -fPIC -x c -Wl,--disable-new-dtags,-rpath,'$ORIGIN' -o "$work/torch/libtorch_cuda.so" - \
        -x none -Wl,--no-as-needed "$work/torch/libnccl.so.2" || exit 1
echo 'int GetPjrtApi;' | "$cc" -shared -fPIC -x c -o "$work/jax/xla_cuda_plugin.so" - || exit 1
packages() { # packages NAME FILE ...: python3 then prints these packages
    printf '#!/bin/sh\nprintf "%%s\\t%%s\\n" %s\n' "$*" > "$work/py/python3"
}
measures() { # measures WHAT RELEASE COMMAND ...: COMMAND must measure RELEASE; its stderr is left in n.err
    what=$1 release=$2
    shift 2
    run "$@" > "$work/n.out" 2> "$work/n.err" && grep -q "NCCL $release" "$work/n.out"
    ok "$what: NCCL $release is measured: $(cat "$work/n.err")" $?
}
brief="--bytes 1KiB..1KiB --no-kernels"
torchs="measures NCCL 2.30.7 of torch ($work/torch/libnccl.so.2); --library FILE measures another"
packages torch "$work/torch/libtorch_cuda.so"
# shellcheck disable=SC2086
{
    measures "bench of torch's" 2.30.7 "$symtuner" bench $brief
    grep -qxF "symtuner bench: $torchs" "$work/n.err"
    ok "bench says that it measures torch's NCCL" $?
    measures "tune of torch's" 2.30.7 "$symtuner" tune $brief --out "$work/torchs.rules"
    grep -qxF "symtuner tune: $torchs" "$work/n.err" && grep -q '^nccl  *= 2.30.7$' "$work/torchs.rules"
    ok "tune says that it measures torch's NCCL, and the rules are for it" $?
    ! run SYMTUNER_RULES="$work/torchs.rules" "$symtuner" doctor --no-gpu --json | ids | grep -qx rules-misfit
    ok "doctor: tune's rules fit the NCCL that torch loads" $?
    measures "bench --library" 2.28.9 "$symtuner" bench $brief --library "$work/bin/libnccl.so.2"
    ! grep -q 'symtuner bench: .*NCCL' "$work/n.err"
    ok "bench --library: nothing is said about other copies" $?
    packages torch "$work/torch/libtorch_cuda.so" nccl "$work/jax/libnccl.so.2" jax "$work/jax/xla_cuda_plugin.so"
    measures "bench with two frameworks" 2.30.7 "$symtuner" bench $brief
    grep -qxF "symtuner bench: does not measure NCCL 2.29.7 of jax ($work/jax/libnccl.so.2)" "$work/n.err"
    ok "bench names the NCCL of the other framework" $?
    packages torch "$work/torch/libnccl.so.2" # stands for a torch that NCCL was linked into
    measures "bench with NCCL in torch" 2.28.9 "$symtuner" bench $brief
    grep -qxF "symtuner bench: does not measure NCCL 2.30.7 of torch ($work/torch/libnccl.so.2)" "$work/n.err"
    ok "bench names the NCCL that is a part of torch" $?
}

echo "fake GPUs: $passed passed, $failed failed"
[ "$failed" -eq 0 ]

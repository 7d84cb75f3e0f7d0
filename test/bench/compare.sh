#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compare.sh BUILD_DIR - run ar_compare on fake GPUs (fake_gpu.c). Every contender must get its
# rows. Good peers must take part. Bad peers must be named and left out without ending the run.
set -eu
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

fail()
{
    echo "compare.sh: $*" >&2
    [ "$failures" != 0 ] || sed 's/^/    /' "$folder/out" >&2
    failures=$((failures + 1))
}

compare()
{
    status=0
    timeout 60 "$build/ar_compare_fake" --out "$folder/rows.csv" "$@" >"$folder/out" 2>&1 ||
        status=$?
    [ "$status" = 0 ] || fail "ar_compare $* ended with $status"
}

said()
{
    grep -q "$1" "$folder/out" || fail "it did not say: $1"
}

rows() # CONTENDER HOW_MANY: check how many rows of CONTENDER the run has written
{
    found=$(cut -d, -f3 "$folder/rows.csv" | grep -c "^$1\$" || true)
    [ "$found" = "$2" ] || fail "$found rows of $1, not $2"
}

refuses() # STATUS SAYS ARGUMENTS...: check that ar_compare ends with STATUS and says SAYS
{
    want=$1 says=$2
    shift 2
    status=0
    "$build/ar_compare_fake" --out "$folder/rows.csv" "$@" >"$folder/out" 2>&1 || status=$?
    [ "$status" = "$want" ] || fail "ar_compare $* ended with $status, not $want"
    said "$says"
}

refuses 2 '[-]-ranks x: takes numbers from 2 to 16' --ranks x
refuses 2 '[-]-ranks 2,: takes numbers' --ranks 2,
refuses 2 '[-]-ranks 0: takes numbers' --ranks 0
refuses 2 '[-]-ranks 99: takes numbers' --ranks 99
refuses 77 'skipped: --ranks 16, and [0-9]* GPUs here' --ranks 16 --only ours
refuses 2 '"zz" is none of ours staged general sym' --only zz
refuses 2 '"zz" is none of ours' --only ours,zz
refuses 2 'none of these can take part' --only vllm
refuses 2 'none of these can take part' --host --only sym
refuses 2 '"q" is none of bf16 f32' --types q
refuses 2 '"zz" is none of threads procs' --modes zz
refuses 2 '"" is none of threads procs' --modes procs,
refuses 2 '[-]-cold 7: takes a whole number from 0 to 1' --cold 7
refuses 2 '[-]-limit x: takes a whole number' --limit x
refuses 2 '[-]-rounds 0: takes a whole number from 1' --rounds 0
refuses 2 '[-]-step 1: takes a whole number from 2' --step 1
refuses 2 '[-]-min 1KB: takes bytes' --min 1KB
refuses 2 '[-]-max 9G: takes bytes' --max 9G
refuses 2 'the first is above the second' --min 2M --max 1M
refuses 2 '/nowhere: is no folder' --peers /nowhere
refuses 2 '[-]-limit: lacks a value' --limit
refuses 2 '[-]-fast: there is no such option' --fast
refuses 2 'cannot write /nowhere/rows' --only ours --out /nowhere/rows

# ar_compare finds torch_worker.py from any folder; this fake python3 only writes down which script
# it should run
mkdir "$folder/bin"
printf '#!/bin/sh\n[ -r "$1" ] && echo "$1" >>"%s"\n' "$folder/script" >"$folder/bin/python3"
chmod +x "$folder/bin/python3"
full=$(cd "$build" && pwd)
(cd / && PATH=$folder/bin:$PATH "$full/ar_compare_fake" --only torch1 --out "$folder/rows.csv" \
    --ranks 2 --max 1K) >"$folder/out" 2>&1 || true
grep -q '/compare/torch_worker.py$' "$folder/script" ||
    fail "torch's program is not found from another folder"

mkdir "$folder/good" "$folder/bad"
cp "$build/peer_good.so" "$folder/good/peer-vllm.so"
cp "$build/peer_good.so" "$folder/good/peer-nccl-tests.so"
cp "$build/peer_raining.so" "$folder/bad/peer-vllm.so"
cp "$build/peer_hangs.so" "$folder/bad/peer-nccl-tests.so"
cp "$build/peer_wrong.so" "$folder/bad/peer-trtllm.so"
echo "not a library" >"$folder/bad/peer-mscclpp.so"

# A contender has 18 rows for each mode in which it runs: 3 sizes x 2 rounds x (bf16 warm, bf16
# cold, f32 warm). Our own contenders run in both modes, and peers run in one.
own=ours,staged,general,sym
compare --ranks 2 --max 4K --rounds 2 --only "$own,vllm,nt_lsa,nt_vec" --peers "$folder/good" \
    --extra 0
said "peer vllm: .*peer-vllm.so"
said "peer mscclpp: not found"
said "peer-vllm.so is a peer"
rows ours 36
rows sym 36
rows vllm 18
rows nt_lsa 18
rows nt_vec 12 # nt_vec refuses 4 KiB, one of the three sizes

compare --ranks 2,4 --max 4K --rounds 1 --types bf16 --cold 0 --extra 0 --modes procs \
    --only "ours,vllm,nt_lsa,trt1,mscclpp" --peers "$folder/bad"
said "it is raining"
said "peer vllm failed and is left out"
said "invalid ELF header\|file too short"
said "peer mscclpp failed and is left out"
said "no answer in time"
said "peer nccl-tests failed and is left out"
said "first bf16 sum 4096 bytes, rank .: element .* is -\{0,1\}nan, not 4"
said "trt1: no WRONG SUM"
rows ours 6
rows vllm 0
rows mscclpp 0
rows nt_lsa 1 # one row for 1 KiB; then it hung at 2 KiB, and was not started again with 4 ranks
rows trt1 4

compare --ranks 2 --max 1K --rounds 1 --types bf16 --cold 0 --extra 1 --modes threads --only ours
said "peers: none"
rows ours 5 # one row each for bf16 sum, i32, f64, max, min

for coll in reduce_scatter all_gather; do
    compare --coll $coll --extra 0 --cold 0 --ranks 2,4 --max 8K --rounds 1 --types bf16 \
        --only "$own,vllm" --peers "$folder/good" --modes threads
    said "2 t bf16 $coll warm 8K |"
    said "4 t bf16 $coll warm 1K |"
    rows ours 8
    rows sym 8
    rows vllm 0 # a peer runs all-reduces only
done
refuses 2 '[-]-coll all_gather: takes one collective, and needs --extra 0' --coll all_gather
refuses 2 '"scan" is none of reduce_scatter all_gather' --coll scan --extra 0
compare --odd --ranks 2 --max 8K --rounds 1 --types bf16 --modes procs --only ours,staged,general
said "2 p bf16 sum warm 1K+2 |"
said "2 p bf16 sum warm 8K+2 |"
rows ours 2
rows general 2
grep -q ',8194,warm,' "$folder/rows.csv" || fail "no row of 8194 bytes"
refuses 2 'none of these can take part' --odd --only torch1,sym32
compare --odd-count --ranks 2 --max 8K --rounds 1 --types bf16 --modes procs --only ours,sym
rows sym 2
refuses 2 '[-]-odd and --odd-count: cannot go with --cold 1' --odd --cold 1
refuses 2 '[-]-odd and --odd-count: cannot go with --cold 1' --odd-count --extra 1
[ "$failures" = 0 ] || exit 1
echo "compare.sh: contenders, good peers and four kinds of bad ones: as they should be"

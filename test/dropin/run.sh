#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD - runs programs on a fake NCCL and fake kernels, with the drop-in preloaded.
#
# Needs no GPU. If the Python package nvidia-nccl is installed, its real libnccl.so.2 is tested,
# too. With NCCL_WHEELS=DIR, each libnccl.so.2 below DIR is also tested. Exit 1: the output says
# what differs.
set -u
here=$PWD/$1/dropin-test
so=$here/libsymtuner_nccl.so
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
case $1 in *-*) san=1 ;; *) san=0 ;; esac
# the loader may load a sanitizer's library later than the drop-in (verify_asan_link_order=0), and
# leaks are ignored, because fake communicators leak on purpose (detect_leaks=0)
ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
export ASAN_OPTIONS SECOND="$here/second/libnccl.so.2"
mkdir "$work/ready"
export READY="$work/ready"
unset LD_PRELOAD LD_LIBRARY_PATH
export SYMTUNER_ONLY=allreduce,reducescatter,allgather

fail() { echo "FAIL dropin: $*"; failed=1; }
# Run a command under the drop-in. FIRST names the NCCL that the program is linked with.
under() { LD_LIBRARY_PATH=$here/${FIRST:-first} LD_PRELOAD=${PRELOAD:-$so} "$@"; }
bare() { LD_LIBRARY_PATH=$here/first "$@"; }

for how in linked "$here/first/libnccl.so.2"; do
    for what in calls strangers groups either operators life two many symbols; do
        SYMTUNER_MAX_COMMS=8 under "$here/cases" $what "$how" 2> "$work/err" || { fail "case $what $how"; cat "$work/err"; }
    done
    (unset SYMTUNER_ONLY && under "$here/cases" defaults "$how") || fail "case defaults $how"
done

for what in shrinks windows restricted suspends no_effect races ends refused configs; do
    SYMTUNER_MAX_COMMS=8 under "$here/newer" $what || fail "newer functions, $what"
done
SYMTUNER_MAX_COMMS=8 under "$here/families" families || fail "families"
for share in 0 1; do
    [ $share = 1 ] && what=split_shares || what=shrink_shares
    NCCL_COMM_SPLIT_SHARE_RESOURCES=$share NCCL_COMM_SHRINK_SHARE_RESOURCES=$((1 - share)) SYMTUNER_MAX_COMMS=8 under "$here/families" $what || fail "families, $what"
done
for what in finalize destroy revoke relative races; do
    NCCL_COMM_SPLIT_SHARE_RESOURCES=1 under "$here/watchdog" $what || fail "watchdog, $what"
done

for what in eager graph two_graphs half_captured mixed not_ours; do
    under "$here/streams" $what || fail "streams of a group, $what"
done
NO_EVENTS=1 under "$here/streams" fails 2> "$work/err" || fail "streams of a group, CUDA fails"
grep -q 'CUDA cannot let the streams of a group wait' "$work/err" || fail "CUDA fails: $(cat "$work/err")"

under "$here/cases" lacking linked 2> "$work/err" || fail "case lacking"
grep -q 'warning: the program calls an NCCL function' "$work/err" || fail "no warning: $(cat "$work/err")"
SYMTUNER_LOG=off under "$here/cases" lacking linked 2> "$work/err"
[ -s "$work/err" ] && fail "SYMTUNER_LOG=off, but: $(cat "$work/err")"

under "$here/copies/copies" "$here/copies" 2> "$work/err" || { fail "more copies of NCCL than the drop-in follows"; cat "$work/err"; }

under "$here/places" 2> "$work/err" || { fail "places of communicators"; cat "$work/err"; }

# room MULTIPROCESSORS CTAS MOST: on a GPU with MULTIPROCESSORS multiprocessors, MOST communicators
# must get handles if each call has at most CTAS CTAs
room() { MULTIPROCESSORS=$1 SYMTUNER_AR_MAX_CTAS=$2 under "$here/places" "$3" 2> "$work/err" || { fail "room for $3 communicators"; cat "$work/err"; }; }
room 132 8 13
room 0 8 13 # the number of multiprocessors is not known
room 46 8 6
room 14 8 2
room 46 120 2

# --- groups of JAX beside communicators --------------------------------------------------------------
# jax CASE: runs the case with the kernels that the drop-in has
jax() { under "$here/jax" "$1" "$here/libsymtuner_ffi.so" "$here/libsymtuner_ar.so" 2> "$work/err" || { fail "groups of JAX, $1"; cat "$work/err"; }; }
for case in once first kept late second; do jax $case; done
for most in 0 1; do SYMTUNER_MAX_COMMS=$most jax alone; done

# --- the kernels that follow ours --------------------------------------------------------------------
for case in until_a_window window_first from_a_thread; do
    under "$here/followers" $case || fail "followers, $case"
done
FIRST=anywhere under "$here/followers" never || fail "followers, NCCL 2.29.7"
FIRST=waits under "$here/followers" always || fail "followers, NCCL 2.30.7"
FIRST=waits under "$here/followers" two || fail "followers, NCCL 2.30.7 and 2.28.9"
SECOND="$here/anywhere/libnccl.so.2" under "$here/followers" two_anywhere || fail "followers, NCCL 2.28.9 and 2.29.7"

# --- ranks in processes of their own ---------------------------------------------------------------
# ranks RANKS WANT WARNED [WITHOUT...]: run ${RANKS} ranks. If WITHOUT has bare:i, rank i runs
# without the drop-in. If it has i:NAME=VALUE, rank i runs with that variable. Every rank must print
# WANT; only a rank with i:INIT=... may print something else. WARNED is a list of numbers; the
# number of lines that all ranks together print on stderr must be one of them. Every rank must wait
# for at least LEAST seconds (default: 0), and less than two seconds more; rank QUICK may wait less.
# With BOXES=N the ranks are on N boxes, which share no memory.
number=0
ranks()
{
    count=$1 want=$2 warned=$3
    shift 3
    number=$((number + 1))
    i=0
    pids=
    while [ $i -lt "$count" ]; do
        how=under variable=NOTHING=1
        for word; do
            case $word in bare:$i) how=bare ;; $i:*) variable=${word#*:} ;; esac
        done
        ( [ -z "${BOXES:-}" ] || export BOX=$((i * BOXES / count)); export "$variable"; exec 2> "$work/err.$i"; $how "$here/ranks" "$$-$number" "$count" $i > "$work/out.$i" ) &
        pids="$pids $!"
        i=$((i + 1))
    done
    i=0 lines=0
    for pid in $pids; do
        wait "$pid" || case " $* " in *" $i:INIT="*) ;; *) fail "rank $i of $count ended with an error ($*)" ;; esac
        i=$((i + 1))
    done
    i=0
    while [ $i -lt "$count" ]; do
        case " $* " in *" $i:INIT="*) i=$((i + 1)); continue ;; esac
        [ "$(cut -d' ' -f1 "$work/out.$i")" = "$want" ] || { fail "rank $i of $count is not $want ($*)"; cat "$work/err.$i"; }
        waited=$(cut -d' ' -f2 "$work/out.$i" | cut -d. -f1)
        [ "$i" = "${QUICK:-}" ] || { [ "$waited" -ge ${LEAST:-0} ] && [ "$waited" -le $((${LEAST:-0} + 1)) ]; } || fail "rank $i waited $waited s ($*)"
        lines=$((lines + $(grep -c . < "$work/err.$i")))
        i=$((i + 1))
    done
    [ "${warned#*"$lines"}" != "$warned" ] || { fail "$lines lines on stderr, not $warned ($*)"; cat "$work"/err.*; }
}
objects() { find /dev/shm -name "symtuner-nccl-2-$(id -u)-*" 2> /dev/null | sort; }
objects > "$work/before"
ranks 2 ours 0
ranks 4 ours 0
ranks 2 ours 0 0:SYMTUNER_AR_TIMEOUT_MS=5 1:SYMTUNER_AR_TIMEOUT_MS=5
ranks 2 ours 0 1:SLOW=6 # rank 1 loads its kernels 6 s late; only then do the ranks meet
ranks 2 nccl 1 bare:0
ranks 4 nccl 1 bare:2
ranks 2 nccl 1 1:SYMTUNER_MODE=off
ranks 2 nccl 1 0:SYMTUNER_ONLY=allreduce
ranks 2 nccl 1 1:SYMTUNER_MAX_COMMS=0
ranks 2 nccl 1 1:FULL=1 # rank 1 has too many communicators, and tells rank 0 at once
ranks 2 ours 0 0:SYMTUNER_AR_MAX_CTAS=32
ranks 2 nccl 1,2 0:SYMTUNER_VERIFY=some # rank 0 warns; rank 1 also warns if it is the first to come
grep -q '^symtuner: warning: SYMTUNER_VERIFY=some: write ' "$work/err.0" || fail "a wrong value: $(cat "$work/err.0")"
ranks 2 nccl 1,2 1:SYMTUNER_MODE=watch
grep -q '^symtuner: warning: SYMTUNER_MODE=watch: write ' "$work/err.1" || fail "a wrong word: $(cat "$work/err.1")"
ranks 2 nccl 1,2 0:SYMTUNER_MAX_COMMS=4097
grep -q 'write a number from 0 to 4096;' "$work/err.0" || fail "too large a number: $(cat "$work/err.0")"
ranks 2 ours 0 0:SYMTUNER_MAX_COMMS=4096
export SYMTUNER_VERIFY=2
ranks 2 both-both-ours-ours 0 0:VERIFY=1 1:VERIFY=1
ranks 2 both-nccl-nccl-nccl 1 0:VERIFY=1 1:VERIFY=wrong
NO_MEMORY=1 ranks 2 ours-ours-ours-ours 0 0:VERIFY=1 1:VERIFY=1
SYMTUNER_VERIFY=4 ranks 2 both-both-ours-both 0 0:VERIFY=1 1:VERIFY=1 # the third call is captured
unset SYMTUNER_VERIFY
ranks 2 nccl 0 0:SYMTUNER_MODE=observe 1:SYMTUNER_MODE=observe
ranks 2 nccl 1 1:INIT=fail
LEAST=5 ranks 2 nccl 1 1:INIT=kill
FIRST=old ranks 2 nccl 0
FIRST=oldest ranks 2 ours 0
mkdir "$work/alone" && cp "$here/libsymtuner_nccl.so" "$work/alone/"
PRELOAD=$work/alone/libsymtuner_nccl.so ranks 2 nccl 2 # each rank warns that it has no kernels
# If this box has fewer GPUs than ranks, NCCL runs the calls. Each process counts the GPUs once.
mkdir "$work/gpus" "$work/gpus/0000:01:00.0"
export GPUS="$work/gpus"
PRELOAD="$here/gpus.so $so" ranks 2 nccl 0
mkdir "$work/gpus/0000:02:00.0"
: > "$GPUS.log"
PRELOAD="$here/gpus.so $so" ranks 2 ours 0
[ "$(grep -c . "$GPUS.log")" = 2 ] || fail "2 processes looked for GPUs $(grep -c . "$GPUS.log") times"
unset GPUS
# from here on the ranks are on two boxes
BOXES=2 PRELOAD="$here/box.so $so"
ranks 4 nccl 2 # the first rank of each box warns
# without SYMTUNER_RULE or SYMTUNER_RULES the drop-in does not ask the kernels about rules
ASKED=1 ranks 4 nccl 2
SYMTUNER_RULE=x ranks 4 nccl 2
SYMTUNER_RULE=x ASKED=1 ranks 4 ours 0
SYMTUNER_RULES=x ASKED=1 ranks 4 ours 0
export SYMTUNER_AR_NODES=1
ranks 4 ours 0
FIRST=oldest ranks 4 ours 0
BOXES=1 ranks 2 ours 0
ranks 4 nccl 2 0:SYMTUNER_AR_NODES=0
ranks 4 nccl 2 0:NCCL_COMM_BLOCKING=1 # creating the second communicator could block for ever
# these ids have no room for the second id, which the drop-in would add (dropin/boxes/boxes.h)
for id in 1 2; do ranks 4 nccl 2 0:LONG_ID=$id; done
ranks 4 nccl 1 1:SYMTUNER_ONLY=allreduce
ranks 4 nccl 1 3:SYMTUNER_MAX_COMMS=0
LEAST=20 QUICK=3 ranks 4 nccl 1,2 3:SYMTUNER_AR_NODES=0
grep -q 'not all have the drop-in, SYMTUNER_AR_NODES=1 or rules' "$work/err.0" || fail "a rank without opt-in: $(cat "$work/err.0")"
export GPUS="$work/gpus" # two GPUs in each box
PRELOAD="$here/gpus.so $here/box.so $so" ranks 4 ours 0
unset GPUS BOXES PRELOAD SYMTUNER_AR_NODES
# Another run of this test may have made a file in /dev/shm, so give it a minute to remove that
# file.
objects | comm -13 "$work/before" - > "$work/left"
tries=0
while [ -s "$work/left" ] && [ $tries -lt 120 ]; do
    tries=$((tries + 1))
    sleep 0.5
    objects | comm -12 "$work/left" - > "$work/still"
    mv "$work/still" "$work/left"
done
[ ! -s "$work/left" ] || { fail "shared memory is left behind:"; cat "$work/left"; }

# --- inert -----------------------------------------------------------------------------------------
for how in linked "$here/first/libnccl.so.2"; do
    bare "$here/cases" trace "$how" > "$work/bare"
    SYMTUNER_MODE=off under "$here/cases" trace "$how" > "$work/off" 2>&1
    cmp -s "$work/bare" "$work/off" || { fail "SYMTUNER_MODE=off changes NCCL's calls"; diff "$work/bare" "$work/off"; }
    grep -q 'AllReduce:16' "$work/bare" || fail "the trace is empty"
done
bare "$here/random" 5000 > "$work/bare" || fail "random calls without the drop-in"
SYMTUNER_MODE=off under "$here/random" 5000 > "$work/off" || fail "random calls, off"
cmp -s "$work/bare" "$work/off" || { fail "SYMTUNER_MODE=off changes random calls: $(cat "$work/bare" "$work/off")"; }
grep -q 'after [1-9][0-9]*[0-9][0-9][0-9] calls' "$work/bare" || fail "the random calls did not reach NCCL: $(cat "$work/bare")"
if [ $san = 0 ]; then
    [ "$(under "$here/ranks" none 2>&1)" = child ] || fail "a child without NCCL notices the drop-in"
    PRELOAD=/no/such/libsymtuner_nccl.so under "$here/ranks" none 2> "$work/err" | grep -q child ||
        fail "a wrong path breaks the program"
fi

# --- symtuner run ----------------------------------------------------------------------------------
mkdir "$work/bin" "$work/lib" && cp "$here/../symtuner" "$work/bin/" && cp "$so" "$here/libsymtuner_ar.so" "$work/lib/"
# job WHAT STATUS OPTIONS -- PROGRAM: what the job prints on stderr must be the lines of $work/want,
# and no others
job()
{
    what=$1 status=$2
    shift 2
    LD_LIBRARY_PATH=$here/first "$work/bin/symtuner" run --only dropin "$@" > "$work/out" 2> "$work/err"
    got=$?
    sed '/^Killed$/d; s/([0-9]*)/(N)/' "$work/err" | diff "$work/want" - || fail "symtuner run: $what"
    [ $got = "$status" ] || fail "symtuner run: $what: exit status $got, not $status"
}
cat > "$work/two" <<'X'
for rank in 0 1; do "$1" "$2" 2 $rank & done
wait
X
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            2 calls    128 B   all by our kernels
X
job 'two ranks' 0 -- sh "$work/two" "$here/ranks" "$$-r1"
cat >> "$work/want" <<'X'
  estimated from all-reduces alone on 2 H200s (docs/run.md):
    2 calls took about 4.0 us less on each GPU
X
SYMTUNER_MACHINE='gpu=NVIDIA H200; gpus=2; links=nvlink; multicast=no' job 'an estimate' 0 -- sh "$work/two" "$here/ranks" "$$-r11"
sed -i '/estimated/d; /took about/d' "$work/want"
SYMTUNER_MACHINE='gpu=NVIDIA H200; gpus=2; links=nvlink; multicast=no' job 'no estimate with a limit of CTAs' 0 --max-ctas 8 -- sh "$work/two" "$here/ranks" "$$-r14"
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 1 process called NCCL 2.28.9
  allreduce            9 calls    424 B   5 by our kernels (56 %), 304 B
  allgather             1 call     32 B   none by our kernels
  broadcast             1 call     32 B   none by our kernels
  reduce                1 call     16 B   none by our kernels
  NCCL ran 2 calls: the communicator was made by a call that the drop-in does not follow
  NCCL ran 1 call: the communicator is non-blocking
  NCCL ran 1 call: there is no kernel for this collective
  NCCL ran 1 call: an argument is wrong or unusual
  NCCL ran 2 calls for other reasons
X
job 'a loader, and SIGKILL' 137 -- "$here/ranks" loader ''
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            2 calls    128 B   none by our kernels
  NCCL ran 2 calls: SYMTUNER_ONLY leaves this collective out
X
job 'other collectives only' 0 --only dropin,allgather -- sh "$work/two" "$here/ranks" "$$-r2"
# by_nccl WHY TEXT: let the kernels leave the calls to NCCL for the reason WHY; the summary must say
# TEXT
over_boxes='the communicator spans several boxes, where NCCL alone runs such calls or is faster'
by_nccl()
{
    cat > "$work/want" <<X
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            2 calls    128 B   none by our kernels
  NCCL ran 2 calls: $2
X
    WHY=$1 job "$1" 0 -- sh "$work/two" "$here/ranks" "$$-$1"
}
by_nccl 'rules: a.rules:3 "long"' 'a rule gives the call to NCCL'
by_nccl '2 boxes of 1 ranks: rules: a.rules:3' 'a rule gives the call to NCCL'
by_nccl '2 boxes of 1 ranks: no rule covers the call' "$over_boxes"
by_nccl 'the ranks span several nodes' "$over_boxes"
by_nccl 'rules: a.rules:3: tma cannot run this call; row 7' "the kernels' table gives the call to NCCL (SYMTUNER_AR_BESIDE)"
echo 'symtuner run: drop-in; all of it off: SYMTUNER_MODE=off' > "$work/want"
job 'off' 0 --off -- sh "$work/two" "$here/ranks" "$$-r3"
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            8 calls    512 B   all by our kernels
  2 calls by our kernels went into CUDA graphs, and count once however often these run
  4 calls ran by our kernels and by NCCL, and 0 differed
X
VERIFY=1 job 'verify' 0 --verify 2 -- sh "$work/two" "$here/ranks" "$$-r4"
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            2 calls    128 B   all by our kernels
  2 calls by our kernels ran box by box, in 6 pieces
X
BOX=0 job 'two boxes' 0 -- sh "$work/two" "$here/ranks" "$$-r6"
cat > "$work/apart" <<'X'
for rank in 0 1; do BOX=$rank LD_PRELOAD="$LD_PRELOAD $3" "$1" "$2" 2 $rank & done
wait
X
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            2 calls    128 B   all by our kernels
  allgather            2 calls     64 B   none by our kernels
  NCCL ran 2 calls: the communicator spans several boxes, where NCCL alone runs such calls or is faster
  2 calls by our kernels ran box by box, in 6 pieces
X
GATHER=1 SYMTUNER_AR_NODES=1 job 'an all-gather over two boxes' 0 -- sh "$work/apart" "$here/ranks" "$$-r7" "$here/box.so"
# These ranks are on one box, but have no shared memory, so they meet through NCCL.
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            2 calls    128 B   none by our kernels
  NCCL ran 2 calls: the kernels' table gives the call to NCCL (SYMTUNER_AR_BESIDE)
X
WHY='table row 7' SYMTUNER_AR_NODES=1 job 'one box without shared memory' 0 -- sh "$work/apart" "$here/ranks" "$$-r12" "$here/box.so"
# These ranks are on one GPU.
shared='NCCL runs all calls of a communicator of 2 ranks: several of them are on one GPU; SYMTUNER_AR_SHARE_GPU=1 on all ranks lets our kernels run there'
cat > "$work/want" <<X
symtuner run: drop-in
symtuner: warning: $shared
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            2 calls    128 B   none by our kernels
  NCCL ran 2 calls: several ranks of the communicator are on one GPU
  ranks (N): $shared
X
WHY='several ranks are on one GPU, and' job 'one GPU' 0 -- sh "$work/two" "$here/ranks" "$$-r16"
# A communicator over boxes is split. All ranks of the new one have the drop-in, so they need not
# meet through NCCL. If a rank has no room for the handle, all ranks must still ask the kernels for
# one, or the other ranks would wait for it for ever.
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            4 calls    256 B   all by our kernels
  4 calls by our kernels ran box by box, in 12 pieces
X
SPLIT=create SYMTUNER_AR_NODES=1 job 'a split over two boxes' 0 -- sh "$work/apart" "$here/ranks" "$$-r8" "$here/box.so"
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner: warning: NCCL runs all calls of a further communicator of 2 ranks: our kernels serve 1 of a GPU at a time; set a lower SYMTUNER_AR_MAX_CTAS or raise SYMTUNER_MAX_COMMS
symtuner: warning: NCCL runs all calls of a further communicator of 2 ranks: our kernels serve 1 of a GPU at a time; set a lower SYMTUNER_AR_MAX_CTAS or raise SYMTUNER_MAX_COMMS
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            4 calls    256 B   2 by our kernels (50 %), 128 B
  NCCL ran 2 calls: the GPU has too many communicators
  2 calls by our kernels ran box by box, in 6 pieces
  ranks (N): NCCL runs all calls of a further communicator of 2 ranks: our kernels serve 1 of a GPU at a time; set a lower SYMTUNER_AR_MAX_CTAS or raise SYMTUNER_MAX_COMMS
X
SPLIT=refuse SYMTUNER_MAX_COMMS=1 SYMTUNER_AR_NODES=1 job 'no room for a split' 0 -- sh "$work/apart" "$here/ranks" "$$-r9" "$here/box.so"
# One rank already knows too many communicators to follow the new one. That rank must still ask the
# kernels for a handle, or the other rank would wait for it. (The fake kernels give the other rank
# its handle all the same.)
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner: warning: NCCL runs all calls of a further communicator: the drop-in follows only 2048
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            4 calls    256 B   3 by our kernels (75 %), 192 B
  NCCL ran 1 call: the communicator was made by a call that the drop-in does not follow
  3 calls by our kernels ran box by box, in 9 pieces
  ranks (N): NCCL runs all calls of a further communicator: the drop-in follows only 2048
X
FULL=1 SPLIT=create SYMTUNER_AR_NODES=1 job 'no record of a split' 0 -- sh "$work/apart" "$here/ranks" "$$-r13" "$here/box.so"
# The new communicator is non-blocking on one rank only. That rank must still ask the kernels for a
# handle, or the other rank would wait for it.
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            4 calls    256 B   3 by our kernels (75 %), 192 B
  NCCL ran 1 call: the communicator is non-blocking
  3 calls by our kernels ran box by box, in 9 pieces
X
FAST=1 SPLIT=create SYMTUNER_AR_NODES=1 job 'a split that is non-blocking on one rank' 0 -- sh "$work/apart" "$here/ranks" "$$-r15" "$here/box.so"
# Each process drives two ranks. Two threads make the communicator, and then one thread splits it
# for both ranks. A process with one thread for each rank would ask the kernels for a handle, so
# these ranks must ask, too.
cat > "$work/pairs" <<'X'
for rank in 0 2; do BOX=$rank LD_PRELOAD="$LD_PRELOAD $3" "$1" pair "$2" 4 $rank & done
wait
X
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            4 calls    256 B   all by our kernels
  4 calls by our kernels ran box by box, in 12 pieces
X
WHOLE=1 SYMTUNER_AR_NODES=1 job 'two ranks of a split in one thread' 0 -- sh "$work/pairs" "$here/ranks" "$$-r11" "$here/box.so"
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 2 processes called NCCL 2.28.9
  allreduce            4 calls    256 B   none by our kernels
  NCCL ran 4 calls: the communicator spans several boxes, where NCCL alone runs such calls or is faster
X
APART=1 SPLIT=create SYMTUNER_AR_NODES=1 job 'a rank in each box' 0 -- sh "$work/apart" "$here/ranks" "$$-r10" "$here/box.so"
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: 1 process called NCCL 2.28.9
  allreduce             1 call     64 B   none by our kernels
  NCCL ran 1 call: the communicator has one rank
X
job 'one rank' 0 -- "$here/ranks" "$$-r5" 1 0
cat > "$work/want" <<'X'
symtuner run: drop-in
symtuner run: no process made an NCCL communicator under the drop-in, and none used the JAX route
X
job 'no NCCL' 0 -- "$here/ranks" none
# JAX opens its group before or after the program makes a communicator. In both cases the process
# has one slot.
cat > "$work/want" <<X
symtuner run: drop-in
symtuner run: 1 process called NCCL 2.28.9
  JAX route      no calls
  NCCL ran 2 communicators: the GPU has too many communicators
  jax (N): NCCL runs all calls of a further communicator of 2 ranks: our kernels serve 1 of a GPU at a time, beside the groups of JAX; set a lower SYMTUNER_AR_MAX_CTAS or raise SYMTUNER_MAX_COMMS
X
for case in first kept; do
    SYMTUNER_LOG=off job "JAX beside NCCL, $case" 0 -- "$here/jax" $case "$here/libsymtuner_ffi.so" "$work/lib/libsymtuner_ar.so"
done

# --- beside another preload ------------------------------------------------------------------------
# A preloaded library in front of the drop-in sees every call. Behind the drop-in it sees only the
# calls that go to NCCL.
PRELOAD="$here/preload.so $so" under "$here/ranks" "$$-p1" 1 0 > "$work/out" 2>&1
grep -q preload:16 "$work/out" || fail "a preload in front of the drop-in is passed by"
PRELOAD="$so $here/preload.so" under "$here/ranks" "$$-p2" 1 0 > "$work/out" 2>&1
grep -q preload:16 "$work/out" || fail "a preload behind the drop-in is passed by"

# --- counting, threads, cost -----------------------------------------------------------------------
under "$here/ranks" count "$work/tally" || fail "counting"
SYMTUNER_MAX_COMMS=200 under "$here/threads" "${ROUNDS:-20}" || fail "threads"
# A long run: DROPIN_CALLS=1000000 DROPIN_ROUNDS=100000 DROPIN_COMMS=5000 make test-dropin
SYMTUNER_MAX_COMMS=4000 under "$here/random" "${DROPIN_CALLS:-20000}" 1 "$work/tally" || fail "random calls"
SYMTUNER_MAX_COMMS=4000 under "$here/random" "${DROPIN_CALLS:-20000}" 64 "$work/tally" || fail "random calls of 64 threads"
for what in id comm choose driver; do
    ASKS=asked SYMTUNER_AR_MAX_CTAS=8 under "$here/loading" "$here/constructor.so" $what || fail "a constructor that calls NCCL, $what"
done
under "$here/opposite" "${DROPIN_ROUNDS:-3000}" || fail "communicators in opposite order"
(unset READY && SYMTUNER_MAX_COMMS=3 SYMTUNER_VERIFY=1 under "$here/memory" "${DROPIN_COMMS:-504}") || fail "memory grows"
if [ $san = 0 ]; then
    under "$here/cost" "$here/first/libnccl.so.2" || fail "more than 100 ns for a forwarded call"
fi

# --- real NCCLs ------------------------------------------------------------------------------------
real=0
if [ $san = 0 ]; then
    for library in $(find "${NCCL_WHEELS:-/nonexistent}" -name libnccl.so.2 2> /dev/null || true) \
        $(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0] + "/lib/libnccl.so.2")' 2> /dev/null); do
        python3 test/dropin/wheels.py "$library" > "$work/bare" 2>&1 || fail "$library cannot be called"
        LD_PRELOAD=$so python3 test/dropin/wheels.py "$library" > "$work/out" 2>&1
        [ "$(grep -v '^stands' "$work/bare")" = "$(grep -v '^stands' "$work/out")" ] ||
            { fail "$library answers otherwise under the drop-in"; diff "$work/bare" "$work/out"; }
        grep -q '^stands in front of AllReduce ReduceScatter AllGather .* CommDestroy' "$work/out" ||
            fail "$library is passed by: $(grep ^stands "$work/out")"
        SYMTUNER_AR_NODES=1 LD_PRELOAD=$so python3 test/dropin/wheels.py "$library" 2> /dev/null | grep -q '^id 0 marked$' ||
            fail "$library leaves no room behind its ids"
        real=$((real + 1))
    done
fi
[ $failed = 0 ] && echo "dropin: linked, dlopen, ranks, threads are right; $real real NCCL$([ $real = 1 ] || echo s)$(
    [ $real -gt 0 ] || echo ' (NCCL_WHEELS=DIR names some)')"
exit $failed

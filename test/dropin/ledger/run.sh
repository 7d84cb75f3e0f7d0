#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD - checks what the drop-in writes into the ledger, on a fake NCCL and fake kernels.
#
# Exit 1: the output says what differs.
set -u
here=$PWD/$1/dropin-test
symtuner=$PWD/$1/symtuner plugin=$PWD/$1/libsymtuner.so
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
export ASAN_OPTIONS
unset LD_PRELOAD LD_LIBRARY_PATH
export SYMTUNER_ONLY=allreduce,reducescatter,allgather

fail() { echo "FAIL dropin ledger: $*"; failed=1; }
under() { LD_LIBRARY_PATH=$here/first LD_PRELOAD=$here/libsymtuner_nccl.so "$@"; }
# want WHAT FILE: without its ids, hosts and times, the file must have the lines of stdin
want()
{
    sed -E 's/ id=0x[0-9a-f]+//; s/ host=[^ ]*//; s/ pid=[0-9]+//; s/ opened=[0-9]+//' \
        "$2" > "$work/lines" 2> /dev/null
    diff - "$work/lines" || fail "$1"
}

# --- ends of communicators and of the program -----------------------------------------------------
SYMTUNER_LEDGER=$work/%h.%p under "$here/calls" ends 2> "$work/err" ||
    { fail "calls"; cat "$work/err"; }
[ "$(find "$work" -name "$(uname -n).*" | wc -l)" = 1 ] || fail "not one file: $(ls "$work")"
mv "$work/$(uname -n)".* "$work/ends"
# The ledger must have first the communicators that ended, in this order, and then those that were
# open at the exit, newest first. It leaves out a non-blocking communicator without a call.
cat > "$work/rows" <<'Y'
ours coll=allreduce bytes=64..127 count=4 captured=1 verified=0
left coll=allreduce bytes=0..1 why=empty count=1
left coll=allreduce bytes=256..511 why=group count=5
ours coll=allgather bytes=32..63 count=1 captured=0 verified=0
left coll=broadcast bytes=32..63 why=collective count=1
Y
{
    for rank in 0 1; do
        echo '# symtuner ledger 1'
        echo "comm writer=drop-in ranks=2 rank=$rank local=1 nccl=2.28.9 mode=steer"
        grep 'bytes=0\.\.1' "$work/rows"
        sed -n 1p "$work/rows"
        sed -n '3,$p' "$work/rows"
        echo end
    done
    echo '# symtuner ledger 1'
    echo 'comm writer=drop-in ranks=2 rank=0 local=1 nccl=2.28.9 mode=steer'
    echo 'left coll=allreduce bytes=64..127 why=nonblocking count=1'
    echo end
    echo '# symtuner ledger 1'
    echo 'comm writer=drop-in ranks=2 rank=1 local=1 nccl=2.28.9 mode=steer'
    echo end
    echo '# symtuner ledger 1'
    echo 'comm writer=drop-in ranks=2 rank=0 local=1 nccl=2.28.9 mode=steer'
    echo 'ours coll=allreduce bytes=64..127 count=1 captured=0 verified=0'
    echo end
} | want "ends of communicators" "$work/ends"
"$symtuner" top --sort size "$work/ends" | sed -n '/^collective/,/^$/p; /^ours/,$p' > "$work/out"
want "top" "$work/out" <<'Y'
collective    bytes                calls  ours symmetric  general    ce registered  cheapest general
allreduce     0 B .. 2 B               2    0%         -        -     -          -  
allreduce     64 B .. 128 B           10   90%         -        -     -          -  
allreduce     256 B .. 512 B          10    0%         -        -     -          -  
allgather     32 B .. 64 B             2  100%         -        -     -          -  
broadcast     32 B .. 64 B             2    0%         -        -     -          -  

ours: the share that the drop-in sent to our kernels. It left to NCCL:
  10 calls: the group has more collectives of this communicator
  2 calls: there is no kernel for this collective
  2 calls: the call has no elements
  1 call: the communicator is non-blocking
Y
SYMTUNER_LEDGER=$work/killed under "$here/calls" killed 2> /dev/null
[ "$(grep -c '^comm' "$work/killed")" = 2 ] ||
    fail "only ended communicators are written before SIGKILL: $(cat "$work/killed")"
SYMTUNER_LEDGER=$work/off SYMTUNER_MODE=off under "$here/calls" ends || fail "off"
[ ! -e "$work/off" ] || fail "SYMTUNER_MODE=off writes a ledger"
SYMTUNER_LEDGER=$work/observe SYMTUNER_MODE=observe under "$here/calls" ends || fail "observe"
grep -q 'mode=observe' "$work/observe" && ! grep -q '^ours' "$work/observe" ||
    fail "observe: $(cat "$work/observe")"
SYMTUNER_LEDGER=$work/no/file under "$here/calls" ends 2> "$work/err" ||
    fail "a ledger that cannot be written ends the program"
lost="No such file or directory; the drop-in's counters of a communicator are lost"
grep -q "^symtuner: warning: SYMTUNER_LEDGER=$work/no/file: $lost\$" "$work/err" ||
    fail "no warning: $(cat "$work/err")"

# The ledger is a pipe, whose reader comes late. The program exits while a thread waits for the
# reader, to write the counters of a communicator that has ended. They must be written nevertheless.
mkfifo "$work/pipe"
{ sleep 1; cat; } < "$work/pipe" > "$work/late" &
SYMTUNER_LEDGER=$work/pipe under "$here/calls" meanwhile || fail "an exit while a communicator ends"
wait
grep -q '^ours' "$work/late" || fail "an exit loses counters: $(grep . "$work/late")"

# Processes in two containers may have the same pid. Their communicators must differ nevertheless,
# because the drop-in names shared memory after them.
if unshare --pid --fork true 2> /dev/null; then
    for i in 1 2; do
        SYMTUNER_LEDGER=$work/container under unshare --pid --fork "$here/calls" ends ||
            fail "container $i"
        grep -m 1 '^comm.* pid=1 ' "$work/container" | grep -o ' id=[^ ]*' >> "$work/ids"
        rm "$work/container"
    done
    [ "$(sort -u "$work/ids" | wc -l)" = 2 ] ||
        fail "communicators of two containers: $(cat "$work/ids")"
else
    echo "dropin ledger: no containers compared, because unshare --pid needs root"
fi

# --- ranks ----------------------------------------------------------------------------------------
mkdir "$work/ready"
two() # two SEED: runs two ranks in processes of their own, which verify calls
{
    for rank in 0 1; do
        SYMTUNER_LEDGER=$work/$1.$rank READY=$work/ready VERIFY=1 SYMTUNER_VERIFY=4 under \
            "$here/ranks" "$$-$1" 2 $rank > /dev/null &
    done
    wait
}
two v
want "verified calls" "$work/v.1" <<'Y'
# symtuner ledger 1
comm writer=drop-in ranks=2 rank=1 local=1 nccl=2.28.9 mode=steer
ours coll=allreduce bytes=64..127 count=4 captured=1 verified=3
end
Y
[ "$("$symtuner" agree "$work/v.0" "$work/v.1")" = 'agree: 1 communicator, 2 blocks of 2 files' ] ||
    fail "agree: $("$symtuner" agree "$work/v.0" "$work/v.1")"
sed -i 's/^ours\(.*\)count=4/ours\1count=3/' "$work/v.1"
"$symtuner" agree "$work/v.0" "$work/v.1" > "$work/out" && fail "agree sees no difference"
sed -E 's/0x[0-9a-f]+/ID/; s/\([^)]*\)/()/; s|/.*/||' "$work/out" > "$work/out2"
want "agree" "$work/out2" <<'Y'
communicator ID of the drop-in differs first in: allreduce from 64 B
  v.0:1 (): our kernels 4 times
  v.1:1 (): our kernels 3 times
Y

# --- calls that run box by box, in three pieces ---------------------------------------------------
for rank in 0 1; do
    BOX=0 SYMTUNER_LEDGER=$work/b.$rank READY=$work/ready under "$here/ranks" "$$-b" 2 \
        $rank > /dev/null &
done
wait
want "calls box by box" "$work/b.1" <<'Y'
# symtuner ledger 1
comm writer=drop-in ranks=2 rank=1 local=1 nccl=2.28.9 mode=steer
parts coll=allreduce bytes=16..31 count=2
parts coll=allreduce bytes=32..63 count=1
ours coll=allreduce bytes=64..127 count=1 captured=0 verified=0
end
Y
"$symtuner" agree "$work/b.0" "$work/b.1" > "$work/out" || fail "agree: $(cat "$work/out")"

# --- with the plugin, on a signal -----------------------------------------------------------------
SYMTUNER_LEDGER=$work/signal SYMTUNER_LEDGER_SIGNAL=USR1 SYMTUNER_MACHINE=gpu=x under \
    "$here/calls" signal "$plugin" 2> "$work/err"
[ $? = 137 ] || { fail "the signal"; cat "$work/err"; }
"$symtuner" top "$work/signal" | sed -n '/^collective/,/^$/p; /^ours/,$p' > "$work/out"
want "each call is counted once" "$work/out" <<'Y'
collective    bytes                calls  ours symmetric  general    ce registered  cheapest general
allreduce     64 B .. 128 B            2  100%         -        -     -          -  
allreduce     0 B .. 2 B               1    0%         -        -     -         0%  tree/ll 100%

ours: the share that the drop-in sent to our kernels. It left to NCCL:
  1 call: the call has no elements
Y
[ $failed = 0 ] && echo "dropin: the ledger is right"
exit $failed

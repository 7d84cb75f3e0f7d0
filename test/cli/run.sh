#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD - tests symtuner run without a GPU, with a program that counts calls as the drop-in
# does (run_program.c). The test checks what symtuner run sets and keeps, how it passes on signals
# and the program's end, and its summary. It does not check the drop-in itself.
# Exit 0: all right. 1: something failed. 77: no C compiler here to make the program with, or no
# python3 for a terminal (the rest was run).
set -u
build=$(cd "$1" && pwd) root=$PWD
cc=${CC:-cc}
command -v "$cc" > /dev/null || { echo "run.sh: skipped, no $cc here"; exit 77; }
work=$(mktemp -d) && work=$(cd "$work" && pwd -P) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 checked=0
ok() { # ok WHAT STATUS: counts a check, which has failed unless STATUS is 0
    checked=$((checked + 1))
    [ "$2" -eq 0 ] || { echo "FAIL $1"; failed=1; }
}
# Make an installed tree. Its drop-in is an empty library, which any program can load.
mkdir -p "$work/bin" "$work/lib" "$work/empty/bin"
cp "$build/symtuner" "$work/bin/" && cp "$build/symtuner" "$work/empty/bin/" || exit 1
cp "$build/libsymtuner.so" "$work/lib/" && : | "$cc" -shared -fPIC -x c -o "$work/lib/libsymtuner_nccl.so" - && : > "$work/lib/libsymtuner_ar.so" || exit 1
"$cc" -std=c11 -D_GNU_SOURCE -I. -Iinclude -o "$work/program" test/cli/run_program.c dropin/tally.c || exit 1
"$cc" -std=c11 -D_GNU_SOURCE -I. -Iinclude -o "$work/run_job" test/cli/run_job.c cli/run/job.c dropin/tally.c || exit 1
symtuner=$work/bin/symtuner program=$work/program
cd "$work" || exit 1
clean="env -i PATH=$PATH LC_ALL=C HOME=$work ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0"
run() { # run [NAME=VALUE ...] COMMAND: runs COMMAND in an environment of its own
    $clean "$@"
}
has() { # has VARIABLE VALUE: checks what the file env sets VARIABLE to; VALUE may be a pattern
    got=$(sed -n "s/^$1=//p" env)
    case $got in $2) true ;; *) false ;; esac
    ok "$what: $1=$got, not $2" $?
}
none() { ! grep -q "^$1=" env; ok "$what: $1 is set: $(grep "^$1=" env)" $?; }
sets() { # sets WHAT [NAME=VALUE ...] [--OPTION]: leaves the program's environment in the file env
    what=$1
    shift
    settings= options=
    while [ $# -gt 0 ]; do
        case $1 in --*) options="$options $1" ;; *) settings="$settings $1" ;; esac
        shift
    done
    # shellcheck disable=SC2086
    run $settings "$symtuner" run $options -- env > env 2> err
    ok "$what: $(cat err)" $?
}
plugin=$work/lib/libsymtuner.so dropin=$work/lib/libsymtuner_nccl.so

# ---- what it sets, and keeps ---------------------------------------------------------------------
sets plain
has NCCL_ENV_PLUGIN "$plugin"
has NCCL_TUNER_PLUGIN "$plugin"
has LD_PRELOAD "$dropin"
has SYMTUNER_AR_IPC auto; has SYMTUNER_JAX 1
has SYMTUNER_RUN_FILE '/*/symtuner-job-*'
for name in NCCL_PROFILER_PLUGIN SYMTUNER_MODE SYMTUNER_NEXT_TUNER SYMTUNER_VERIFY SYMTUNER_ONLY SYMTUNER_AR_MAX_CTAS; do
    none $name
done
[ "$(head -1 err)" = "symtuner run: plugin, drop-in, JAX route" ]
ok "the line says: $(head -1 err)" $?
sets ledger SYMTUNER_LEDGER=/tmp/l
has NCCL_PROFILER_PLUGIN "$plugin"
sets other NCCL_TUNER_PLUGIN=libfoo.so SYMTUNER_LEDGER=/tmp/l NCCL_PROFILER_PLUGIN=inspector LD_PRELOAD="$work/lib/libsymtuner.so"
has NCCL_TUNER_PLUGIN "$plugin"
has SYMTUNER_NEXT_TUNER libfoo.so
has SYMTUNER_NEXT_PROFILER inspector
has LD_PRELOAD "$dropin:$work/lib/libsymtuner.so"
grep -q 'behind the plugin: NCCL_TUNER_PLUGIN=libfoo.so' err
ok "the line says what goes behind: $(cat err)" $?
sets none NCCL_TUNER_PLUGIN=none NCCL_ENV_PLUGIN=/opt/libother.so SYMTUNER_JAX=0
has NCCL_TUNER_PLUGIN none
has NCCL_ENV_PLUGIN /opt/libother.so
has SYMTUNER_JAX 0
grep -q 'kept: NCCL_ENV_PLUGIN=/opt/libother.so; kept: NCCL_TUNER_PLUGIN=none' err
ok "the line says what is kept: $(cat err)" $?
deep=$work/$(printf '%0200d/%0200d' 0 0) # NCCL cuts names of more than 254 bytes
mkdir -p "$deep/bin" "$deep/lib" && cp "$build/symtuner" "$deep/bin/" && cp "$work"/lib/*.so "$deep/lib/"
symtuner=$deep/bin/symtuner
sets deep NCCL_TUNER_PLUGIN=libfoo.so
none NCCL_ENV_PLUGIN
has NCCL_TUNER_PLUGIN libfoo.so
none SYMTUNER_NEXT_TUNER
has LD_PRELOAD "$deep/lib/libsymtuner_nccl.so"
grep -q '^symtuner run: drop-in, JAX route; no plugin, since NCCL would cut its path, .*: /' err
ok "the line says why there is no plugin: $(cat err)" $?
symtuner=$work/bin/symtuner
sets policy NCCL_CTA_POLICY=1
none NCCL_TUNER_PLUGIN
has NCCL_ENV_PLUGIN "$plugin"
sets next NCCL_TUNER_PLUGIN=libfoo.so SYMTUNER_NEXT_TUNER=libbar.so
has NCCL_TUNER_PLUGIN libfoo.so
has SYMTUNER_NEXT_TUNER libbar.so
sets named NCCL_TUNER_PLUGIN=symtuner NCCL_ENV_PLUGIN=libsymtuner.so LD_PRELOAD="/none/a.so:$dropin"
has NCCL_TUNER_PLUGIN "$plugin" # most installations need the folder to find the library
has NCCL_ENV_PLUGIN "$plugin"
has LD_PRELOAD "/none/a.so:$dropin"
echo NCCL_TUNER_PLUGIN=libconf.so > "$work/.nccl.conf"
sets conf
has NCCL_TUNER_PLUGIN "$plugin"
has SYMTUNER_NEXT_TUNER libconf.so
rm "$work/.nccl.conf"
sets options --off --max-ctas=16 --verify=3 --only=dropin,allgather,allreduce,allgather
has SYMTUNER_MODE off
has SYMTUNER_AR_MAX_CTAS 16
has SYMTUNER_VERIFY 3
has SYMTUNER_ONLY allreduce,allgather
none NCCL_ENV_PLUGIN
none SYMTUNER_JAX
none SYMTUNER_RUN_FILE
[ "$(cat err)" = "symtuner run: drop-in; all of it off: SYMTUNER_MODE=off" ]
ok "off: $(cat err)" $?
# each variable must be one that symtuner knows, or symtuner would report it as misspelt
run SYMTUNER_LEDGER=/tmp/l NCCL_TUNER_PLUGIN=a NCCL_PROFILER_PLUGIN=b \
    "$symtuner" run --print --off --max-ctas 1 --verify 1 --only plugin,dropin,jax,allgather > print
[ "$(grep -c ^export print)" = 12 ]
ok "all settings: $(cat print)" $?
for name in $(sed -n 's/^export \(SYMTUNER_[A-Z_]*\)=.*/\1/p' print); do
    "$symtuner" env --json | grep -q "\"$name\"" || grep -q "\"$name\"" "$root"/nccl/variables.c "$root"/kernels/host/options.c
    ok "$name is a variable" $?
done
sets off --off --only=jax # the JAX package reads SYMTUNER_MODE: test/jax/install/test_mode.py
has SYMTUNER_JAX 1
has SYMTUNER_MODE off
sets collectives --only=allreduce
has SYMTUNER_JAX 1
sets plugin --only=plugin
none LD_PRELOAD
none SYMTUNER_RUN_FILE
[ "$(cat err)" = "symtuner run: plugin" ]
ok "only the plugin: $(cat err)" $?
run "$work/empty/bin/symtuner" run -- env > env 2> err
what=missing
none LD_PRELOAD
none NCCL_ENV_PLUGIN
[ "$(head -1 err)" = "symtuner run: JAX route; no plugin: libsymtuner.so is not beside symtuner; no drop-in: libsymtuner_nccl.so is not beside symtuner" ]
ok "libraries that are missing: $(cat err)" $?
mkdir lib64 && mv lib/*.so lib64/ && run "$symtuner" run -- env > env 2> err
what=lib64
has LD_PRELOAD "$work/lib64/libsymtuner_nccl.so"
has NCCL_ENV_PLUGIN "$work/lib64/libsymtuner.so"
mv lib64/*.so lib/ || exit 1
mkdir "with space" && cp "$build/symtuner" lib/*.so "with space/" && run "with space/symtuner" run -- env > env 2> err
what="a path with a space"
none LD_PRELOAD
has NCCL_ENV_PLUGIN "$work/with space/libsymtuner.so"
grep -q 'no drop-in, since its path has a space or colon: ' err
ok "$what: $(cat err)" $?

# ---- twice, and --print --------------------------------------------------------------------------
plain() { grep -v '^SYMTUNER_RUN_FILE=\|^_=\|^PWD=\|^SHLVL=\|^OLDPWD=' "$1" | sort; }
cat > print.sh <<'X'
lines=$("$1" run --print) && eval "$lines"
"$1" run --print > again
env
X
for settings in A=1 "NCCL_TUNER_PLUGIN=it's \"odd\"" 'LD_PRELOAD=/none/$HOME`x`:/none/é'; do
    run "$settings" "$symtuner" run --quiet -- env > once 2> err
    run "$settings" "$symtuner" run -- "$symtuner" run -- env > twice 2> err
    run "$settings" sh print.sh "$symtuner" > printed 2> err
    plain once > one
    plain twice | cmp -s - one
    ok "twice is once, with $settings" $?
    plain printed | cmp -s - one
    ok "sh reads --print, with $settings" $?
    ! grep -q '^export' again
    ok "a second --print has nothing to set, with $settings: $(cat again)" $?
done
what="a plain one inside --only plugin"
run "$symtuner" run --only plugin -- "$symtuner" run -- env > env 2> err
none LD_PRELOAD
none SYMTUNER_JAX
has NCCL_ENV_PLUGIN "$plugin"
what="--only dropin inside --only plugin, and a plain one in that"
run "$symtuner" run --only plugin -- "$symtuner" run --only dropin -- "$symtuner" run -- env > env 2> err
has LD_PRELOAD "$dropin"
none SYMTUNER_JAX
what="all parts inside --only plugin, and a plain one in that"
run "$symtuner" run --only plugin -- "$symtuner" run --only plugin,dropin,jax -- "$symtuner" run -- env > env 2> err
has LD_PRELOAD "$dropin"
has SYMTUNER_JAX 1
run LD_PRELOAD="$(printf '/none/\033[31m')" "$symtuner" run --print > out 2> err
[ $? = 1 ] && grep -q 'LD_PRELOAD cannot be printed' err
ok "--print and a control character: $(cat -v err)" $?

# ---- the program's end ---------------------------------------------------------------------------
ends() { # ends STATUS ARGUMENTS: checks the exit status of symtuner run
    want=$1
    shift
    run "$symtuner" run --quiet -- "$@" > out 2> err
    got=$?
    [ "$got" = "$want" ]
    ok "exit status of $* is $got, not $want: $(cat err)" $?
}
no_file="No such file or directory"
ends 0 true; [ ! -s err ]
ok "--quiet: $(cat err)" $?
ends 3 "$program" exit 3; ends 7 "$program" _exit 7
ends 137 "$program" kill 9; ends 143 "$program" kill 15
ends 139 sh -c 'ulimit -c 0; kill -SEGV $$'
ends 127 /none/program; ends 127 ""; ends 126 "$work"
echo text > text; echo > a.py; echo '#!/bin/sh' > tool; chmod +x tool
for case in "127 none: $no_file" "127 text: $no_file" "126 ./text: Permission denied" "127 tool: $no_file; write ./tool" \
    "127 a.py: $no_file; write python3 a.py" "126 ./a.py: Permission denied; write python3 ./a.py"; do
    name=${case#* }
    ends "${case%% *}" "${name%%:*}"; [ "$(cat err)" = "symtuner run: $name" ]
    ok "$name: $(cat err)" $?
done
ends 0 echo -- --help --only
[ "$(cat out)" = "-- --help --only" ]
ok "the program's arguments: $(cat out)" $?
[ "$(echo in | run "$symtuner" run --quiet -- cat)" = in ]
ok "stdin reaches the program" $?
if command -v python3 > /dev/null; then
    for number in 2 9 11 15; do # a shell cannot tell death by a signal from an exit with 128 and more
        # if this test is a background job of a shell, SIGINT is ignored; env resets it
        run python3 -c 'import subprocess, sys; print(subprocess.run(sys.argv[1:]).returncode)' \
            env --default-signal=INT "$symtuner" run -- "$program" count 1 kill $number > out 2> err
        [ "$(cat out)" = -$number ]
        ok "signal $number kills symtuner run, too: $(cat out)" $?
        grep -q ' process called NCCL ' err
        ok "the summary before signal $number: $(cat err)" $?
    done
fi
(trap '' CHLD && run "$symtuner" run --quiet -- sh -c 'exit 5')
[ $? = 5 ]
ok "a status, although SIGCHLD is ignored" $?
cp "$(command -v env)" setuid && chmod 755 setuid
if [ "$(id -u)" = 0 ] && chown 65534 setuid && chmod u+s setuid; then
    run "$symtuner" run -- ./setuid > env 2> err
    grep -q '; the program is setuid or setgid, and so runs without the drop-in$' err
    ok "a setuid program is named: $(cat err)" $?
fi

# $clean makes symtuner itself the background process. The function run would start a shell in the
# background, and that shell would get the signals.
# ---- signals -------------------------------------------------------------------------------------
until_file() { i=0; while [ ! -e "$1" ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done; }
for signal in TERM HUP USR1 USR2 INT QUIT ALRM; do
    rm -f ready
    # python3 and sh start background jobs with SIGINT and SIGQUIT ignored; env resets both signals
    $clean "$symtuner" run --quiet -- env --default-signal=INT,QUIT sh -c \
        "trap 'exit 9' $signal; : > ready; while :; do sleep 0.05; done" &
    pid=$!
    until_file ready
    kill -s $signal $pid
    wait $pid 2> /dev/null
    [ $? = 9 ]
    ok "SIG$signal reaches the program" $?
done
rm -f ready
run "$symtuner" run --quiet -- sh -c 'trap "exit 9" USR1; kill -s USR1 $PPID; sleep 0.3; exit 4'
[ $? = 4 ]
ok "the program does not get back what it sends to its parent" $?
rm -f ready
# Use a new process group, because the test may run in an orphaned one, in which SIGTSTP stops
# nobody.
$clean python3 -c 'import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])' \
    "$symtuner" run --quiet -- sh -c 'echo $$ > pid; : > ready; exec sleep 30' &
pid=$!
until_file ready
state() { sed -n 's/^State:[^A-Z]*\([A-Z]\).*/\1/p' "/proc/$1/status" 2> /dev/null; }
in_state() { i=0; while ! case $(state "$1") in $2) true ;; *) false ;; esac && [ $i -lt 500 ]; do sleep 0.02; i=$((i + 1)); done; case $(state "$1") in $2) ;; *) false ;; esac; }
kill -s TSTP $pid
in_state $pid T && in_state "$(cat pid)" T
ok "SIGTSTP stops both" $?
kill -s CONT $pid
in_state $pid S && in_state "$(cat pid)" S
ok "SIGCONT continues both" $?
kill -s KILL $pid
wait $pid 2> /dev/null
in_state "$(cat pid)" '[XZ]' || [ -z "$(state "$(cat pid)")" ]
ok "SIGKILL of symtuner run ends the program, too" $?
rm -f ready # IPython and editors stop their whole group when they read Ctrl-Z
$clean python3 -c 'import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])' \
    "$symtuner" run --quiet -- sh -c 'echo $$ > pid; : > ready; kill -s TSTP 0; exit 6' &
pid=$!
until_file ready
in_state $pid T && in_state "$(cat pid)" T
ok "a program that stops its group stops both" $?
kill -s CONT $pid "$(cat pid)"
wait $pid 2> /dev/null
[ $? = 6 ]
ok "the program goes on after that" $?
timeout 20 $clean python3 -c 'import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])' \
    "$symtuner" run --quiet -- sh -c "trap '' TSTP; kill -s TSTP 0; sleep 1; exit 7"
[ $? = 7 ]
ok "a program that ignores the stop of its group goes on" $?

why() { sed -n "s/^ *X($1, \"\(.*\)\").*/\1/p" "$root/dropin/tally.h"; }
# ---- the summary ---------------------------------------------------------------------------------
mkdir -p shm
summary() { grep -v '^symtuner run: plugin, drop-in, JAX route$\|^Killed$\|^Terminated$' "$1"; } # the shell prints Killed and Terminated
once() { # once WHAT FILE: checks that FILE has exactly one summary
    [ "$(grep -c '^symtuner run: .* process' "$2")" = 1 ]
    ok "$1: not one summary: $(cat "$2")" $?
}
cat > want <<X
symtuner run: 1 process called NCCL 2.28.9
  allreduce          102 calls  102 MiB   99 by our kernels (97 %), 99 MiB
  allgather             1 call  1.5 KiB   all by our kernels
  broadcast             1 call      7 B   none by our kernels
  NCCL ran 3 calls: $(why GROUP)
  NCCL ran 1 call: $(why COLLECTIVE)
X
for end in 'exit 0' '_exit 3' 'kill 9' 'fork kill 15'; do
    # shellcheck disable=SC2086
    run "$symtuner" run -- "$program" fork count 99 more 2 $end 2> err
    summary err | diff want - > difference
    ok "the summary after $end: $(cat difference)" $?
done
run "$symtuner" run -- "$program" whys 2 2> err
cat > want <<X
symtuner run: 1 process called NCCL 2.28.9
  reduce              27 calls     27 B   none by our kernels
  NCCL ran 7 calls: $(why ARGUMENTS)
  NCCL ran 6 calls: $(why GROUP)
  NCCL ran 5 calls: $(why COLLECTIVE)
  NCCL ran 4 calls: $(why SLOWER)
  NCCL ran 5 calls for other reasons
X
summary err | diff want - > difference
ok "the reasons that come next are added up: $(cat difference)" $?
while read -r bytes text; do
    run "$symtuner" run -- "$program" sent "$bytes" 2> err
    grep -q "^  send  *1 call *$text   all by our kernels$" err
    ok "$bytes bytes are $text: $(cat err)" $?
done <<'X'
0 0 B
999 999 B
1000 1.0 KiB
10000 9.8 KiB
10240 10 KiB
1048575999 1000 MiB
5000000000000000 4.4 PiB
X
run "$symtuner" run -- sh -c "for n in 22809 23007 22809 23200 23301 23402; do '$program' nccl \$n; done" 2> err
[ "$(head -2 err | tail -1)" = "symtuner run: 6 processes called NCCL 2.28.9, 2.30.7, 2.32.0, 2.33.1" ]
ok "the first four releases of a job: $(cat err)" $?
run "$symtuner" run -- "$program" comm 2> err
cat > want <<X
symtuner run: 1 process called NCCL 2.28.9
  NCCL ran 1 communicator: $(why MISSING)
X
summary err | sed 's/([0-9]*)/(N)/' > got
{ cat want; echo '  run_program (N): rank 1 has no drop-in'; } | diff - got > difference
ok "a communicator that stays with NCCL: $(cat difference)" $?
run "$symtuner" run -- true 2> err
[ "$(summary err)" = "symtuner run: no process made an NCCL communicator under the drop-in, and none used the JAX route" ]
ok "no call: $(cat err)" $?
# if /dev/shm is too small, as in some containers, symtuner run must use another folder
small='mount -t tmpfs -o size=4k none /dev/shm && exec "$@"'
if run unshare -rm sh -c "$small" sh true 2> /dev/null; then
    run unshare -rm sh -c "$small" sh "$symtuner" run --only dropin -- true > /dev/null 2> err
    ok "a small /dev/shm: exit status" $?
    ! grep -q 'no summary' err && grep -q 'symtuner run: no process made' err
    ok "a small /dev/shm: $(cat err)" $?
fi
run "$symtuner" run --only jax -- "$program" jax 0 2> err
printf '%s\n' 'symtuner run: JAX route' 'symtuner run: 1 process used the JAX route' '  JAX route      no calls' > want
summary err | diff want - > difference
ok "the JAX route without a call: $(cat difference)" $?
run "$symtuner" run --only jax -- "$program" jax 3 2> err
cat > want <<X
symtuner run: JAX route
symtuner run: 1 process used the JAX route
  JAX route            3 calls  3.0 KiB   all by our kernels
X
summary err | diff want - > difference
ok "the JAX route alone: $(cat difference)" $?
run "$symtuner" run -- sh -c "'$program' jax 1; '$program' sent 7" 2> err
cat > want <<X
symtuner run: 2 processes called NCCL 2.28.9 or used the JAX route
  send                  1 call      7 B   all by our kernels
  JAX route             1 call  1.0 KiB   all by our kernels
X
summary err | diff want - > difference
ok "a process of JAX beside one with NCCL: $(cat difference)" $?
run "$symtuner" run -- "$program" jax 3 left 1 count 1 nccl 22809 2> err
cat > want <<X
symtuner run: 1 process called NCCL 2.28.9
  allreduce            2 calls  2.0 MiB   1 by our kernels (50 %), 1.0 MiB
  allgather             1 call  1.5 KiB   all by our kernels
  broadcast             1 call      7 B   none by our kernels
  JAX route            4 calls  4.0 KiB   3 by our kernels (75 %), 3.0 KiB
  NCCL ran 1 call: $(why COLLECTIVE)
  NCCL ran 1 call: $(why GROUP)
  1 call of the JAX route went into CUDA graphs, and counts once each time XLA records it
X
summary err | diff want - > difference
ok "the JAX route beside the drop-in: $(cat difference)" $?
run "$symtuner" run -- sh -c "'$program' count 1 kill 9; '$symtuner' run -- '$program' count 1; '$program' count 1 & wait" 2> err
once nested err
grep -q '^symtuner run: 3 processes called NCCL 2.28.9$' err && grep -q ' 6 calls .* 3 by our kernels (50 %)' err
ok "three processes: $(cat err)" $?
# ---- the estimate --------------------------------------------------------------------------------
estimate() { # estimate MACHINE STEPS: prints only the lines of the estimate
    machine=$1 && shift
    run SYMTUNER_MACHINE="$machine" "$symtuner" run -- sh -c "'$program' timed 1000 $* & '$program' timed 1000 $*; wait" 2> err
    sed -n '/^  estimated/,$p' err
}
two='gpu=NVIDIA H200; gpus=2; links=nvlink; multicast=no'
cat > want <<X
  estimated from all-reduces alone on 2 H200s (docs/run.md):
    2000 calls took about 4.7 ms less on each GPU
    6 calls in CUDA graphs take about 4.5 us less each, each time they run
X
estimate "$two" | diff want - > difference
ok "the estimate: $(cat difference)" $?
echo '    2 calls by our kernels are not estimated' >> want
estimate "$two" sent 7 | diff want - > difference
ok "the estimate beside other calls: $(cat difference)" $?
sed -i 's/ 2 calls by.*/ 8 calls by our kernels are not estimated; kernel tma_ipc ran 6 of them/' want
estimate "$two" sent 7 tma_ipc 3 | diff want - > difference
ok "the estimate beside calls of tma_ipc: $(cat difference)" $?
for box in 'gpu=NVIDIA H200; gpus=2; links=nvlink; multicast=yes' 'gpu=NVIDIA H200; gpus=8; links=nvlink; multicast=no' \
    'gpu=NVIDIA H200; gpus=2; links=nvlink' 'gpu=NVIDIA H100 80GB HBM3; gpus=2; links=nvlink; multicast=no'; do
    [ -z "$(estimate "$box")" ]
    ok "an estimate with $box: $(cat err)" $?
done
for steps in 'verified 1' 'ranks 3' 'ranks 4'; do
    [ -z "$(estimate "$two" "$steps")" ]
    ok "an estimate after $steps: $(cat err)" $?
done
run SYMTUNER_MACHINE="$two" "$symtuner" run -- sh -c "'$program' timed 9; '$program' timed 9 ranks 3" 2> err
ok "an estimate for processes whose communicators differ: $(cat err)" "$(grep -c estimated err)"
# A launcher starts each rank. The last rank to end prints for all, even if another was killed.
for n in 0 1 2; do
    $clean LOCAL_RANK=$n "$symtuner" run -- "$program" count 1 made up$n wait up0 wait up1 wait up2 wait go$n &
    eval "pid$n=\$!"
done 2> err
until_file up0 && until_file up1 && until_file up2
kill -s KILL $pid1
: > go1; : > go0
wait $pid0
: > go2
wait $pid2 $pid1 2> /dev/null
once "three ranks" err
grep -q '^symtuner run: 3 processes called NCCL 2.28.9$' err
ok "three ranks: $(cat err)" $?
[ "$(grep -c 'plugin, drop-in, JAX route' err)" = 1 ]
ok "one rank says what is set: $(cat err)" $?
run "$work/run_job" "${JOBS:-600}" > out
ok "jobs that end while others begin: $(cat out)" $?
# After a run its files are gone. The next run removes files that a killed run has left over.
left() { ls /dev/shm /tmp 2> /dev/null | grep -c "^symtuner-job-$(id -u)-$pid-"; }
rm -f ready
$clean "$symtuner" run --quiet -- sh -c ': > ready; exec sleep 30' &
pid=$!
until_file ready
kill -s KILL $pid
wait $pid 2> /dev/null
run "$symtuner" run --quiet -- true && [ "$(left)" = 0 ]
ok "the next run removes the file of a run that was killed" $?
run "$symtuner" run --quiet -- sh -c 'test -f "$SYMTUNER_RUN_FILE" && echo "$SYMTUNER_RUN_FILE"' > name
[ -s name ] && [ ! -e "$(cat name)" ]
ok "the file is removed: $(cat name)" $?
run "$symtuner" run -- sh -c 'head -c 8 "$SYMTUNER_RUN_FILE"; test -e /proc/$$/fd/2 && echo open' > out 2>&-
[ "$(cat out)" = syttally ]
ok "a closed stderr: the file begins with $(cat out)" $?
run SYMTUNER_RUN_FILE=/none/file "$symtuner" run -- "$program" count 1 2> err
once "the file of another box" err
# ---- a terminal ----------------------------------------------------------------------------------
if command -v python3 > /dev/null; then
    cat > terminal.py <<'X'
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "run", "--quiet", "--", sys.executable, "-c", """
import signal, sys, time
count = 0
def got(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, got)
print("ready", flush=True)
while not count:
    time.sleep(0.02)
time.sleep(0.5)
print("got", count, flush=True)
sys.exit(40 + count)
"""])
text = b""
while b"ready" not in text:
    text += os.read(terminal, 100)
os.write(terminal, b"\x03")
status = os.waitpid(pid, 0)[1]
sys.exit(os.waitstatus_to_exitcode(status))
X
    run python3 terminal.py "$symtuner"
    [ $? = 41 ]
    ok "Ctrl-C reaches the program once" $?
fi
[ "$failed" = 0 ] || exit 1
command -v python3 > /dev/null || { echo "run: $checked checks fine; skipped: a terminal, no python3 here"; exit 77; }
echo "run: $checked checks, all fine"

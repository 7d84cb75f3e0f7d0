#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symtuner_run.sh BUILD - symtuner run with the drop-in on stock NCCL and real GPUs. The programs of
# this folder, which know nothing of symtuner, must compute the same as without it, and the summary
# must say that our kernels ran. Exit 77 with the reason if this box cannot run it.
. "$(dirname "$0")/common.sh"
need_gpus 2
need_built nccl_coll nccl_ranks
for library in libsymtuner_nccl.so libsymtuner_ar.so; do
    [ -f "$build/$library" ] || skip "$build/$library is not built (make all kernels)"
done
symtuner=$build/symtuner

# job NAME STATUS OPTIONS... -- PROGRAM...: runs the program; its output goes to NAME.log, and the
# summary to NAME.err
job() {
    name=$1 want=$2
    shift 2
    "$symtuner" run --only dropin "$@" > "$work/$name.log" 2> "$work/$name.err"
    [ $? = "$want" ]
    ok "$name: exit status; $(cat "$work/$name.log" "$work/$name.err" | tail -3 | tr '\n' ' ')" $?
}
said() { # said NAME WHAT PATTERN
    grep -q -- "$3" "$work/$1.err"
    ok "$1: $2: $(tr '\n' ' ' < "$work/$1.err")" $?
}
ours='^  allreduce .* \(all\|[0-9][0-9]*\) by our kernels'

for ranks in 2 4; do
    [ "$gpus" -ge "$ranks" ] ||
        { echo "symtuner_run.sh: $ranks ranks not run: $gpus GPUs here"; continue; }
    coll="$build/nccl_coll --ranks $ranks --colls 7 --max 64M"
    processes="$build/nccl_ranks --ranks $ranks --limit 120"
    # shellcheck disable=SC2086
    {
        job threads$ranks 0 -- $coll --windows 0
        said threads$ranks "our kernels ran" "$ours"
        job windows$ranks 0 -- $coll --windows 1
        said windows$ranks "our kernels ran" "$ours"
        job verify$ranks 0 --verify 100 -- $coll --windows 0
        said verify$ranks "nothing differs" ' ran by our kernels and by NCCL, and 0 differed$'
        job ctas$ranks 0 --max-ctas 4 -- $coll --windows 0
        said ctas$ranks "our kernels ran" "$ours"
        job gather$ranks 0 --only dropin,allgather -- $coll --windows 0
        said gather$ranks "all-reduce is NCCL's" '^  allreduce .* none by our kernels$'
        job off$ranks 0 --off -- $coll --windows 0
        [ "$(grep -c 'symtuner run:' "$work/off$ranks.err")" = 1 ]
        ok "off$ranks: one line and no summary: $(cat "$work/off$ranks.err")" $?
        job processes$ranks 0 -- $processes
        said processes$ranks "all ranks are counted" "^symtuner run: $ranks processes called NCCL "
        said processes$ranks "our kernels ran" "$ours"
        job unlike$ranks 0 -- $processes 1:SYMTUNER_ONLY=allgather
        said unlike$ranks "NCCL runs all if a rank has another setting" \
            'different SYMTUNER_ variables'
        job killed$ranks 137 -- sh -c "$coll --windows 0; kill -9 \$\$"
        said killed$ranks "the summary survives SIGKILL" "$ours"
    }
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

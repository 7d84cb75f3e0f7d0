#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# all_ranks.sh NUMBER PROGRAM... - starts a process for each rank of a program that is linked with
# mpi.c. Exits with 0 if all processes did, otherwise with 1.
ONE_BOX_RANKS=$1 ONE_BOX_FILE=$(mktemp) bad=0 pids=
export ONE_BOX_RANKS ONE_BOX_FILE
shift
truncate -s 8M "$ONE_BOX_FILE"
rank=0
while [ $rank -lt "$ONE_BOX_RANKS" ]; do
    RANK=$rank ONE_BOX_RANK=$rank "$@" & pids="$pids $!"
    rank=$((rank + 1))
done
for pid in $pids; do wait "$pid" || bad=1; done
rm -f "$ONE_BOX_FILE"
exit $bad

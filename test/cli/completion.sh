#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# completion.sh BUILD - checks what bash would offer after some beginnings of a command line.
# Exit 0: all right. 1: something is missing. 77: no bash here.
set -u
command -v bash > /dev/null || { echo "completion.sh: skipped, no bash here"; exit 77; }
PATH=$(cd "$1" && pwd):$PATH bash -u -c '
. cli/completion.bash
failed=0
offers() { # offers WANTED WORD ...
    wanted=$1; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _symtuner
    case " ${COMPREPLY[*]:-} " in
    *" $wanted "*) ;;
    *) echo "FAIL $*: no $wanted among: ${COMPREPLY[*]:-}"; failed=1 ;;
    esac
}
offers doctor symtuner do
offers why symtuner ""
offers --version symtuner --v
offers --rounds symtuner tune --ro
offers --json symtuner agree -
offers allgather symtuner why allg
offers allgather symtuner table my.rules --coll allg
offers bf16 symtuner table my.rules --dtype b
offers --verify symtuner tune --ver
offers pcie symtuner decide allreduce 1KiB --links p
offers nvlink symtuner decide allreduce 1KiB --links n
offers calls symtuner top --sort c
offers h200x8 symtuner decide allreduce 1KiB --machine h
offers window symtuner decide allreduce 1KiB --buffers w
offers docs/example.rules symtuner decide allreduce 1KiB --rules docs/exa
offers decide symtuner help dec
offers docs/example.rules symtuner check docs/exa
offers dropin symtuner run --only d
offers --print symtuner run --quiet --pr
offers env symtuner run --off -- en
offers docs/example.rules symtuner run -- cat docs/exa
COMP_WORDS=(symtuner w) COMP_CWORD=1
_symtuner
case " ${COMPREPLY[*]} " in *" worker "*) echo "FAIL the hidden worker is offered"; failed=1 ;; esac
[ $failed = 0 ] && echo "completion: fine"
exit $failed'

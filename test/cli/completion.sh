#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# completion.sh BUILD - checks what bash, zsh and fish would offer after some beginnings of a
# command line. It runs make install first, because the completion files of zsh and fish read that
# of bash. Exit 0: all right. 1: something is missing. 77: no bash here.
set -u
command -v bash > /dev/null || { echo "completion.sh: skipped, no bash here"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MAKELEVEL MFLAGS
make -s install B="$1" PREFIX=/usr DESTDIR="$work" > /dev/null || exit 1
share=$work/usr/share
PATH=$(cd "$1" && pwd):$PATH
export share PATH

# Each line begins with what must be offered. Then come the words of the command line so far, of
# which the last is incomplete; _ is an empty word.
cat > "$work/cases" <<'END'
doctor symtuner do
why symtuner _
--version symtuner --v
--rounds symtuner tune --ro
--json symtuner agree -
allgather symtuner why allg
allgather symtuner table my.rules --coll allg
bf16 symtuner table my.rules --dtype b
--verify symtuner tune --ver
pcie symtuner decide allreduce 1KiB --links p
nvlink symtuner decide allreduce 1KiB --links n
calls symtuner top --sort c
h200x8 symtuner decide allreduce 1KiB --machine h
window symtuner decide allreduce 1KiB --buffers w
docs/example.rules symtuner decide allreduce 1KiB --rules docs/exa
decide symtuner help dec
docs/example.rules symtuner check docs/exa
dropin symtuner run --only d
--print symtuner run --quiet --pr
env symtuner run --off -- en
docs/example.rules symtuner run -- cat docs/exa
END

# Each script reads lines of words from standard input, and prints for each line the words that it
# offers.
cat > "$work/bash" <<'END'
. "$share/bash-completion/completions/symtuner"
set -u
while read -ra COMP_WORDS; do
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMP_WORDS[COMP_CWORD]=${COMP_WORDS[COMP_CWORD]#_}
    _symtuner
    echo "${COMPREPLY[*]:-}"
done
END
cat > "$work/zsh" <<'END'
fpath=("$share/zsh/site-functions" $fpath)
autoload -Uz compinit && compinit -D -u
compadd() { got+=("$@") } # the real compadd leaves out what does not begin like the word
words=(symtuner '') CURRENT=2
_symtuner # this also reads bash's file
while read -rA words; do
    CURRENT=$#words words[-1]=${words[-1]#_} PREFIX=${words[-1]#_} got=()
    _bash_complete -F _symtuner
    echo $got
done
END
cat > "$work/fish" <<'END'
source $share/fish/vendor_completions.d/symtuner.fish
while read line
    echo (complete -C (string replace -r '_$' '' -- $line))
end
END
failed=0
for shell in bash zsh fish; do
    case $shell in
    zsh) options=-f ;;
    fish) options=--no-config ;;
    *) options= ;;
    esac
    command -v $shell > /dev/null ||
        { echo "skip completion for $shell: it is not here"; continue; }
    cut -d' ' -f2- "$work/cases" | $shell $options "$work/$shell" > "$work/$shell.offers"
    [ "$(wc -l < "$work/$shell.offers")" = "$(wc -l < "$work/cases")" ] ||
        { echo "FAIL $shell: it stopped"; failed=1; }
    paste -d'|' "$work/cases" "$work/$shell.offers" | while IFS='|' read -r line offers; do
        case " $offers " in
        *" ${line%% *} "*) ;;
        *) echo "FAIL $shell: ${line#* }: no ${line%% *} among: $offers" ;;
        esac
        case " $offers " in *" worker "*) echo "FAIL $shell: the hidden worker is offered" ;; esac
    done > "$work/wrong"
    cat "$work/wrong"
    [ -s "$work/wrong" ] && failed=1
done
[ $failed = 0 ] && echo "completion: fine"
exit $failed

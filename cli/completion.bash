# SPDX-License-Identifier: Apache-2.0
# Completion of symtuner's commands and options for bash; commands and options come from --help, so
# that this file does not have to know them.

_symtuner()
{
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local program=${COMP_WORDS[0]} words=
    local colls="allreduce allgather reducescatter broadcast reduce"

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p') --help --version"
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        return
    fi
    case $before in
    --coll) COMPREPLY=($(compgen -W "$colls all" -- "$current")); return ;;
    --links) COMPREPLY=($(compgen -W "nvlink pcie" -- "$current")); return ;;
    --multicast | --peer) COMPREPLY=($(compgen -W "yes no" -- "$current")); return ;;
    --dtype) COMPREPLY=($(compgen -W "i8 u8 i32 u32 i64 u64 f16 f32 f64 bf16 f8e4m3 f8e5m2" -- "$current")); return ;;
    --sort) COMPREPLY=($(compgen -W "bytes calls size" -- "$current")); return ;;
    --op) COMPREPLY=($(compgen -W "sum prod max min avg premulsum" -- "$current")); return ;;
    --machine)
        words=$("$program" why --machine list 2>/dev/null | awk '{ print $1 }')
        COMPREPLY=($(compgen -W "list $words" -- "$current"))
        return ;;
    --rules | --svg | --out | --from | --verify | --ledger | --csv | --nccl | --corpus)
        COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
    if [[ $current == -* ]]; then
        words=$("$program" "$command" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*' | sort -u)
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    elif { [ "$command" = why ] || [ "$command" = decide ]; } && [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W "$colls" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -F _symtuner symtuner

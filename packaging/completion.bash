# SPDX-License-Identifier: Apache-2.0
# Completion of symtuner's commands and options for bash. Commands, options and most of their values
# come from --help, so that this file does not have to list them.

_symtuner()
{
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local program=${COMP_WORDS[0]} words= help=
    local colls="allreduce allgather reducescatter broadcast reduce"

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p') help --help --version"
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        return
    fi
    if [ "$command" = run ] && [[ " ${COMP_WORDS[*]:2:$((COMP_CWORD - 2))} " == *" -- "* ]]; then
        words=$([ "$before" = -- ] && compgen -c -- "$current"; compgen -f -- "$current")
        COMPREPLY=($words) # the user's program and its files
        return
    fi
    help=$("$program" "$command" --help 2>/dev/null)
    case $before in
    --coll) COMPREPLY=($(compgen -W "$colls all" -- "$current")); return ;;
    --dtype) COMPREPLY=($(compgen -W "i8 u8 i32 u32 i64 u64 f16 f32 f64 bf16 f8e4m3 f8e5m2" -- "$current")); return ;;
    --op) COMPREPLY=($(compgen -W "sum prod max min avg premulsum" -- "$current")); return ;;
    --only) COMPREPLY=($(compgen -W "plugin dropin jax allreduce reducescatter allgather" -- "$current")); return ;;
    --buffers) COMPREPLY=($(compgen -W "none comm window sym" -- "$current")); return ;;
    --machine)
        words=$("$program" why --machine list 2>/dev/null | awk '{ print $1 }')
        COMPREPLY=($(compgen -W "list $words" -- "$current"))
        return ;;
    --*) # the help says what follows an option: "--links pcie|nvlink", "--rules FILE"
        words=$(sed -n "s/^  $before \([^ ]*\).*/\1/p" <<< "$help")
        case $words in
        *FILE* | A*) COMPREPLY=($(compgen -f -- "$current")); return ;;
        *[a-z]\|*) COMPREPLY=($(compgen -W "${words//|/ }" -- "$current")); return ;;
        ?*) return ;;
        esac ;;
    esac
    if [ "$command" = help ]; then
        words=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    elif [[ $current == -* ]]; then
        words=$(sed -n 's/^  \(-h, \)\{0,1\}\(--[a-z][a-z-]*\).*/\2/p' <<< "$help")
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    elif { [ "$command" = why ] || [ "$command" = decide ]; } && [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W "$colls" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -F _symtuner symtuner

#compdef symtuner
# SPDX-License-Identifier: Apache-2.0
# Completion of symtuner's commands and options for zsh. It calls the function for bash, which asks
# --help.

autoload -Uz bashcompinit && bashcompinit
source "${${(%):-%x}:A:h}/../../bash-completion/completions/symtuner"
_bash_complete -F _symtuner

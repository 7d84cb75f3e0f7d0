# SPDX-License-Identifier: Apache-2.0
# Completion of symtuner's commands and options for fish. It calls the function for bash, which asks
# --help.

set -g __symtuner_bash (status dirname)/../../bash-completion/completions/symtuner

function __symtuner_offer
    bash -c '. "$0"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _symtuner; printf "%s\n" "${COMPREPLY[@]}"' \
        $__symtuner_bash (commandline --tokenize --cut-at-cursor --current-process) (commandline --current-token --cut-at-cursor)
end
complete --command symtuner --no-files --arguments '(__symtuner_offer)'

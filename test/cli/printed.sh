#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# printed.sh [TREE [PAGE...]] - runs the commands that README.md and pages of docs/ print for a
# shell, as printed, in TREE, or else in a clean clone of this repository.
#
# Each block ```sh of a page runs line by line in one shell, in the tree. HOME and the venv are new,
# and the pages share both. The script also provides what the blocks need: train.py, train_jax.py,
# and a torchrun and a sudo, which run their command. make installs below DESTDIR. Each command must
# end with 0, with two exceptions: symtuner doctor may find something (1), and commands that measure
# must say that they cannot measure here (77). Without PyPI, pages that use pip are skipped.
#
# pip compiles no kernels and "make kernels" is left out, unless AR_ARCHS names GPU generations.
# Exit 0: all right. 1: a command failed; its output follows.
set -u
tree=${1:-}
[ $# -gt 1 ] && shift && pages=$* ||
    pages="README.md docs/install.md docs/pytorch.md docs/run.md docs/dropin.md docs/cluster.md"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MAKELEVEL MFLAGS PYTHONPATH SYMTUNER_LIB_DIR
export AR_ARCHS="${AR_ARCHS-}" PIP_DISABLE_PIP_VERSION_CHECK=1
failed=0

if [ -z "$tree" ]; then
    tree=$work/symtuner
    git clone -q . "$tree" || { echo "printed: this is no git checkout"; exit 1; }
fi
echo 'print("trained")' > "$tree/train.py"
cp "$tree/train.py" "$tree/train_jax.py"
mkdir -p "$work/bin" "$work/home"
python3 -m venv "$work/venv" || exit 1
printf '#!/bin/sh\nfor word; do :; done\nexec python3 "$word"\n' > "$work/bin/torchrun"
printf '#!/bin/sh\nexec "$@"\n' > "$work/bin/sudo"
chmod +x "$work/bin/torchrun" "$work/bin/sudo"

# Turn the blocks of a page into a script. Before each command the script writes the command and its
# line number into the file NOW.
page_script()
{
    awk -v page="$1" '
        /^```sh$/ { inside = 1; print "("; next }
        /^```/ && inside { inside = 0; print ") || exit"; next }
        inside {
            if (line == "") first = FNR
            line = line $0
            if (sub(/\\$/, "", line)) next
            words = line
            gsub(/\047/, "\047\\\047\047", words)
            print "before \047" page ":" first ": " words "\047 && {"
            print line
            print "}; after $? || exit"
            line = ""
        }' "$1"
}

run_page()
{
    {
        cat << 'END'
before()
{
    echo "$1" > "$NOW"
    case $1 in
    *": make kernels"*) [ -n "$AR_ARCHS" ] || { echo "skip $1: AR_ARCHS is empty"; return 1; } ;;
    *": symtuner agree "*) echo "skip $1: no job has run"; return 1 ;;
    esac
    : > "$LOG"
    exec 3>&1 4>&2 > "$LOG" 2>&1
    ran=1
}
after()
{
    [ "$ran" = 1 ] || return 0
    exec 1>&3 2>&4
    ran=0
    case $1:$(cat "$NOW") in
    0:*train*.py*) grep -qx trained "$LOG" || return 1 ;;
    0:*) ;;
    1:*": symtuner doctor"*) ;;
    77:*": symtuner tune "* | 77:*": symtuner bench "*) ;;
    *) return 1 ;;
    esac
    echo "ok   $(cat "$NOW")"
}
ran=0
END
        page_script "$tree/$1" | sed "s|$tree/||"
    } > "$work/script"
    (cd "$tree" && NOW=$work/now LOG=$work/log HOME=$work/home DESTDIR=$work/root \
        PATH=$work/bin:$work/venv/bin:$PATH sh "$work/script") < /dev/null && return
    grep -qE 'No matching distribution|Could not find a version' "$work/log" &&
        { echo "skip $(cat "$work/now"): no PyPI here"; return; }
    echo "FAIL $(cat "$work/now")"
    sed 's/^/    /' "$work/log" | tail -20
    failed=1
}

for page in $pages; do
    run_page "$page"
done
[ $failed = 0 ] && echo "printed: all fine"
exit $failed

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# docs.sh - checks that the documentation is true. The examples print what the pages show. Generated
# pages are up to date. Man pages format without a warning. The pictures, and the table "Where
# things are" of CONTRIBUTING.md, match the sources.
#
# usage: docs.sh BUILD_FOLDER        (in the repository root)
#
# In a page, the script writes ```ini NAME (or csv, or text) to the file NAME. In ```console it runs
# each line "$ COMMAND", which must print the lines after it; a line "..." stands for any lines.
# Each page has one shell, in a folder of its own with build, docs and test in it.
# Exit 1: something is wrong; the output says what. A line "skip" names what the script cannot check
# on this machine.
set -u
root=$PWD
built=$1
build=$(cd "$1" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

bad=0 # 1: the current check has failed
pages=$(echo README.md CONTRIBUTING.md docs/*.md docs/*/*.md)

fail()
{
    echo "FAIL $*"
    failed=1
    bad=1
}

# End a check: print what holds, unless something failed.
fine()
{
    [ "$bad" = 0 ] && echo "ok   $*"
    bad=0
}

# ---- examples ------------------------------------------------------------------------------------

# Turn a page into a shell script that leaves the output of its N-th command in $out/N.got.
page_script()
{
    awk -v out="$work/out" '
        function shut() { if (expect) close(expect); expect = "" }
        /^```/ && fence == "" {
            fence = $1
            sub(/^```/, "", fence)
            if (fence == "") fence = "plain"
            if (fence ~ /^(ini|csv|text)$/ && $2 != "") {
                fence = "file"
                print "cat > " $2 " <<\"@@END@@\""
            }
            next
        }
        /^```/ {
            if (fence == "file") print "@@END@@"
            shut()
            fence = ""
            next
        }
        fence == "file" { print }
        fence == "console" && /^\$ / {
            shut()
            expect = out "/" ++n ".want"
            printf "" > expect
            print substr($0, 3) > (out "/" n ".command")
            close(out "/" n ".command")
            print FNR > (out "/" n ".line")
            close(out "/" n ".line")
            print "{ " substr($0, 3) "\n} > " out "/" n ".got 2>&1"
            next
        }
        fence == "console" && expect { print >> expect }
    ' "$1"
}

# Return whether the lines of $1 and of $2 agree. A line "..." in $1 stands for any lines.
lines_agree()
{
    awk '
        { sub(/[ \t]+$/, "") }
        NR == FNR { want[++wants] = $0; next }
        { got[++gots] = $0 }
        END {
            g = 1
            for (w = 1; w <= wants; w++) {
                if (want[w] == "...") {
                    if (w == wants) exit 0
                    while (g <= gots && got[g] != want[w + 1]) g++
                } else if (g > gots || got[g] != want[w]) {
                    exit 1
                } else {
                    g++
                }
            }
            exit g <= gots
        }' "$1" "$2"
}

check_page()
{
    page=$1
    rm -rf "$work/out" "$work/cwd"
    mkdir -p "$work/out" "$work/cwd"
    page_script "$page" > "$work/script"
    (
        for name in $(env | sed -nE 's/^((SYMTUNER|NCCL)_[A-Z_]*|MAKE[A-Z]*|MFLAGS)=.*/\1/p'); do
            unset "$name"
        done
        export PATH="$build:$PATH" ROOT="$root" GPU=0 LC_ALL=C
        export LD_LIBRARY_PATH="$build" # the examples name libsymtuner.so without its path
        export SYMTUNER_MACHINE="gpu=unknown"
        cd "$work/cwd" || exit 1
        ln -s "$build" build && ln -s "$root/docs" docs && ln -s "$root/test" test
        make() { command make -s --no-print-directory -C "$root" B="$built" GPU=0 "$@"; }
        . "$work/script"
    )
    n=0
    for want in "$work/out"/*.want; do
        [ -f "$want" ] || break
        got=${want%.want}.got
        n=$((n + 1))
        [ -f "$got" ] || : > "$got"
        lines_agree "$want" "$got" && continue
        fail "$page:$(cat "${want%.want}.line"): $(cat "${want%.want}.command")"
        diff "$want" "$got" | sed 's/^/    /'
    done
    [ "$n" -gt 0 ] || fail "$page: no example was found in it"
    fine "$page: $n commands print what it shows"
}

# ---- the rest ------------------------------------------------------------------------------------

# Print the headings of a page as GitHub names them in links.
heads()
{
    sed -n 's/^#\{1,\} //p' "$1" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g'
}

# Check that every relative link of a page leads to a file, and to a heading in it.
check_links()
{
    for page in *.md docs/*.md docs/*/*.md examples/*.md examples/*/*.md test/data/README.md \
            bench/results/*.md bench/results/*/README.md; do
        for link in $(grep -oE '\]\([^)#]+' "$page" | sed 's/^](//' | grep -v '^http'); do
            [ -e "$(dirname "$page")/$link" ] || fail "$page: the link $link leads nowhere"
        done
        for link in $(grep -oE '\]\([^) ]*#[^)]+' "$page" | sed 's/^](//' | grep -v '^http'); do
            target=${link%%#*}
            heads "${target:+$(dirname "$page")/}${target:-$page}" | grep -qxF "${link#*#}" ||
                fail "$page: the link $link leads to no heading"
        done
    done
    # Each `folder/file.c` that a page names must exist. Notes on runs, in bench/results, may name
    # old files.
    for name in $(grep -ohE '`[a-z]+/[A-Za-z0-9_./-]+\.(c|h|cu|cuh|sh|py|md)`' $pages | tr -d '`' |
            grep -v '^xla/\|[A-Z]\{4\}' | sort -u); do
        [ -e "$name" ] || [ -e "include/$name" ] || [ -e "plugin/$name" ] ||
            fail "the pages name $name, which is no file"
    done
    # a folder that pip is to install has a pyproject.toml
    for name in $(grep -ohE 'pip install \./[A-Za-z0-9_/-]+' $pages examples/*/*.md |
            sed 's/.* //' | sort -u); do
        [ -f "$name/pyproject.toml" ] || fail "the pages install $name, which pip cannot"
    done
    # code, messages, headers and man pages name pages by their path
    for name in $(git ls-files | grep -v '^bench/results/' |
            xargs grep -ohE 'docs/[a-z/-]+\.(md|rules)' 2> /dev/null | sort -u); do
        [ -e "$name" ] ||
            fail "the sources name $name, which is no page: $(git grep -lF "$name" | tr '\n' ' ')"
    done
    fine "links between the pages lead somewhere, and the files that they name are there"
}

# Check that README and the manuals, which are for users, have no notes on single runs, such as the
# time or the commit. These belong in bench/results/.
check_notes()
{
    for page in $pages; do
        {
            grep -n '[0-9] UTC' "$page"
            # a commit is seven hexadecimal digits, with letters and numbers among them
            grep -nowE '[0-9a-f]{7}' "$page" | awk -F: '$2 ~ /[0-9]/ && $2 ~ /[a-f]/'
        } > "$work/text"
        [ -s "$work/text" ] &&
            {
                fail "$page has notes on single runs; they belong to bench/results/"
                cat "$work/text"
            }
    done
    fine "README and the manuals have no notes on single runs"
}

# Check that no page has more than 1,800 words, except two pages with tables that a command prints.
check_lengths()
{
    for page in $pages; do
        case $page in docs/env.md | docs/reference/findings.md) continue ;; esac
        words=$(wc -w < "$page")
        [ "$words" -le 1800 ] ||
            fail "$page has $words words; split it by reader and task, 1,800 is the limit"
    done
    fine "no page has more than 1,800 words but the generated ones"
}

# Check that docs/README.md has every page, and that a page says in its first lines whom it is for.
check_index()
{
    for page in docs/*.md docs/*/*.md; do
        [ "$page" = docs/env.md ] || sed 6q "$page" | grep -q '^For ' ||
            fail "$page does not say for whom it is: \"For ...\" in its first lines"
        [ "$page" = docs/README.md ] || grep -qF "](${page#docs/})" docs/README.md ||
            fail "docs/README.md does not list $page"
    done
    fine "docs/README.md lists every page, and each page says for whom it is"
}

check_env_page()
{
    (unset SYMTUNER_MACHINE; "$build/symtuner" env --markdown) > "$work/env.md"
    if diff -u docs/env.md "$work/env.md"; then
        fine "docs/env.md is what symtuner env --markdown prints"
    else
        fail "docs/env.md is old: build/symtuner env --markdown > docs/env.md"
    fi
    # the page lists variables of the JAX package, too, because the plugin warns about any other
    # SYMTUNER_ variable
    for name in $(grep -oh 'SYMTUNER_[A-Z_]*[A-Z]' jax/symtuner/*.py | sort -u); do
        case $name in SYMTUNER_AR_*) continue ;; esac
        grep -q "^| \`$name\` |" "$work/env.md" ||
            fail "jax/symtuner reads $name, and symtuner env does not list it"
    done
    bad=0
}

check_times()
{
    command -v python3 > /dev/null || return
    python3 bench/run_times.py > "$work/times.h"
    cmp -s cli/run/times.h "$work/times.h" ||
        fail "cli/run/times.h is old: python3 bench/run_times.py > cli/run/times.h"
    fine "cli/run/times.h is what bench/run_times.py prints"
}

check_doctor_page()
{
    "$build/symtuner" doctor --list > "$work/list"
    sed -n '/^| finding/,$p' docs/reference/findings.md > "$work/page"
    if diff -u "$work/page" "$work/list"; then
        fine "docs/reference/findings.md ends with what symtuner doctor --list prints"
    else
        fail "docs/reference/findings.md is old:" \
            "its table is what build/symtuner doctor --list prints"
    fi
    bad=0
}

check_rules_files()
{
    for file in docs/example.rules test/demo/demo.rules; do
        "$build/symtuner" check "$file" > "$work/text" 2>&1 ||
            fail "$file: $(cat "$work/text")"
    done
    fine "docs/example.rules and test/demo/demo.rules are legal and without findings"
}

check_man_pages()
{
    version=$("$build/symtuner" --version | cut -d ' ' -f 2)
    if command -v mandoc > /dev/null; then
        lint() { mandoc -T lint -W warning "$1"; }
    elif command -v groff > /dev/null; then
        lint() { groff -man -ww -z -K utf-8 "$1"; }
    else
        echo "skip man pages: neither mandoc nor groff is here (apt-get install groff)"
        return
    fi
    for page in docs/man/*.[1-8]; do
        grep -q "\"symtuner $version\"" "$page" || fail "$page is not of version $version"
        lint "$page" > "$work/text" 2>&1
        [ -s "$work/text" ] && { fail "$page"; sed 's/^/    /' "$work/text"; }
    done
    fine "man pages format without a warning"
}

# Check that the C program of docs/kernels.md compiles. If the library is built, the program must
# also link, and run on 2 GPUs.
check_c_example()
{
    cuda=${CUDA_HOME:-/usr/local/cuda}
    sed -n '/^```c use\.c/,/^```$/p' docs/kernels.md | sed '1d;$d' > "$work/use.c"
    [ -s "$work/use.c" ] || fail "docs/kernels.md: use.c was not found in it"
    if ! echo '#include <cuda_runtime_api.h>
#include <nccl.h>' | ${CC:-cc} -I"$cuda/include" -fsyntax-only -xc - 2> /dev/null; then
        echo "skip use.c of docs/kernels.md: no CUDA or NCCL headers here"
        return
    fi
    set -- "$work/use.c" -std=c11 -Wall -Wextra -Werror -Iinclude -I"$cuda/include"
    if [ ! -f "$build/libsymtuner_ar.so" ]; then
        ${CC:-cc} "$@" -fsyntax-only || fail "docs/kernels.md: use.c does not compile"
        fine "use.c of docs/kernels.md compiles"
        return
    fi
    ${CC:-cc} "$@" -o "$work/use" -L"$build" -lsymtuner_ar -L"$cuda/lib64" -lcudart \
        -Wl,-rpath,"$build" || fail "docs/kernels.md: use.c does not compile and link"
    if [ "$(nvidia-smi -L 2> /dev/null | grep -c '^GPU')" -ge 2 ]; then
        [ "$("$work/use")" = all-reduced ] || fail "docs/kernels.md: use.c does not run"
    elif "$work/use" > "$work/text" 2>&1 || ! [ -s "$work/text" ]; then
        fail "docs/kernels.md: use.c says nothing where there are no GPUs"
    fi
    fine "use.c of docs/kernels.md compiles, links and runs" \
        "($(head -c 60 "$work/text" 2> /dev/null))"
}

# Check that both references of the rules language name each key.
check_keys()
{
    keys=$(sed -n '/^const struct st_key st_keys/,/^};/p' rules/keys.c | grep -v ST_KEY_GONE |
           sed -nE 's/^    (KEY\(|\{)"([a-z-]+)", .*/\2/p')
    [ "$(echo "$keys" | wc -l)" -ge 17 ] || fail "rules/keys.c: found only these keys:" $keys
    for key in $keys; do
        grep -q "\`$key\`" docs/reference/rules-language.md ||
            fail "docs/reference/rules-language.md does not name the key $key"
        sed 's/\\-/-/g' docs/man/symtuner-rules.5 | grep -qE "(^|[\" .])$key " ||
            fail "docs/man/symtuner-rules.5 does not name the key $key"
    done
    fine "docs/reference/rules-language.md and docs/man/symtuner-rules.5 name all keys"
}

check_demo_data()
{
    command -v xz > /dev/null || { echo "skip test/data/demo.csv: no xz here"; return; }
    xz -dc test/data/nccl-decisions.csv.xz | awk -F, -f test/data/demo.awk > "$work/demo.csv"
    if cmp -s "$work/demo.csv" test/data/demo.csv; then
        fine "test/data/demo.csv is part of the recording"
    else
        fail "test/data/demo.csv is not what demo.awk takes from the recording"
    fi
    bad=0
}

# Check that each picture is what its script draws.
check_pictures()
{
    for script in test/design.sh docs/pictures/*.sh; do
        picture=docs/pictures/$(basename "$script" .sh).svg
        [ "$script" != test/design.sh ] && ! command -v xz > /dev/null &&
            { echo "skip $picture: no xz here"; continue; }
        sh "$script" > "$work/picture" || fail "$script ends with an error"
        cmp -s "$picture" "$work/picture" || fail "$picture is old: sh $script > $picture"
    done
    fine "the pictures are what their scripts draw"
}

check_places()
{
    sh test/places.sh "$built" > "$work/text" || { fail "places.sh, see below"; cat "$work/text"; }
    fine "CONTRIBUTING.md says where things are"
}

check_includes()
{
    sh test/includes.sh || fail "includes.sh, see above"
    fine "includes point the way docs/design.md draws them"
}

for page in README.md docs/rules.md docs/reference/rules-language.md docs/ledger.md docs/why.md \
    docs/design/nccl-model.md docs/doctor.md docs/tune.md docs/run.md docs/nodes.md; do
    check_page "$page"
done
check_links
check_notes
check_lengths
check_index
check_c_example
check_env_page
check_times
check_doctor_page
check_rules_files
check_man_pages
check_keys
check_demo_data
check_pictures
check_places
check_includes
[ "$failed" = 0 ] && echo "docs: all fine"
exit "$failed"

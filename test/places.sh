#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# places.sh BUILD - checks the table "Where things are" of CONTRIBUTING.md.
#
# Each line of this table says where in the sources a topic is kept, as `file` `symbol`. The file
# must exist and hold the symbol. Then the function check_TOPIC checks that the program uses the
# rows at this place, and that no other file has a second table of the topic. Last, no line, no file
# and no folder may be larger than CONTRIBUTING.md allows. Run the script in the repository root.
# Exit 1: the output says which line is wrong, or which line lacks a check_TOPIC here.
set -u
build=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
product="include base nccl rules plugin kernels dropin cli jax bench"

wrong() { echo "FAIL CONTRIBUTING.md, $topic: $*"; failed=1; }
same() # WHAT FILE FILE: check that two files are equal, and not empty
{
    cmp -s "$2" "$3" || { wrong "$1"; diff "$2" "$3" | sed 's/^/    /'; }
    [ -s "$2" ] || wrong "found nothing to compare: $1"
}
# Print the literals that begin the rows of a table. The table begins after the line OPENING-LINE.
rows() # FILE OPENING-LINE
{
    awk -v open="$2" 'inside && /^}/ { exit } inside; index($0, open) { inside = 1 }' "$1" |
        sed -nE 's/^ *(KEY\(|X\(|\{)"([^"]+)".*/\2/p'
}

check_collective()
{
    grep -rlE '"(all-reduce|all-gather|reduce-scatter)' jax --include=*.c > "$work/tables"
    [ "$(cat "$work/tables")" = jax/hlo/call.c ] ||
        wrong "others name them, too: $(cat "$work/tables")"
}

check_model()
{
    grep -q 'symtuner_predict(' cli/why/*.c || wrong "symtuner why does not ask symtuner_predict"
    ! grep -rl '"nccl/model/' plugin rules kernels || wrong "only the command may use the model"
}

check_release()
{
    grep -rlE 'struct st_era [a-z_]+\[\]' $product > "$work/tables"
    [ "$(cat "$work/tables")" = nccl/release.c ] ||
        wrong "other tables of eras: $(cat "$work/tables")"
    grep -q 'return &eras\[' nccl/release.c || wrong "st_era_of does not answer from eras"
}

check_fault()
{
    sed -nE 's/^    X\("(nccl-[a-z-]+)".*/\1/p' nccl/hazards.h | sort > "$work/rows"
    "$build/symtuner" doctor --list | grep -oE '^\| `nccl-[a-z-]+`' | tr -d '|` ' |
        sort > "$work/listed"
    [ -z "$(comm -23 "$work/rows" "$work/listed")" ] ||
        wrong "the doctor does not list $(comm -23 "$work/rows" "$work/listed")"
    [ -s "$work/rows" ] || wrong "no rows in ST_HAZARD_MAP"
    for row in $(cat "$work/rows"); do
        for file in $(grep -rl "\"$row\"" $product | grep -v 'hazards\.h$\|\.pyc$'); do
            # test/nccl/hazards.py compares the copy in the JAX package
            [ "$file" = jax/symtuner/_check.py ] || wrong "$file names $row, too"
        done
    done
}

check_variable()
{
    sed -n '/^#define ST_OPTION_MAP/,/^$/p' plugin/options.h | grep -oE '"SYMTUNER_[A-Z_]+"' |
        tr -d '"' | sort > "$work/rows"
    "$build/symtuner" env --markdown | grep -oE '^\| `SYMTUNER_[A-Z_]+`' | tr -d '|` ' |
        sort > "$work/listed"
    same "symtuner env lists other variables than ST_OPTION_MAP" "$work/rows" "$work/listed"
    sed -n '/^#define KERNEL_MAP/,/^$/p' nccl/variables.c | grep -oE '"SYMTUNER_AR_[A-Z_]+"' |
        sort > "$work/rows_ar"
    grep -oE '"SYMTUNER_AR_[A-Z_]+"' kernels/host/options.c | sort -u > "$work/read"
    same "the kernels read other variables than KERNEL_MAP has rows" "$work/rows_ar" "$work/read"
    for name in $(grep -rhoE 'getenv\("SYMTUNER_[A-Z_]+"' plugin rules nccl cli kernels |
            sed 's/.*"\(.*\)"/\1/' | grep -v SYMTUNER_AR_ | sort -u); do
        grep -qx "$name" "$work/rows" || wrong "getenv reads $name, which is no row"
    done
}

check_option()
{
    for command in $("$build/symtuner" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
        for option in $("$build/symtuner" "$command" --help |
                sed -n 's/^  \(-h, \)\{0,1\}--\([a-z][a-z-]*\).*/\2/p'); do
            [ "$option" = help ] || grep -rqF "{\"$option\"," cli ||
                wrong "no row for --$option of $command"
        done
    done
    # only cli/gpu/worker.c may read its own command line, because only other commands start it
    ! grep -rlE 'getopt|strcmp\(argv' cli | grep -v cli/gpu/worker.c ||
        wrong "a command reads its line by itself"
}

check_command()
{
    rows cli/main.c '} commands[] = {' | sort > "$work/rows"
    "$build/symtuner" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | sort > "$work/listed"
    [ -z "$(comm -13 "$work/rows" "$work/listed")" ] ||
        wrong "no row for $(comm -13 "$work/rows" "$work/listed")"
}

check_key()
{
    rows rules/keys.c 'st_keys[] = {' > "$work/rows"
    [ "$(wc -l < "$work/rows")" -ge 17 ] || wrong "found only these keys:" $(cat "$work/rows")
    grep -q '= st_keys' rules/hash.c || wrong "the hash does not go by st_keys"
    grep -rlE 'struct st_key [a-z_]+\[\]' $product | grep -v '\.h$' > "$work/tables"
    [ "$(cat "$work/tables")" = rules/keys.c ] ||
        wrong "other tables of keys: $(cat "$work/tables")"
}

check_tuner()
{
    sed -nE 's/^EXPORT\(([0-9]+),.*/ncclTunerPlugin_v\1/p' plugin/abi/tuner.c | sort > "$work/rows"
    nm -D --defined-only "$build/libsymtuner.so" | grep -oE 'ncclTunerPlugin_v[0-9]+' |
        sort > "$work/exported"
    same "rows and exported tuner versions differ" "$work/rows" "$work/exported"
    grep -o 'ncclTunerPlugin_v[0-9]*' test/golden/symbols.txt | sort > "$work/golden"
    same "test/golden/symbols.txt has other tuner versions" "$work/rows" "$work/golden"
    # the page shows some lines as removed (-); each must still be in the sources
    sed -n '/^```diff/,/^```/p' CONTRIBUTING.md | sed -n 's/^-  *//p' |
        grep -v '\.\.\.' > "$work/old"
    while read -r line; do
        grep -rqF -- "$line" plugin nccl include || wrong "no file has the line: $line"
    done < "$work/old"
}

check_finding()
{
    for file in setting_rows plugin_rows dropin box gpu_rows; do
        sed -n '/^const struct st_finding st_findings/,/^};/p' "cli/doctor/$file.c"
    done > "$work/tables"
    for id in $("$build/symtuner" doctor --list | sed -nE 's/^\| `([a-z0-9-]+)`.*/\1/p'); do
        [ "$(grep -cF "\"$id\"" "$work/tables")" = 1 ] || grep -qF "X(\"$id\"" nccl/hazards.h ||
            wrong "no row for the finding $id"
    done
}

check_default()
{
    sed -nE 's/^    X\([0-9]+, "([0-9.]+)", ([0-9]+)\).*/\2 x \1/p' plugin/defaults.c |
        sort > "$work/rows"
    "$build/symtuner" env --defaults | sed -nE 's/^# +([0-9]+) x .*NCCL ([0-9.]+)$/\1 x \2/p' |
        sort > "$work/listed"
    same "symtuner env --defaults prints other boxes than MEASURED" "$work/rows" "$work/listed"
}

check_forwarded()
{
    sed -nE 's/^    X\(([A-Z][A-Za-z]+)[,)].*/nccl\1/p' dropin/entry/known.h | sort > "$work/rows"
    nm -D --defined-only "$build/libsymtuner_nccl.so" | grep -oE '\bnccl[A-Za-z]+$' |
        sort > "$work/exported"
    same "libsymtuner_nccl.so exports other functions than the maps have rows" "$work/rows" \
        "$work/exported"
}

check_reason()
{
    for reason in $(sed -n '/^#define ST_TALLY_WHY_MAP/,/^$/p' dropin/tally.h |
            sed -nE 's/^    X\(([A-Z_]+),.*/\1/p'); do
        grep -rqw "ST_WHY_$reason" --include='*.c' dropin ||
            wrong "nothing gives the reason $reason"
    done
}

# Suites are weak symbols. So a suite that is named but not defined, or defined but not named, would
# silently not run.
check_test()
{
    sed -n '/^#define PURE_SUITES/,/^#define DECLARE/p' test/suites.h | grep -oE 'X\([a-z_]+\)' |
        sed 's/X(\(.*\))/\1/' | sort > "$work/named"
    cat test/base/check_*.c test/nccl/check_*.c test/rules/check_*.c test/plugin/check_*.c \
        test/dropin/check_*.c | grep -oE '^(Suite \*)?[a-z_]+_suite\(void\)' |
        sed -E 's/^(Suite \*)?(.*)_suite.*/\2/' | sort > "$work/there"
    same "suites of test/suites.h and of test/{base,nccl,rules,plugin,dropin}/ differ" \
        "$work/named" "$work/there"
}

check_family()
{
    sed -n '/kernel_word\[\] = {/,/};/p' nccl/names.c | grep -oE '"[a-z0-9_]+"' | tr -d '"' |
        sort > "$work/words"
    sed -n '/Kernels are /,/kernels\.md/p' docs/reference/rules-language.md |
        sed 's/.*Kernels are //' | grep -oE '`[a-z0-9_]+`' | tr -d '`' | sort > "$work/page"
    same "the kernels of nccl/names.c are not those of docs/reference/rules-language.md" \
        "$work/words" "$work/page"
    sed -nE 's/^    X\(AR_[A-Z0-9_]+, ([a-z0-9_]+),.*/\1/p' kernels/choose/families.h |
        sort > "$work/rows"
    same "the rows of AR_FAMILY_MAP are not the kernels of nccl/names.c" "$work/rows" "$work/words"
    for name in $(grep -vx nccl "$work/rows"); do
        grep -qw "ar_kernels_$name" kernels/device/*.cu kernels/device/*/*.cu ||
            wrong "no file of kernels/device/ defines ar_kernels_$name"
    done
}

sed -n '/^| topic |/,/^$/p' CONTRIBUTING.md | grep '^|' | sed '1,2d' > "$work/lines"
[ "$(wc -l < "$work/lines")" -ge 10 ] ||
    { echo "FAIL CONTRIBUTING.md has no table of places"; exit 1; }
while IFS='|' read -r nothing topic question places; do
    topic=$(echo $topic)
    echo "$places" | grep -oE '`[^`]+` `[^`]+`' | tr -d '`' > "$work/places"
    [ -s "$work/places" ] || wrong "the line names no place"
    while read -r file symbol; do
        [ -f "$file" ] || { wrong "there is no $file"; continue; }
        grep -qw -- "$symbol" "$file" || wrong "$file has no $symbol"
    done < "$work/places"
    if command -v "check_$topic" > /dev/null; then "check_$topic"; else wrong \
            "test/places.sh has no check_$topic"; fi
done < "$work/lines"

topic="size" # no file has more than 500 lines and no folder more than 20 files, except for data
git ls-files |
    grep -vE '^(bench/results|test/data|test/golden|test/fuzz)/' > "$work/files" 2> /dev/null
if [ -s "$work/files" ]; then
    grep -E '\.(c|h|cu|cuh|py|sh|js|html|mk|md|1|5)$' "$work/files" | grep -v '^CHANGELOG' |
        xargs wc -l |
        awk '$1 > 500 && $2 != "total" { print $2 " has " $1 " lines" }' > "$work/large"
    sed -n 's|/[^/]*$||p' "$work/files" | sort | uniq -c |
        awk '$1 > 20 { print $2 "/ has " $1 " files" }' >> "$work/large"
    # No line of code has more than 100 columns. If this were so in the four scripts that are left
    # out, each of them would have more than 500 lines. A column is a character, so the bytes 0x80
    # to 0xbf, which continue a character of UTF-8, do not count.
    git ls-files test/fuzz >> "$work/files"
    grep -E '\.(c|h|cu|cuh|py|sh|js|mk)$|^Makefile$|^\.ci/run$' "$work/files" |
        grep -vE '^test/(cli/(doctor|gpu|run)|dropin/run)\.sh$' | LC_ALL=C xargs awk '
            length > 100 { gsub(/[\200-\277]/, "") }
            length > 100 { print FILENAME ":" FNR " has " length " columns" }' >> "$work/large"
    [ ! -s "$work/large" ] || wrong "$(cat "$work/large")"
else
    echo "skip sizes of lines, files and folders: this is no git checkout"
fi
[ "$failed" = 0 ] && echo "places: $(wc -l < "$work/lines") lines of CONTRIBUTING.md are true"
exit "$failed"

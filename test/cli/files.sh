#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# files.sh BUILD - checks that the files which commands write are valid. Pages, JSON and raw data go
# through parsers that share no code with the command (parse.py). Rules go through symtuner's own
# reader. To test the escaping, names of rules, GPUs, files and hosts have quotes, tags and escape
# sequences.
# Exit 0: all right. 1: something is not. 77: no python3 here, or no node to draw the pages with.
set -u
command -v python3 > /dev/null || { echo "files.sh: skipped, no python3 here"; exit 77; }
build=$(cd "$1" && pwd)
root=$PWD
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0 checked=0
ok() { # ok WHAT STATUS: counts a check, which has failed unless STATUS is 0
    checked=$((checked + 1))
    [ "$2" -eq 0 ] || { echo "FAIL $1"; failed=1; }
}
symtuner=$build/symtuner
esc=$(printf '\033') feed='
'
parse() { python3 "$root/test/cli/parse.py" "$@"; }
# Run the script of each page, and store what it shows as PAGE.drawn.html. Without node, as on a
# fresh Debian, only parse the pages.
draw() {
    parse "$@" || return 1
    command -v node > /dev/null || return 0
    for page; do
        node "$root/test/cli/draw.js" "$page" > "${page%.html}.drawn.html" &&
            parse "${page%.html}.drawn.html" || return 1
    done
}
shows() { # shows PAGE WORD: checks that the drawn page has the word, if there is node
    ! command -v node > /dev/null || grep -qF -- "$2" "${1%.html}.drawn.html"
}

# ---- inputs that try to get out of their quotes --------------------------------------------------
odd="a<b>&\"'${esc}[31m]]><!--"
{
    printf '[rule %s]\nbytes = ..64KiB\nprefer = general:ring/ll\n\n' "$(echo "$odd" | tr -d ]\")"
    printf '[rule \377\302\2332\342\200\256]\nbytes = 1MiB..\nprefer = symmetric\nchannels = 8\n\n'
    printf '[kernels k%s]\nkernel = pull\n' "$(echo "$odd" | tr -d ]\")"
} > odd.rules
name="odd<&>\"' ${esc}[2J$feed[rule x].rules"
cp odd.rules "$name"
machine='gpu=NVIDIA <b>&"'"'$esc[7m]]>; links=nvlink; multicast=no"
sed "s/^# gpu .*/# gpu NVIDIA <b>\&\"'$esc[7m]]>/; s/^# date .*/# date <i>\&$esc/" \
    "$root/test/data/tune.csv" > odd.csv
sed "s/host=[^ ]*/host=<\&\"'$esc[1m/; s/mode=[^ ]*/mode=\"\\\\$esc/; s/nccl=[^ ]*/nccl=\"<\&/" \
    "$root/test/data/ledger/rank0.ledger" > odd.ledger
sed 's/pid=[0-9]*/pid=7/; s/mode=[^ ]*/mode=off/' odd.ledger > other.ledger
"$symtuner" check odd.rules > check.txt
ok "odd.rules is legal: $(cat -v check.txt)" $?
grep -q "$esc" odd.ledger && grep -q "$esc" odd.csv && grep -q "$esc" odd.rules
ok "the inputs are hostile" $?

# ---- table: the page -----------------------------------------------------------------------------
sh "$root/test/golden/texts.sh" golden || exit 1
i=0
for rules in "$root/docs/example.rules" "$root/test/data/kernels.rules" \
    "$root/test/demo/demo.rules" \
    golden/rules/*.rules "$name"; do
    i=$((i + 1))
    "$symtuner" table "$rules" --coll all --ranks 2,8 --machine "$machine" \
        --html map$i.html > map$i.text
    ok "table --html of $rules" $?
done
draw map*.html
ok "every page holds JSON, and its script draws it as XML" $?
"$symtuner" table "$root/docs/example.rules" --html new.html > /dev/null &&
    "$symtuner" table "$root/docs/example.rules" --svg old.html > /dev/null 2> err &&
    grep -q 'write --html FILE instead of --svg' err && cmp new.html old.html
ok "table --svg, the earlier spelling of --html, with a hint: $(cat err)" $?
long=$(printf '%0250d' 0).html
"$symtuner" table "$root/docs/example.rules" --html "$long" > /dev/null 2> err && parse "$long" &&
    [ "$(ls ./*"$long"*)" = "./$long" ]
ok "a name of 255 characters, which leaves no room for that of a temporary file: $(cat err)" $?
cat > all.rules <<'X'
[rule all]
coll = allreduce
prefer = general:ring/ll
[rule eight]
coll = allgather
ranks = 8
bytes = 1MiB..
registered = yes
prefer = general:ring/simple
X
"$symtuner" table all.rules --coll allreduce,allgather --ranks 2,4,8 --machine h200x8 \
    --html rows.html > /dev/null
sed -n 's/.*{"label": "\([^"]*\)".*/\1/p' rows.html > rows
printf '%s\n' 'allreduce, 2,4,8 ranks' 'allgather, 2,4 ranks' 'allgather, 8 ranks, plain' \
    'allgather, 8 ranks, registered' | diff - rows
ok "rows of a picture that are equal are one" $?
draw rows.html && shows rows.html '>allgather, 8 ranks, registered</text>'
ok "they are drawn" $?
grep -q 'u003c32 MiB' map1.html && ! grep -q '<32 MiB' map1.html &&
    shows map1.html '&#60;32 MiB: limits'
ok "docs/example.rules has the range that was written raw" $?

# ---- tune: rules, report, JSON -------------------------------------------------------------------
cp odd.csv "$name.csv"
"$symtuner" tune --from "$name.csv" --out "out$name" --json > tune.json 2> err
ok "tune --from: $(cat -v err)" $?
"$symtuner" tune --from "$root/test/data/tune.csv" --out plain.rules --json > plain.json 2> err
ok "tune --from the sample: $(cat -v err)" $?
cp "out$name" tuned.rules && cp "out$name.html" tuned.html
draw tuned.html plain.rules.html && parse tune.json plain.json
ok "reports and JSON of tune" $?
"$symtuner" tune --from "$root/test/data/tune-beside.csv" --out beside.rules \
    --json > beside.json 2> err &&
    draw beside.rules.html && parse beside.json &&
    shows beside.rules.html 'Beside GEMMs: what a call adds' &&
    shows beside.rules.html 'A/A: NCCL, symmetric, again' && ! grep -q '"beside"' plain.json
ok "report and JSON of tune --beside: $(cat -v err)" $?
ran='{"ranks": 4, "rounds": 3, "nccl": "2.28.9", "floor_gbps": 389.90, "sym_ctas": 32, "why": "'
files='"gpu": "NVIDIA H200", "date": "2026-11-21", "rules": "plain.rules", "raw": "'
head -1 plain.json | grep -qF "$files$root/test/data/tune.csv\"," &&
    grep -q "^$ran" plain.json
ok "JSON of tune says what was measured and where the files are" $?
for rules in tuned.rules plain.rules; do
    SYMTUNER_MACHINE=$machine "$symtuner" check "$rules" > check.out 2>&1
    ok "$rules of tune are legal and without findings: $(cat -v check.out)" $?
done
# Give tune raw data in which one way (kernel, blocks, threads) is faster at 4 and 8 MiB. Above 4
# MiB the library's table depends on what runs beside the kernels. So above 4 MiB tune must write a
# rule for calls alone only (when-beside = alone).
sed 's#,chunked/128/512,\(4194304\|8388608\),.*#,chunked/128/512,\1,9.0#' \
    "$root/test/data/tune.csv" > fast.csv
"$symtuner" tune --from fast.csv --out fast.rules > fast.out 2>&1
sed -n '/kernels 4MiB/,$p' fast.rules | grep -E '^\[|^bytes|^when' > fast.spans
cat > fast.want <<'X'
[kernels 4MiB]
bytes      = 3145729..4194304
[kernels 4MiB-alone]
bytes      = 4194305..12582912
when-beside = alone
X
diff fast.want fast.spans > difference
ok "rules of tune above 4 MiB are for kernels that run alone: $(cat fast.out difference)" $?
[ "$("$symtuner" decide allreduce 64KiB --rules tuned.rules --json |
    sed 's/.*"rule": \([^,]*\).*/\1/')" = null ]
ok "the name of a file adds no rule" $?
for bad in 's/^# floor .*/# floor nan/' 's/^# floor .*/# floor 1e999/' 's/,9.105$/,nan/' \
    's/,9.105$/,inf/' 's/,9.105$/,-1/'; do
    sed "$bad" "$root/test/data/tune.csv" > bad.csv
    timeout 20 "$symtuner" tune --from bad.csv --out bad.rules --json > bad.json 2> /dev/null
    [ $? = 1 ]
    ok "raw data with $bad is refused" $?
done
for word in '<b class="plugin">plugin</b> (libsymtuner.so) NCCL' 'on 32 CTAs' \
    'allreduce: <b>1.28 times</b> as fast as with NCCL' \
        '<b class="library">library</b> (libsymtuner_ar.so)' \
    'as fast as the fastest of NCCL' '</i>with plugin, 32 CTAs</span>' \
        '</i>libsymtuner_ar.so</span>' \
    'export SYMTUNER_RULES=&#34;$PWD&#34;/plain.rules' 'export NCCL_ENV_PLUGIN=libsymtuner.so'; do
    shows plain.rules.html "$word"
    ok "the report says: $word" $?
done
python3 -c '
import json, re
page = open("tuned.html", encoding="utf-8").read()
word = json.loads(re.search("\"data\">(.*?)</script>", page, re.S).group(1))["rules_word"]
print(f"export SYMTUNER_RULES=\"$PWD\"/{word}")' > export.sh
[ "$(unset SYMTUNER_RULES; . ./export.sh; echo "$SYMTUNER_RULES")" = "$PWD/out$name" ]
ok "a shell reads the export line: $(cat -v export.sh)" $?
cp "$root/test/data/tune.csv" . &&
    "$symtuner" tune --from "$PWD/tune.csv" --ledger "$root/test/data/ledger/mix.ledger" \
    --out="$PWD/mix.rules" > mix.txt 2> err
ok "tune --from --ledger: $(cat err)" $?
draw mix.rules.html && ! grep -qF "$PWD" mix.rules.html && ! grep -qF "$root" mix.rules.html &&
    ! grep -qF "$PWD" mix.rules
ok "report and rules name no folder of whoever made them" $?
"$symtuner" tune --from tune.csv --ledger "$root/test/data/ledger/mix.ledger" --out mix.rules \
    --json > mix.json 2> err &&
    python3 "$root/test/cli/gain.py" tune.csv "$root/test/data/ledger/mix.ledger" mix.json mix.txt
ok "the gain on a ledger's mix is what the raw data say" $?
for word in 'You gain 15.9' 'on the mix of mix.ledger with the plugin, 55.8' \
    '<div class="big">55.8' 'Not counted: 55 calls'; do
    shows mix.rules.html "$word"
    ok "the report of a ledger says: $word" $?
done
"$symtuner" tune --from tune.csv --ledger "$root/test/data/ledger/rank0.ledger" \
    --out none.rules > none.txt 2> err &&
    grep -q '^No call of rank0.ledger was measured: none has these 4 ranks' none.txt &&
    draw none.rules.html
ok "a ledger of other ranks gains nothing, and why" $?
sed 's/,symmetric\/\(8\|16\|32\|64\),\([0-9]*\),.*/,symmetric\/\1,\2,9999.0/' tune.csv > slow.csv
"$symtuner" tune --from slow.csv --ledger "$root/test/data/ledger/mix.ledger" \
    --out slow.rules > slow.txt 2> err &&
    grep -q '^You gain nothing that is more than noise (0.0 ±0.0 %) on the mix' slow.txt &&
    draw slow.rules.html &&
    shows slow.rules.html 'You gain nothing on the mix of mix.ledger with the plugin'
ok "where NCCL's own count stays, the plugin gains nothing" $?
! grep -qi 'rank order' plain.rules && grep -q 'docs/reference/sums.md' plain.rules &&
    tr '\n' ' ' < "$root/docs/reference/sums.md" | grep -q 'There is one order of addition'
ok "tuned rules say of sums what docs/reference/sums.md says, by pointing there" $?

# ---- nobody else's file is overwritten -----------------------------------------------------------
sample=$root/test/data/tune.csv
kept() { # kept WHAT FILE WANT ARGUMENTS: symtuner must exit with WANT and leave FILE as it is
    cp "$2" before
    what=$1 file=$2 want=$3
    shift 3
    "$symtuner" "$@" > /dev/null 2> err
    [ $? = "$want" ] && cmp -s "$file" before
    ok "$what: $(cat err)" $?
    [ "$want" = 0 ] || grep -q -- '--force' err
    ok "$what: the cure is named" $?
}
cp odd.rules mine.rules
kept "tune keeps rules that a person wrote" mine.rules 2 tune --from "$sample" --out mine.rules
[ ! -e mine.rules.html ]
ok "nothing is written beside them" $?
cp plain.rules changed.rules && echo '# by hand' >> changed.rules
kept "tune keeps its own rules that were changed at the end" changed.rules 2 tune --from "$sample" \
    --out changed.rules
sed 's/^sym-ctas .*/sym-ctas = 8/' plain.rules > changed2.rules
kept "tune keeps its own rules that were changed inside" changed2.rules 2 tune --from "$sample" \
    --out changed2.rules
kept "tune writes its own rules again" plain.rules 0 tune --from "$root/test/data/tune.csv" \
    --out plain.rules --json
rm -f new.rules; echo page > new.rules.html
kept "tune keeps a page that it did not write" new.rules.html 2 tune --from "$sample" \
    --out new.rules
[ ! -e new.rules ]
ok "no rules are written then" $?
rm -f new.rules.html; echo 1,2,3 > new.rules.csv
kept "tune keeps data that it did not write" new.rules.csv 2 tune --fresh --out new.rules
kept "bench keeps data that it did not write" new.rules.csv 2 bench --csv new.rules.csv
sed 's/,9.105$/,9.5/' "$sample" > changed.csv
kept "bench keeps data in tune's form that it did not write" changed.csv 2 bench --csv changed.csv
mkfifo late.csv
"$symtuner" tune --from late.csv --out late.rules > /dev/null 2> err &
exec 3> late.csv # opens when tune reads; by then tune has checked that late.rules does not exist
echo mine > late.rules && cat "$sample" >&3 && exec 3>&-
wait $!
[ $? = 1 ] && grep -q -- '--force' err && [ "$(cat late.rules)" = mine ] && [ ! -e late.rules.html ]
ok "tune keeps a file that somebody wrote while it worked: $(cat err)" $?
ln -s plain.rules link.rules
"$symtuner" tune --from "$sample" --out link.rules > /dev/null 2>&1 && [ -L link.rules ]
ok "a link stays one" $?
"$symtuner" table odd.rules --html page.html > /dev/null && ln -s page.html linked.html &&
    cp page.html before.html
for page in page.html linked.html; do
    (trap '' XFSZ; ulimit -f 2; exec "$symtuner" table odd.rules --ranks 2 --html $page) 2>&1 \
        > /dev/null | grep -q "$page: File too large"
    ok "table says that $page cannot be written" $?
    cmp -s page.html before.html && ! ls page.html.?????? 2> /dev/null
    ok "the old page stays if $page cannot be written" $?
done
"$symtuner" table odd.rules --ranks 2 --html linked.html > /dev/null && [ -L linked.html ] &&
    ! cmp -s page.html before.html
ok "a page is written where a link leads" $?
ln -s new.page dangling.html && "$symtuner" table odd.rules --html dangling.html > /dev/null &&
    [ -L dangling.html ] && [ -s new.page ]
ok "a page is written where a link leads that leads nowhere yet" $?
chmod 640 plain.rules && "$symtuner" tune --from "$sample" --out plain.rules > /dev/null 2>&1 &&
    [ "$(stat -c %a plain.rules)" = 640 ] && ! ls -- *.rules.?????? 2> /dev/null
ok "a file that is written again keeps its mode, and nothing lies beside it" $?
echo picture > map.html
kept "table keeps a picture that it did not write" map.html 2 table odd.rules --html map.html
"$symtuner" tune --from "$sample" --out mine.rules --force > /dev/null 2>&1 &&
    "$symtuner" check mine.rules > check.out &&
    "$symtuner" table odd.rules --html map.html --force > /dev/null
ok "--force overwrites" $?
: > empty.rules
"$symtuner" tune --from "$sample" --out empty.rules > /dev/null 2>&1
ok "an empty file is nobody's" $?
"$symtuner" table odd.rules --html /dev/null > /dev/null
ok "a device is nobody's" $?

mkdir folder
for out in folder none/new.rules folder/none/new.rules; do
    "$symtuner" tune --from "$sample" --out $out > /dev/null 2> err
    [ $? = 2 ] && grep -q "symtuner tune: $out: " err && [ ! -e $out.html ]
    ok "tune says at once that it cannot write $out: $(cat err)" $?
done
"$symtuner" bench --csv none/new.csv > /dev/null 2> err
[ $? = 2 ] && grep -q 'symtuner bench: none/new.csv: No such file or directory' err
ok "bench says at once that it cannot write: $(cat err)" $?
"$symtuner" tune --from "$sample" --out '' > /dev/null 2> err
[ $? = 2 ] && grep -q 'a file name has at least one byte' err
ok "tune wants a name: $(cat err)" $?

# ---- JSON ----------------------------------------------------------------------------------------
i=0
json() { # json STATUS ARGUMENTS: runs symtuner, checks its exit status, and keeps its answer
    want=$1
    shift
    i=$((i + 1))
    "$symtuner" "$@" > answer$i.json 2> err
    [ $? = "$want" ]
    ok "exit status of $* is $want: $(cat -v err)" $?
}
json 0 table "$name" --coll all --machine "$machine" --json
json 1 diff "$root/docs/example.rules" "$name" --json
json 2 check --json "$name" "$root/docs/example.rules" "$root/test/golden/bad/bytes_kb.rules" \
    "none$name"
json 0 decide allreduce 64KiB --rules "$name" --machine "$machine" --json
json 0 decide allgather 1MiB --json --table 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21
json 0 why allreduce 64KiB f32 --nccl 2.28.9 --machine h200x8 \
    --json --set "NCCL_SYM_KERNEL=\"<&$esc"
json 0 env --json
json 0 top odd.ledger --json
json 1 agree odd.ledger other.ledger --json
json 2 top odd.ledger "none$name" --json
env -i NCCL_ALGO="\"<$esc" NCCL_TUNER_PLUGIN="li\"b$esc.so" SYMTUNER_RULE="$odd" \
    "$symtuner" doctor --no-gpu --json > doctor.json 2> err
[ $? = 1 ]
ok "doctor --json: $(cat -v err)" $?
SYMTUNER_RULES=$name SYMTUNER_LEDGER="\"\\$esc" "$symtuner" env --json > env.json
parse answer*.json doctor.json env.json
ok "every JSON is JSON" $?

# ---- the terminal --------------------------------------------------------------------------------
i=0
text() { # text ARGUMENTS: prints what a person would see, results and errors
    i=$((i + 1))
    "$symtuner" "$@" > text$i.txt 2>&1
    [ $? -le 2 ]
    ok "$1 $2" $?
}
text check "$name" none"$esc" "$root/test/golden/bad/bytes_kb.rules"
text table "$name" --coll all --machine "$machine"
text diff "$root/docs/example.rules" "$name" --machine "$machine"
text decide allreduce 64KiB --rules "$name" --machine "$machine"
text decide "all$odd" 1KiB
text decide allreduce "1$odd"
text decide allreduce 1KiB "--no$odd"
text decide allreduce 1KiB --links "$odd"
text decide allreduce 1KiB --machine "$odd"
text decide allreduce 1KiB --rules "$odd"
text why allreduce 64KiB "f$odd" --machine h200x8
text why allreduce 64KiB --machine h200x8 --set "NCCL_SYM_KERNEL=$odd"
text tune --from odd.csv --out "tuned$name"
text tune --from "$odd" --out x
text tune --ledger "$odd"
text top odd.ledger "none$odd"
text agree odd.ledger other.ledger
text "x$odd" y
text help "$odd"
sed 's/^rank/'"$esc"'/; 5s/=/'"$esc"'[1m/' "$root/test/data/ledger/rank0.ledger" > bad.ledger
text agree bad.ledger odd.ledger
env -i NCCL_ALGO="\"<$esc" NCCL_TUNER_PLUGIN="li\"b$esc.so" SYMTUNER_RULE="$odd" \
    NCCL_CONF_FILE="$odd" "$symtuner" doctor --no-gpu > doctor.txt 2>&1
env -i SYMTUNER_RULES="$odd" SYMTUNER_MACHINE="$odd" "$symtuner" env > env.txt 2>&1
env -i SYMTUNER_RULES="$odd" SYMTUNER_MACHINE="$odd" "$symtuner" decide allreduce \
    1KiB > decide.txt 2>&1
parse text*.txt doctor.txt env.txt decide.txt
ok "no control byte reaches the terminal" $?
# Print the letter é, which has two bytes, so often that ends of a buffer cut some of them in two.
long=$(awk 'BEGIN { for (i = 0; i < 9000; i++) printf "\303\251" }')
[ "$(env -i SYMTUNER_RULES="$long" "$symtuner" env | tr -cd '\303\251' | wc -c)" = 18000 ]
ok "characters of several bytes stay whole" $?
[ "$(env -i SYMTUNER_RULES="$(printf 'a\303b\302\303\251')" "$symtuner" env |
    grep -c 'SYMTUNER_RULES=a?b?é')" = 1 ]
ok "half a character becomes one question mark" $?

# ---- rules in a Turkish program ------------------------------------------------------------------
# Python sets the locale that the environment names. In Turkish, the small letter of I is not i. So
# the rules reader must not use the locale to compare words.
mkdir locale
if localedef -i tr_TR -f UTF-8 locale/tr_TR.UTF-8 2> /dev/null &&
    printf '%s\n' '#include <locale.h>' '__attribute__((constructor))' \
        'static void as_python(void) { setlocale(LC_ALL, ""); }' |
    ${CC:-cc} -shared -fPIC -x c -o python.so - 2> /dev/null; then
    printf '[RULE small]\nCOLL = AllReduce\nLINKS = NVLink\nPrefer = General:Ring/SIMPLE\n' \
        > upper.rules
    env -i ASAN_OPTIONS=verify_asan_link_order=0 LOCPATH="$PWD/locale" LC_ALL=tr_TR.UTF-8 \
        LD_PRELOAD="$PWD/python.so" "$symtuner" check upper.rules > turkish.txt 2>&1
    ok "upper and lower case are the same in Turkish: $(cat turkish.txt)" $?
fi

[ "$failed" = 0 ] || exit 1
command -v node > /dev/null ||
    { echo "files: $checked checks fine; skipped: what the pages draw, no node here"; exit 77; }
echo "files: $checked checks, all fine"

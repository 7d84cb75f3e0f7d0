#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# commands.sh BUILD ROUNDS: runs each command except why, bench and env with random words and
# damaged files. It works in a folder of its own, because some commands write files. Exit 1: a
# command crashed or hung.
set -u
build=$(cd "$1" && pwd)
root=$PWD
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
ln -s "$root/docs" "$root/test" "$work/" && cd "$work" || exit 1
one() { # one DICTIONARY SAMPLE: runs cli_fuzz with both
    "$build/cli_fuzz" "$build/symtuner" "test/fuzz/$1.words" "$2" "$rounds" "${SEED:-1}" || {
        [ ! -f cli_fuzz.input ] || cp cli_fuzz.input "$build/cli_fuzz.input"
        exit 1
    }
}
rounds=$2
# doctor and check ask python3 where torch is. This one prints nothing.
mkdir bin && printf '#!/bin/sh\n' > bin/python3 && chmod +x bin/python3
PATH=$PWD/bin:$PATH
one top test/data/ledger/rank0.ledger
one agree test/data/ledger/rank0.ledger
one table docs/example.rules
one diff docs/example.rules
one check docs/example.rules
one decide docs/example.rules
one table test/data/kernels.rules
one check test/data/kernels.rules
one tune test/data/tune.csv
one tune test/data/tune-beside.csv
one run docs/example.rules # run.words begins with --print, so no program is started
NCCL_CONF_FILE=/dev/stdin one doctor test/fuzz/nccl.conf
# This python3 says that torch's library is /dev/stdin. So the doctor reads damaged copies of
# sample.so as a library, also its list of folders to search (rpath).
printf '#!/bin/sh\nprintf "python\\t3.11.0\\t/bin/python3\\ntorch\\t/dev/stdin\\n"\n' > bin/python3
${CC:-cc} -shared -fPIC -Wl,-rpath,'$ORIGIN/../lib:/usr/lib' -x c -o sample.so - <<'C'
const char text[] = "NCCL version 2.28.9+cuda13.0";
int ncclTunerPlugin_v4, ncclProfiler_v5, ncclNetPlugin_v10;
C
NCCL_TUNER_PLUGIN=/dev/stdin one elf sample.so
one python sample.so

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - see README.md. Exit 77: cannot run here.
here=$(cd "$(dirname "$0")" && pwd)
skip() { echo "manual-matrix: skipped: $*"; exit 77; }
case ${1:-2} in
*[!0-9]* | 0* | 1 | ???*)
    echo "manual-matrix: GPUS is '$1'; write a number from 2 to 99" >&2
    exit 2
    ;;
esac
python=${JAX_PYTHON:-python3}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "$gpus" -ge "${1:-2}" ] || skip "needs ${1:-2} GPUs, $gpus here"
"$python" -c 'import jax' 2>/dev/null || skip "$python has no jax"
export PYTHONPATH="$here/../../jax${PYTHONPATH:+:$PYTHONPATH}"
: "${SYMTUNER_LIB_DIR:=${2:-$here/../../build}}"
export SYMTUNER_LIB_DIR
exec "$python" "$here/matrix.py" "${1:-2}"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - see README.md. Exit 77: cannot run here.
here=$(cd "$(dirname "$0")" && pwd)
python=${JAX_PYTHON:-python3}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "$gpus" -ge "${1:-2}" ] || { echo "manual-matrix: skipped: needs ${1:-2} GPUs, $gpus here"; exit 77; }
"$python" -c 'import jax' 2>/dev/null || { echo "manual-matrix: skipped: $python has no jax"; exit 77; }
export PYTHONPATH="$here/../../jax${PYTHONPATH:+:$PYTHONPATH}"
: "${SYMTUNER_LIB_DIR:=${2:-$here/../../build}}"
export SYMTUNER_LIB_DIR
exec "$python" "$here/matrix.py" "${1:-2}"

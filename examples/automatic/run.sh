#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - see README.md. Exit 77: cannot run here.
here=$(cd "$(dirname "$0")" && pwd)
python=${JAX_PYTHON:-python3}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "$gpus" -ge "${1:-2}" ] || { echo "automatic: skipped: needs ${1:-2} GPUs, $gpus here"; exit 77; }
"$python" -c 'import jax' 2>/dev/null || { echo "automatic: skipped: $python has no jax"; exit 77; }
exec "$python" "$here/demo.py" "${1:-2}"

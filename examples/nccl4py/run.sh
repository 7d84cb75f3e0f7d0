#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - registers buffers and windows with nccl4py, and checks the sums. GPUS is
# the number of GPUs (2). BUILD is the folder with the libraries. README.md says what it should
# print. Exit 77: cannot run here.
# TORCH_PYTHON: a Python with torch.  WHEELS: a folder with the wheels that README.md names.
. "$(dirname "$0")/../start.sh"
python=${TORCH_PYTHON:-python3}
wheels=${WHEELS:-$here/../../.whl}
"$python" -c 'import torch' 2>/dev/null || skip "$python has no torch (TORCH_PYTHON)"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
if ! "$python" -c 'import nccl.core' 2>/dev/null; then
    for wheel in "$wheels"/nccl4py*.whl "$wheels"/cuda_*.whl; do # a wheel is a zip file
        [ -f "$wheel" ] && python3 -m zipfile -e "$wheel" "$work/site"
    done
    export PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}"
    "$python" -c 'import nccl.core' 2>"$work/why" ||
        skip "not installed, and not in $wheels: $(tail -1 "$work/why")"
fi
[ -f "$build/libsymtuner.so" ] && export NCCL_ENV_PLUGIN="$(cd "$build" && pwd)/libsymtuner.so"
"$python" "$here/register.py" "${1:-2}"

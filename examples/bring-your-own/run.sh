#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - see README.md. Exit 77: cannot run here.
. "$(dirname "$0")/../start.sh"
need_jax
use_package
"$python" "$here/allreduce.py" --gpus "${1:-2}" &&
    exec "$python" "$here/allreduce.py" --gpus "${1:-2}" --processes

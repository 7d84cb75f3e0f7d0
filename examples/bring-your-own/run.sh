#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - runs symtuner.all_reduce instead of jax.lax.psum. GPUS is the number
# of GPUs (2). BUILD is the folder with the libraries. README.md says what it should print. Exit 77:
# cannot run here.
. "$(dirname "$0")/../start.sh"
need_jax
use_package
"$python" "$here/allreduce.py" --gpus "${1:-2}" &&
    exec "$python" "$here/allreduce.py" --gpus "${1:-2}" --processes

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - tests the ways in which our kernels reach the memory of other GPUs in JAX.
# GPUS is the number of GPUs (2). BUILD is the folder with the libraries. README.md says what it
# should print. Exit 77: cannot run here.
. "$(dirname "$0")/../start.sh"
need_jax
use_package
exec "$python" "$here/matrix.py" "${1:-2}"

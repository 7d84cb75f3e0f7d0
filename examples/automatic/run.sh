#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - runs psum, all_gather and psum_scatter of stock JAX with symmetric
# buffers. GPUS is the number of GPUs (2). BUILD is the folder with the libraries. README.md says
# what it should print. Exit 77: cannot run here.
. "$(dirname "$0")/../start.sh"
need_jax
exec "$python" "$here/demo.py" "${1:-2}"

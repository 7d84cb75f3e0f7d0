#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - see README.md. Exit 77: cannot run here.
. "$(dirname "$0")/../start.sh"
need_jax
use_package
exec "$python" "$here/matrix.py" "${1:-2}"

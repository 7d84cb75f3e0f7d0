#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - see README.md. Exit 77: cannot run here.
. "$(dirname "$0")/../start.sh"
need_jax
exec "$python" "$here/demo.py" "${1:-2}"

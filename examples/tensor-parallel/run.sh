#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [GPUS [BUILD]] - runs layers.py, which does not name symtuner, with symtuner.install().
# GPUS is the number of GPUs (2). BUILD is the folder with the libraries. README.md says what it
# should print. Exit 77: cannot run here.
. "$(dirname "$0")/../start.sh"
need_jax
use_package
"$python" "$here/layers.py" "${1:-2}" || exit 1
# Do what SYMTUNER_JAX=report does. That variable works only where the package is installed; here
# the package is only in the source tree.
exec "$python" - "$here/layers.py" "${1:-2}" <<'END'
import runpy
import sys

import symtuner

symtuner.install()
del sys.argv[0]
runpy.run_path(sys.argv[0])
print(symtuner.report())
left = [call for call in symtuner.report() if not call.replaced]
sys.exit(0 if symtuner.report() and not left else "FAILED: all should be replaced")
END

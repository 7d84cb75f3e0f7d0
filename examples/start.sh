# SPDX-License-Identifier: Apache-2.0
# start.sh - the beginning of every run.sh. Checks the argument GPUS, and sets $here and $build.
here=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$here")
build=${2:-$here/../../build}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
skip() { echo "$name: skipped: $*"; exit 77; }
need_jax() { # jax.numpy, because in the root of the repository "import jax" finds the folder jax/
    python=${JAX_PYTHON:-python3}
    "$python" -c 'import jax.numpy' 2>/dev/null || skip "$python has no jax"
}
use_package() { # use the package and its libraries in this source tree
    export PYTHONPATH="$here/../../jax${PYTHONPATH:+:$PYTHONPATH}"
    : "${SYMTUNER_LIB_DIR:=$build}"
    export SYMTUNER_LIB_DIR
}
case ${1:-2} in
*[!0-9]* | 0* | 1 | ???*)
    echo "$name: GPUS is '$1'; write a number from 2 to 99" >&2
    exit 2
    ;;
esac
[ "$gpus" -ge "${1:-2}" ] || skip "needs ${1:-2} GPUs, $gpus here"

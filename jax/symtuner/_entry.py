# SPDX-License-Identifier: Apache-2.0
"""SYMTUNER_JAX=1, or report: symtuner.install() without an import in the program.

JAX imports this module, an entry point of the group jax_plugins, and calls initialize() before it
looks for its backends, in every program of everyone who has the package.
"""

import os


def initialize() -> None:
    if os.environ.get("SYMTUNER_JAX", "0") != "0":
        from . import _install

        _install.install_as_asked()

# SPDX-License-Identifier: Apache-2.0
"""SYMTUNER_JAX=1 or SYMTUNER_JAX=report: symtuner.install() without an import in the program.

This module is an entry point of the group jax_plugins. So wherever the package is installed, JAX
imports this module in every program, and calls initialize() before it looks for its backends.
"""

import os


def initialize() -> None:
    if os.environ.get("SYMTUNER_JAX", "0") != "0":
        from . import _install

        _install.install_as_asked()

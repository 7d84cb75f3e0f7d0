# SPDX-License-Identifier: Apache-2.0
"""Call symtuner.install() if SYMTUNER_JAX is 1 or report. The program need not import symtuner.

This module is an entry point of the group jax_plugins. So wherever the package is installed, JAX
imports this module in every program, and calls initialize() before it looks for its backends.
"""

import os


def initialize() -> None:
    if os.environ.get("SYMTUNER_JAX", "0") != "0":
        from . import _install

        _install.install_as_asked()
